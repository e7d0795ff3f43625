import { once } from 'node:events'
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
  /** The first rows, up to a batch; all of them when `done`. */
  readonly first: readonly TextRow[]
  readonly done: boolean
  /** The rest, a batch at a time. Must be run to its end or returned, which gives the connection back. */
  rest(): AsyncGenerator<readonly TextRow[], void, undefined>
}

export const BATCH = 1000
const MAX_AGE_MS = 3_600_000

/**
 * Opens a cursor on a connection of its own and reads the first batch, so that a small answer is known to be one, and an
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
  const stream = new QueryStream(statement.text, values, { rowMode: 'array', batchSize: BATCH, highWaterMark: BATCH })
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
    const head = await batches.next()
    const first = head.done ? [] : head.value
    if (head.done || first.length < BATCH) {
      const last = head.done ? undefined : await batches.next()
      if (last?.done !== false) {
        await end(false)
        return { first, done: true, async *rest() {} }
      }
      return { first: [...first, ...last.value], done: false, rest: () => rest(batches, end, statement) }
    }
    return { first, done: false, rest: () => rest(batches, end, statement) }
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

/** Whatever rows have come, as soon as some have. */
async function* nextBatches(
  stream: QueryStream,
  timeoutMs: number,
  signal: AbortSignal,
): AsyncGenerator<readonly TextRow[], void, undefined> {
  let failure: unknown
  let ended = false
  stream.on('error', (error) => {
    failure = error
  })
  stream.on('end', () => {
    ended = true
  })
  for (;;) {
    const rows: TextRow[] = []
    for (let row = stream.read() as TextRow | null; row !== null; row = stream.read() as TextRow | null) {
      rows.push(row)
      if (rows.length === BATCH) break
    }
    if (failure) throw failure
    if (rows.length > 0) yield rows
    else if (ended) return
    else await somethingNew(stream, timeoutMs, signal)
  }
}

async function somethingNew(stream: QueryStream, timeoutMs: number, signal: AbortSignal): Promise<void> {
  const settled = new AbortController()
  const late = AbortSignal.timeout(timeoutMs)
  const stop = AbortSignal.any([settled.signal, late, signal])
  try {
    await Promise.race(['readable', 'end', 'error'].map((event) => once(stream, event, { signal: stop })))
  } catch (error) {
    if (late.aborted)
      throw new ServiceError(504, 'timeout', 'the statement took longer than the server allows', '$', { cause: error })
    throw error
  } finally {
    settled.abort()
  }
}

function translated(error: unknown, statement: Prepared): unknown {
  return isConnectionError(error) ? error : clientError(error, 'alpha', statement.params)
}
