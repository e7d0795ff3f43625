import pg, { type PoolClient } from 'pg'
import QueryStream from 'pg-query-stream'
import type { Prepared } from '../compile/compile.js'
import { serviceError } from '../errors.js'
import { ReaderClock } from '../deadline.js'
import { cancel, checkOut, type Database, DOUBT_MS, isPooled, type Pool, silent, socketOf } from './database.js'
import { clientError } from './errors.js'
import type { Job } from './lane.js'
import type { Place } from './observe.js'
import { type RowBatch, type RowBatches, rowOf } from './row-messages.js'
import { isConnectionError } from './sqlstates.js'

/** Most rows of a small answer, and its size. */
const BATCH = 1000
const SMALL_BYTES = 4 * 1024 * 1024
/** The first batch is small; later ones are sized by bytes and time. */
const FIRST = 16
const GROWTH = 8
const BATCH_BYTES = 1024 * 1024
const BATCH_MS = 1000

/** Connections for streams, and how to take their rows. */
interface RowConnections {
  /** Has no statement timeout, which would apply to the whole stream. */
  readonly pool: Pool
  readonly open: (client: PoolClient) => RowSource
  readonly place: Place
}

/** Keeps values as PostgreSQL writes them. */
const AS_TEXT = { getTypeParser: () => (text: string) => text }

/**
 * Opens a cursor on a separate connection and reads the first rows, so that small responses are recognized, and early
 * errors are ordinary errors. The connection has no statement timeout, because it would apply to the whole stream
 * including a slow reader. Instead each batch has a deadline.
 */
export function readRows(database: Database, connections: RowConnections, job: Job): Promise<RowBatches> {
  const { plan, execution } = job
  const statement = plan.statements[0] as Prepared
  const open = () => openRows(database, connections, statement, job)
  return execution.observer ? execution.observer.trace(statement, execution, connections.place, open) : open()
}

async function openRows(
  database: Database,
  { pool, open, place }: RowConnections,
  statement: Prepared,
  { values, execution, call: { signal } }: Job,
): Promise<RowBatches> {
  const toClientError = (error: unknown): unknown => clientError(error, execution.reader, statement, execution.dialect)
  signal.throwIfAborted()
  const client = await begin(database, pool, execution.timeoutMs, signal)
  const source = open(client)
  const stream = new QueryStream(statement.text + (execution.tags ?? ''), [...values], {
    rowMode: 'array',
    types: AS_TEXT,
  })
  stream.on('error', () => undefined)
  client.query(stream)
  // The first rows share one deadline; later batches have one each.
  let isFirst = true
  const began = performance.now()
  const connection = watch(database, client)
  const batches = nextBatches(
    stream,
    source,
    connection,
    () => (isFirst ? began + execution.timeoutMs - performance.now() : execution.timeoutMs),
    signal,
  )
  let closing: Promise<void> | undefined
  let resolveEnded!: () => void
  const ended = new Promise<void>((resolve) => (resolveEnded = resolve))
  const close = async (ending: Ending) => {
    connection.forget()
    source.drop()
    if (ending === 'given up') await cancel(database, client)
    else if (ending === 'read') stream.destroy()
    const isUsable =
      ending !== 'given up' && source.close() && (await finish(database, client, ending, execution.timeoutMs))
    client.release(!isUsable)
  }
  const end = (ending: Ending) => (closing ??= close(ending).finally(resolveEnded))
  const { free } = source
  // The reader may be gone before the generator starts, and a generator that never ran cleans up nothing.
  signal.addEventListener('abort', () => void end('given up'), { once: true })
  try {
    signal.throwIfAborted()
    let first: RowBatch = { parts: [], count: 0, bytes: 0 }
    while (first.count < BATCH && first.bytes < SMALL_BYTES) {
      const batch = await batches.next()
      if (batch.done) {
        await end('read')
        return { first, done: true, async *rest() {}, free, async end() {}, ended }
      }
      first = concat(first, batch.value)
    }
    isFirst = false
    const reader = new ReaderClock(database.config, () => void end('given up'))
    reader.start(first.bytes)
    void ended.then(() => reader.close())
    return {
      first,
      done: false,
      rest: () => rest(batches, end, toClientError, reader),
      free,
      end: () => end('given up'),
      ended,
    }
  } catch (error) {
    await end(endingOf(error))
    // The request may be retried on another connection.
    throw isConnectionError(error) ? error : toClientError(error)
  } finally {
    execution.observer?.ran(statement, execution, place, performance.now() - began)
  }
}

/** Returns a connection without statement timeout. Behind a pooler this takes a transaction. */
async function begin(database: Database, pool: Pool, timeoutMs: number, signal: AbortSignal): Promise<PoolClient> {
  const client = await checkOut(pool)
  if (!isPooled(database.config)) return client
  try {
    await within(client.query('begin; set local statement_timeout = 0'), timeoutMs, signal)
    return client
  } catch (error) {
    client.release(true)
    throw error
  }
}

/** How a stream ended. `refused`: PostgreSQL refused the statement, and goes on with the next. */
type Ending = 'read' | 'refused' | 'given up'

const endingOf = (error: unknown): Ending =>
  error instanceof pg.DatabaseError && !isConnectionError(error) ? 'refused' : 'given up'

/**
 * Ends the transaction. Without one, a refusal is answered completely when the next statement is.
 * @returns false when the connection is unusable
 */
