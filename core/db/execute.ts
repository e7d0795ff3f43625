import type { ClientBase } from 'pg'
import type { Compiled, Prepared } from '../compile/compile.js'
import { bind } from '../sql/bind.js'
import { CellQuery } from './cell-query.js'
import { cancel, type Database, inTransaction, type Pool, withClient } from './database.js'
import { clientError } from './errors.js'
import type { Execution, Lane } from './lane.js'
import { type Place, placeOn } from './observe.js'
import { isConnectionError } from './sqlstates.js'
import { plainSource, readRows } from './stream.js'

/** Runs each request on its own pooled connection, with `pg` and `pg-query-stream`. */
export function plainLane(database: Database): Lane {
  let streams: Pool | undefined
  const place = placeOn(database, 'pool')
  const ofStreams = placeOn(database, 'stream')
  // One statement is one round trip and needs no explicit transaction.
  const run: Lane['cell'] = ({ plan, values, execution, call: { signal } }) =>
    withClient(database.main, (client, discard) =>
      cancellable(database, client, discard, signal, () => {
        const execute = () => executeIn(client, plan, values, execution, place)
        return plan.statements.length === 1 ? execute() : inTransaction(client, execute)
      }),
    )
  return {
    cell: run,
    write: run,
    rows: (job) =>
      readRows(database, { pool: (streams ??= database.openStreams()), open: plainSource, place: ofStreams }, job),
  }
}

/**
 * Runs a compiled request in an open transaction, or without one if it has a single statement.
 * @param place for its observer, if it has one
 */
export async function executeIn(
  client: ClientBase,
  { statements }: Pick<Compiled, 'statements'>,
  values: readonly (string | null)[],
  execution: Execution,
  place: Place = UNOBSERVED,
): Promise<string> {
  const [first, ...others] = statements as readonly [Prepared, ...Prepared[]]
  let answer = await cell(client, first, values, execution, place)
  // The transaction knows its writer by now.
  const rest = execution.writer ? { ...execution, writer: undefined } : execution
  for (const statement of others) {
    const bound = bind(statement.params, { ...execution.bindings, written: answer })
    answer = await cell(client, statement, bound, rest, place)
  }
  return answer
}

const UNOBSERVED: Place = { lane: 'pool', target: {} }

/** Time for work outside of PostgreSQL, such as a plugin's, to stop after the request has ended, in milliseconds. */
const GRACE_MS = 2000

/**
 * Cancels the running query when the client no longer waits. Keeps the connection until PostgreSQL has reported, and
 * then discards it, because the cancellation might otherwise hit the next query. Abandons work that does not stop.
 */
export async function cancellable<T>(
  database: Database,
  client: ClientBase,
  discard: () => void,
  signal: AbortSignal,
  fn: () => Promise<T>,
): Promise<T> {
  let cancelling: Promise<void> | undefined
  let grace: NodeJS.Timeout | undefined
  let abandon: (reason: unknown) => void
  const abandoned = new Promise<never>((_, reject) => (abandon = reject))
  const onAbort = () => {
    discard()
    cancelling = cancel(database, client)
    grace = setTimeout(() => abandon(signal.reason), GRACE_MS)
  }
  signal.throwIfAborted()
  signal.addEventListener('abort', onAbort)
  try {
    return await Promise.race([fn(), abandoned])
  } finally {
    signal.removeEventListener('abort', onAbort)
    clearTimeout(grace)
    await cancelling
  }
}

/** Runs one statement that returns one text. */
async function cell(
  client: ClientBase,
  statement: Prepared,
  values: readonly (string | null)[],
  execution: Execution,
  place: Place,
): Promise<string> {
  const { prepare, dialect, reader, onTime, tags = '', observer, writer } = execution
  const query = new CellQuery(statement.text + tags, values, prepare ? statement.name : '', statement.row, writer)
  const send = () => {
    client.query(query)
    return query.answer
  }
  try {
    const answer = (await (observer ? observer.trace(statement, execution, place, send) : send())) as string
    onTime?.(query.ms)
    return answer
  } catch (error) {
    throw isConnectionError(error) ? error : clientError(error, reader, statement, dialect)
  } finally {
    observer?.ran(statement, execution, place, query.ms)
  }
}
