import { setTimeout as sleep } from 'node:timers/promises'
import QueryStream from 'pg-query-stream'
import type { Prepared } from '../compile/compile.js'
import { ServiceError } from '../errors.js'
import { bind, type Bindings } from '../sql/bind.js'
import { checkOut, type Database, isConnectionError } from './database.js'
import { clientError } from './errors.js'
import { cancel } from './execute.js'

/** A row as text cells. */
export type TextRow = readonly (string | null)[]

export interface RowBatches {
  /** The first rows: up to 1,000, or fewer when they are large; all of them when `done`. */
  readonly first: readonly TextRow[]
  readonly done: boolean
  /** The rest, a batch at a time. */
  rest(): AsyncGenerator<readonly TextRow[], void, undefined>
  /** Gives the connection back, whether the rest was read or not. Must be called unless `done`. */
  end(): Promise<void>
}

/** Most rows that are asked for at once. */
export const BATCH = 1000
/** Rows are asked for a few at first, and then as many as should come to so many characters. */
const FIRST = 16
const GROWTH = 8
const BATCH_CHARACTERS = 1024 * 1024
/** What makes an answer a small one, beside its number of rows. */
const SMALL_CHARACTERS = 4 * 1024 * 1024
const MAX_AGE_MS = 3_600_000

/**
 * Opens a cursor on a connection of its own and reads the first rows, so that a small answer is known to be one, and an
 * early error is still an ordinary error. The connection has no statement timeout, which would run over the whole
 * stream, slow reader included; each batch has a deadline instead.
 */
export async function readRows(
  database: Database,
  statement: Prepared,
  bindings: Bindings,
  signal: AbortSignal,
): Promise<RowBatches> {
  const values = bind(statement.params, bindings)
  signal.throwIfAborted()
  const client = await checkOut(database.streams)
  const stream = new QueryStream(statement.text, values, { rowMode: 'array' })
  stream.on('error', () => undefined)
  client.query(stream)
  const batches = nextBatches(stream, database.config.statementTimeoutMs, signal)
  let ended: Promise<void> | undefined
  const close = async (failed: boolean) => {
    if (failed) await cancel(database, client)
    else stream.destroy()
    client.release(failed)
  }
  const end = (failed: boolean) => (ended ??= close(failed))
  // Whoever should read the rest may be gone before it has begun: a generator that was never run cleans up nothing.
  signal.addEventListener('abort', () => void end(true), { once: true })
  try {
    signal.throwIfAborted()
    const first: TextRow[] = []
    let characters = 0
    while (first.length < BATCH && characters < SMALL_CHARACTERS) {
      const batch = await batches.next()
      if (batch.done) {
        await end(false)
        return { first, done: true, async *rest() {}, async end() {} }
      }
      for (const row of batch.value) first.push(row)
      characters += charactersOf(batch.value)
    }
    return { first, done: false, rest: () => rest(batches, end, statement), end: () => end(true) }
  } catch (error) {
    await end(true)
    throw translated(error, statement)
  }
}

async function* rest(
  batches: AsyncGenerator<readonly TextRow[], void, undefined>,
  end: (failed: boolean) => Promise<void>,
  statement: Prepared,
): AsyncGenerator<readonly TextRow[], void, undefined> {
  const oldest = Date.now() + MAX_AGE_MS
  let complete = false
  try {
    for await (const batch of batches) {
      yield batch
      if (Date.now() > oldest) throw new ServiceError(504, 'timeout', 'the stream took longer than the server allows')
    }
    complete = true
  } catch (error) {
    throw translated(error, statement)
  } finally {
    await end(!complete)
  }
}

/** Batches of rows. The next one is on its way while one is used. */
async function* nextBatches(
  { cursor }: QueryStream,
  timeoutMs: number,
  signal: AbortSignal,
): AsyncGenerator<readonly TextRow[], void, undefined> {
  const ask = (count: number) => {
    const rows = cursor.read(count) as Promise<TextRow[]>
    // Nobody may be there to hear of it.
    rows.catch(() => undefined)
    return { count, rows }
  }
  for (let next = ask(FIRST); ;) {
    const { count } = next
    const rows = await within(next.rows, timeoutMs, signal)
    if (rows.length < count) {
      if (rows.length > 0) yield rows
      return
    }
    const each = Math.max(1, charactersOf(rows) / count)
    next = ask(Math.max(1, Math.floor(Math.min(BATCH, count * GROWTH, BATCH_CHARACTERS / each))))
    yield rows
  }
}

function charactersOf(rows: readonly TextRow[]): number {
  let sum = 0
  for (const row of rows) for (const cell of row) sum += cell?.length ?? 0
  return sum
}

async function within<T>(promise: Promise<T>, timeoutMs: number, signal: AbortSignal): Promise<T> {
  const settled = new AbortController()
  const stop = AbortSignal.any([settled.signal, signal])
  const late = async (): Promise<never> => {
    await sleep(timeoutMs, undefined, { signal: stop })
    throw new ServiceError(504, 'timeout', 'the statement took longer than the server allows')
  }
  try {
    return await Promise.race([promise, late()])
  } finally {
    settled.abort()
  }
}

function translated(error: unknown, statement: Prepared): unknown {
  return isConnectionError(error) ? error : clientError(error, 'alpha', statement.params)
}
