import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { DOUBT_MS } from '../database.js'
import { answerTooLarge } from '../limit-answers.js'
import { MAX_VALUES } from '../messages.js'
import {
  type QueuedStatement,
  type Batch,
  type ConnectionOptions,
  NotDone,
  OVERTAKEN,
  SharedConnection,
  type Statement,
} from './connection.js'
import type { Origin } from '../slow-queries.js'
import type { Writer } from '../writer.js'
import type { Judge, Lateness } from './pace.js'

export interface PipelineOptions {
  /** Class of the connections. */
  readonly Connection: new (options: ConnectionOptions) => SharedConnection
  readonly connections: number
  /** Maximum size of a row, in bytes. */
  readonly maxBytes: number
  /** Maximum time without data while a statement is running. */
  readonly silenceMs: number
  /** Duration after which other statements stop waiting behind a slow one. */
  readonly slowMs: number
  /** How late everything is. */
  readonly lateness: Pick<Lateness, 'ms'>
  /** @returns an open connection */
  connect(): Promise<pg.Client>
  /** Cancels the running query of a connection. */
  cancel(client: pg.Client): void
  /** Called while an answer takes long. */
  doubt(): void
  /** @see Database.silenced */
  readonly silenced: Set<() => void>
  /** Whether the database is known to be unavailable, so that no statement is accepted. */
  isDown(): boolean
  /** Called when no connection could be opened. */
  failed(error: unknown): void
  /** @see ConnectionOptions.onBatch */
  onBatch: ConnectionOptions['onBatch']
}

/**
 * A few connections that quick statements share, many at a time. This wakes both sides less often and sends less.
 * Statements cannot be cancelled individually, so the caller decides which may run here.
 */
export interface Pipelines {
  readonly open: number
  /** Number of unanswered statements. */
  readonly inFlight: number
  /**
   * Runs a statement.
   * @param origin the request that it is part of
   * @param pace receives its duration
   * @param writer told first
   * @returns undefined when there is no room or no connection yet; the first calls open one and use another lane
   * @throws NotDone when the statement should run on another lane
   */
  run(
    statement: Statement,
    values: readonly (string | null)[],
    origin: Origin,
    pace: Judge,
    writer?: Writer,
  ): Promise<Buffer> | undefined
  close(): Promise<void>
}

/** Maximum per connection. More would wait longer than for a pooled connection. */
const MAX_IN_FLIGHT = 32
/** Maximum size of the values of one statement, in bytes. Larger statements are not quick. */
const MAX_VALUE_BYTES = 16 * 1024
const CHECK_MS = 1000
const IDLE_MS = 30_000
const LIFE_MS = 1_800_000
/** Pause after a failed attempt to connect, in milliseconds. */
const RETRY_MS = 5000
const CLOSE_MS = 5000

export function openPipelines(options: PipelineOptions): Pipelines {
  /** Connections that have not closed, including retired ones. */
  const connections = new Set<SharedConnection>()
  let connecting = 0
  let closed = false
  let failedAt = -Infinity
  const timer = setInterval(checkIdle, CHECK_MS).unref()
  options.silenced.add(giveUp)
  /** Runs while any statement is in progress. */
  let watch: NodeJS.Timeout | undefined

  function checkIdle(): void {
    for (const connection of connections) {
      const silentMs = connection.load > 0 ? connection.silentMs : 0
      if (silentMs > DOUBT_MS) options.doubt()
      if (silentMs > options.silenceMs) connection.destroy('no answer in time')
      else if (connection.retired) continue
      else if (connection.load === 0 && connection.silentMs > IDLE_MS) connection.retire()
      else if (performance.now() - connection.openedAt > LIFE_MS) connection.retire()
    }
  }

  function giveUp(): void {
    for (const connection of connections) if (connection.load > 0) connection.destroy('no answer in time')
  }

  function checkSlow(): void {
    for (const connection of connections) connection.overtakeIfSlow(options.slowMs + options.lateness.ms)
    if ([...connections].some(({ load }) => load > 0)) return
    clearInterval(watch)
    watch = undefined
  }

  async function connect(): Promise<void> {
    connecting++
    try {
      const client = await options.connect()
      if (closed) await client.end()
      else {
        const connection = new options.Connection({
          client,
          maxBytes: options.maxBytes,
          lateness: options.lateness,
          onClose: () => connections.delete(connection),
          cancel: () => options.cancel(client),
          onBatch: options.onBatch,
        })
        connections.add(connection)
      }
    } catch (error) {
      failedAt = performance.now()
      options.failed(error)
    } finally {
      connecting--
    }
  }

  return {
    get open() {
      return connections.size
    },
    get inFlight() {
      return [...connections].reduce((sum, { load }) => sum + load, 0)
    },
    run(statement, values, origin, pace, writer) {
      if (options.isDown() || values.length > MAX_VALUES || lengthOf(values) > MAX_VALUE_BYTES) return undefined
      let usable = connecting
      let least: SharedConnection | undefined
      for (const connection of connections) {
        if (connection.retired) continue
        usable++
        if (!least || connection.load < least.load) least = connection
      }
      const isBusy = !least || least.load > 0
      // Retired connections may still be busy.
      const hasRoom = usable < options.connections && connecting + connections.size < 2 * options.connections
      if (isBusy && hasRoom && !closed && performance.now() - failedAt > RETRY_MS) void connect()
      if (!least || least.load >= MAX_IN_FLIGHT) return undefined
      watch ??= setInterval(checkSlow, options.slowMs / 2).unref()
      return least.run(statement, values, origin, pace, writer)
    },
    async close() {
      closed = true
      for (const connection of connections) connection.retire()
      const deadline = performance.now() + CLOSE_MS
      while (connections.size > 0 && performance.now() < deadline) await sleep(10)
      for (const connection of connections) connection.destroy('the server is shutting down')
      clearInterval(watch)
      clearInterval(timer)
    },
  }
}

