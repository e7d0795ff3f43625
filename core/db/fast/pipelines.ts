import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { ConnectionOptions, Outcome, SharedConnection, Statement } from './connection.js'
import { MAX_VALUES } from '../messages.js'
import type { Judge } from './pace.js'

export interface PipelineOptions {
  /** What its connections are. */
  readonly Connection: new (options: ConnectionOptions) => SharedConnection
  readonly connections: number
  /** Of a row. */
  readonly maxBytes: number
  /** How long the server may say nothing while it is asked. */
  readonly silenceMs: number
  /** Behind a read that takes longer nobody has to wait. */
  readonly slowMs: number
  /** @returns a connection that is open */
  connect(): Promise<pg.Client>
  /** Ends what a connection has PostgreSQL do. */
  cancel(client: pg.Client): void
  /** Whether the database is known not to answer: then no statement is taken. */
  isDown(): boolean
  /** Told when there is none to be had. */
  failed(error: unknown): void
  /** Told what became of statements that were sent together. */
  onBatch(outcome: Outcome): void
}

/**
 * A few connections that quick statements share, each with many at a time: the servers on both sides are woken less often, and
 * less is sent. None can be cancelled alone: who may be here is for the caller to know.
 */
export interface Pipelines {
  readonly open: number
  /** Statements whose answers are owed. */
  readonly underWay: number
  /**
   * @param pace is told how long it took
   * @returns undefined when there is no room, or no connection yet: the first who asks have it opened, and go elsewhere
   * @throws NotDone: it should be asked elsewhere
   */
  ask(statement: Statement, values: readonly (string | null)[], pace: Judge): Promise<Buffer> | undefined
  close(): Promise<void>
}

/** On each connection; more would wait longer than for a connection of the pool. */
const MOST_UNDER_WAY = 32
/** Of the values of one: what brings more takes its time. */
const MAX_VALUE_BYTES = 16 * 1024
const LOOK_MS = 1000
const IDLE_MS = 30_000
const LIFE_MS = 1_800_000
/** After an attempt to connect that has failed. */
const RETRY_MS = 5000
const CLOSE_MS = 5000

export function openPipelines(options: PipelineOptions): Pipelines {
  /** Those that have not closed, retired ones too. */
  const connections = new Set<SharedConnection>()
  let connecting = 0
  let closed = false
  let failedAt = -Infinity
  const timer = setInterval(look, LOOK_MS).unref()
  /** Runs while anything is under way. */
  let watch: NodeJS.Timeout | undefined

  function look(): void {
    for (const connection of connections) {
      if (connection.load > 0 && connection.silentMs > options.silenceMs) connection.destroy('no answer in time')
      else if (connection.retired) continue
      else if (connection.load === 0 && connection.silentMs > IDLE_MS) connection.retire()
      else if (performance.now() - connection.openedAt > LIFE_MS) connection.retire()
    }
  }

  function lookForSlow(): void {
    for (const connection of connections) connection.overtakeIfSlow(options.slowMs)
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
    get underWay() {
      return [...connections].reduce((sum, { load }) => sum + load, 0)
    },
    ask(statement, values, pace) {
      if (options.isDown() || values.length > MAX_VALUES || lengthOf(values) > MAX_VALUE_BYTES) return undefined
      let usable = connecting
      let least: SharedConnection | undefined
      for (const connection of connections) {
        if (connection.retired) continue
        usable++
        if (!least || connection.load < least.load) least = connection
      }
      const isBusy = !least || least.load > 0
      // Some that take nothing more may still have to do.
      const hasRoom = usable < options.connections && connecting + connections.size < 2 * options.connections
      if (isBusy && hasRoom && !closed && performance.now() - failedAt > RETRY_MS) void connect()
      if (!least || least.load >= MOST_UNDER_WAY) return undefined
      watch ??= setInterval(lookForSlow, options.slowMs / 2).unref()
      return least.ask(statement, values, pace)
    },
    async close() {
      closed = true
      for (const connection of connections) connection.retire()
      const deadline = performance.now() + CLOSE_MS
      while (connections.size > 0 && performance.now() < deadline) await sleep(10)
      for (const connection of connections) connection.destroy('the server ends')
      clearInterval(watch)
      clearInterval(timer)
    },
  }
}

const lengthOf = (values: readonly (string | null)[]): number =>
  values.reduce((sum, value) => sum + (value?.length ?? 0), 0)