async function finish({ config }: Database, client: PoolClient, ending: Ending, timeoutMs: number): Promise<boolean> {
  const text = isPooled(config) ? 'commit' : ending === 'refused' ? '' : undefined
  if (text === undefined) return true
  return within(client.query(text), timeoutMs, new AbortController().signal).then(
    () => true,
    () => false,
  )
}

async function* rest(
  batches: AsyncGenerator<RowBatch, void, undefined>,
  end: (ending: Ending) => Promise<void>,
  toClientError: (error: unknown) => unknown,
  reader: ReaderClock,
): AsyncGenerator<RowBatch, void, undefined> {
  let ending: Ending = 'given up'
  try {
    reader.stop()
    for await (const batch of batches) {
      reader.start(batch.bytes)
      yield batch
      reader.stop()
    }
    ending = 'read'
  } catch (error) {
    ending = endingOf(error)
    throw toClientError(error)
  } finally {
    await end(ending)
  }
}

/** Rows received on a connection, as PostgreSQL's messages. */
export interface RowSource {
  /**
   * Returns the rows received since the last call, and resumes reading.
   * @param read rows that the cursor itself returned
   */
  take(read: readonly (string | null)[][]): RowBatch
  /** The most rows to request from the cursor at once. */
  readonly most: number
  /** Resolves when the buffer is full, so that reading pauses until rows are taken. */
  full(): Promise<void>
  /** Discards all current and future rows, so that the connection is read to its end. */
  drop(): void
  /** @returns false when the connection is unusable */
  close(): boolean
  /** @see RowBatches.free */
  free(part: Buffer): void
}

/** Creates a source of rows that pg has parsed. It holds every row of a request, so it requests few at a time. */
export const plainSource = (): RowSource => ({
  most: 100,
  take(read) {
    const parts = read.length > 0 ? [Buffer.concat(read.map(rowOf))] : []
    return { parts, count: read.length, bytes: parts[0]?.length ?? 0 }
  },
  full: () => new Promise(() => undefined),
  drop() {},
  close: () => true,
  free() {},
})

const concat = (a: RowBatch, b: RowBatch): RowBatch => ({
  parts: [...a.parts, ...b.parts],
  count: a.count + b.count,
  bytes: a.bytes + b.bytes,
})

/**
 * Yields batches of rows. Fetches the next one while the current one is used. Splits a batch that is much larger than
 * the previous one.
 */
async function* nextBatches(
  { cursor }: QueryStream,
  source: RowSource,
  connection: Watched,
  timeoutMs: () => number,
  signal: AbortSignal,
): AsyncGenerator<RowBatch, void, undefined> {
  const ask = (count: number) => {
    const since = performance.now()
    const answer = (cursor.read(count) as Promise<(string | null)[][]>).then((rows) => ({
      rows,
      ms: performance.now() - since,
    }))
    // The consumer may be gone already.
    answer.catch(() => undefined)
    return { count, answer }
  }
  let asked = ask(FIRST)
  let count = 0
  let bytes = 0
  for (;;) {
    const next = Promise.race([asked.answer, source.full(), connection.lost])
    const answer = await connection.awaiting(within(next, timeoutMs(), signal))
    const batch = source.take(answer?.rows ?? [])
    count += batch.count
    bytes += batch.bytes
    const isLast = answer && count < asked.count
    if (answer && !isLast) {
      const growth = Math.min(GROWTH, BATCH_BYTES / bytes, BATCH_MS / answer.ms)
      asked = ask(Math.min(source.most, Math.max(1, Math.floor(count * growth))))
      count = 0
      bytes = 0
    }
    if (batch.count > 0) yield batch
    if (isLast) return
  }
}

interface Watched {
  /**
   * Rejects when the connection closes. pg's cursor does not report a loss between the end of its rows and the end of its
   * transaction.
   */
  readonly lost: Promise<never>
  /** Waits for an answer of the database, until that proves to be silent. */
  awaiting<T>(answer: Promise<T>): Promise<T>
  forget(): void
}

function watch({ silenced, breaker }: Database, client: PoolClient): Watched {
  const socket = socketOf(client)
  let onClose!: () => void
  const lost = new Promise<never>((_, reject) => {
    onClose = () => reject(new Error('Connection terminated unexpectedly'))
  })
  lost.catch(() => undefined)
  socket.once('close', onClose)
  const giveUp = () => socket.destroy(silent())
  return {
    lost,
    awaiting(answer) {
      silenced.add(giveUp)
      const doubt = setTimeout(breaker.failed, DOUBT_MS).unref()
      return answer.finally(() => {
        clearTimeout(doubt)
        silenced.delete(giveUp)
      })
    },
    forget: () => socket.off('close', onClose),
  }
}

async function within<T>(promise: Promise<T>, timeoutMs: number, signal: AbortSignal): Promise<T> {
  let stop!: (reason: unknown) => void
  const stopped = new Promise<never>((_, reject) => (stop = reject))
  const onAbort = () => stop(signal.reason)
  const timer = setTimeout(() => stop(tooLong()), timeoutMs)
  if (signal.aborted) onAbort()
  signal.addEventListener('abort', onAbort)
  try {
    return await Promise.race([promise, stopped])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
  }
}

const tooLong = () =>
  serviceError('timeout', 'the statement took longer than the server allows (database.statementTimeoutMs)')