const lengthOf = (values: readonly (string | null)[]): number =>
  values.reduce((sum, value) => sum + (value?.length ?? 0), 0)

/**
 * A connection that quick reads share. Each read is answered as soon as it completes. When one fails, PostgreSQL skips
 * those behind it, and they are sent again. Every failure is NotDone, because reads are always safe to retry.
 */
export class ReadConnection extends SharedConnection {
  protected override completed(queued: QueuedStatement, cell: Buffer | undefined): void {
    if (cell) queued.resolve(cell)
    else queued.reject(new NotDone('no answer'))
  }

  protected override ended({ statements, done }: Batch): void {
    const [failed, ...passed] = statements.slice(done)
    failed?.reject(new NotDone('the statement has failed'))
    for (const skipped of passed) this.add(skipped)
  }

  protected override lost(batch: Batch): void {
    reject(batch, 'Connection terminated')
  }

  /** Leaves a slow read alone when no other waits. */
  protected override giveUp(batch: Batch): void {
    if (batch.statements.length - batch.done === 1) return
    reject(batch, OVERTAKEN)
    this.options.cancel()
    this.destroy('no client waits for its answers')
  }

  override tooLarge(): boolean {
    this.current?.pace.suspend()
    this.destroy('a row is too large')
    return false
  }

  override noticed(): void {}
}

function reject({ statements, done }: Batch, why: string): void {
  for (const queued of statements.slice(done)) queued.reject(new NotDone(why))
}

/**
 * Maximum answer size in a batch, in bytes. Answers are held until the commit, so requests with larger ones use another
 * lane for a while.
 */
const LARGE = 64 * 1024

/**
 * A connection on which quick inserts share commits: each batch is one transaction. Every insert is answered after the
 * commit. If the batch is rolled back, nothing has happened, and each insert is retried separately elsewhere. If the
 * connection drops before the confirmation, the outcome is unknown, as with any commit.
 */
export class CommitConnection extends SharedConnection {
  /** Answers of the completed statements of the batch. */
  private cells: (Buffer | Error)[] = []
  private isTooLarge = false
  private isGivenUp = false
  private isUnsure = false

  protected override completed({ pace }: QueuedStatement, cell: Buffer | undefined): void {
    if (this.isTooLarge || (cell && cell.length > LARGE)) pace.suspend()
    this.cells.push(cell ?? (this.isTooLarge ? answerTooLarge(this.options.maxBytes) : new Error('no answer')))
    this.isTooLarge = false
  }

  protected override ended(batch: Batch, hasFailed: boolean): void {
    const { cells } = this
    this.cells = []
    this.isTooLarge = false
    if (hasFailed) for (const queued of batch.statements) queued.reject(new NotDone('rolled back'))
    else if (this.isUnsure || cells.length < batch.statements.length) this.lost(batch)
    else {
      for (const [i, queued] of batch.statements.entries()) {
        const cell = cells[i] as Buffer | Error
        if (cell instanceof Error) queued.reject(cell)
        else queued.resolve(cell)
      }
    }
  }

  protected override lost({ statements }: Batch): void {
    for (const queued of statements) queued.reject(new Error('Connection terminated before the commit was confirmed'))
  }

  /** Cancels the whole batch. It counts as rolled back only when PostgreSQL reports it. */
  protected override giveUp({ statements }: Batch): void {
    if (statements.length === 1) return
    this.isGivenUp = true
    this.options.cancel()
  }

  override tooLarge(): boolean {
    this.isTooLarge = true
    return true
  }

  /** PostgreSQL only warns about a commit that was cancelled while it waited for a standby. */
  override noticed(): void {
    this.isUnsure ||= this.isGivenUp
  }
}
