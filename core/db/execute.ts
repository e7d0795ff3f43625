import type { ClientBase, Pool, PoolClient } from 'pg'
import type { Compiled, Prepared } from '../compile/compile.js'
import { CellQuery } from './cell-query.js'
import { type Bindings, bind } from '../sql/bind.js'
import { inTransaction, isConnectionError, withClient } from './database.js'
import { clientError, type Dialect } from './errors.js'

export interface Execution {
  readonly bindings: Bindings
  /** Keep the statement prepared on its connection: it has been asked for before. */
  readonly prepare: boolean
  readonly dialect: Dialect
}

/** Runs a compiled request in a transaction that is open already. */
export async function executeIn(client: ClientBase, compiled: Compiled, execution: Execution): Promise<string> {
  let answer = '[]'
  for (const statement of compiled.statements) {
    answer = await cell(client, statement, { ...execution, bindings: { ...execution.bindings, written: answer } })
  }
  return answer
}

/**
 * Runs a compiled request on a connection of its own: one statement is one round trip and needs no transaction around
 * it. A query that nobody waits for any more is cancelled; its connection is kept until PostgreSQL has reported, and then
 * thrown away, because the cancellation might otherwise hit the next query on it.
 */
export async function execute(
  pool: Pool,
  compiled: Compiled,
  execution: Execution,
  signal: AbortSignal,
  cancel: (client: PoolClient) => Promise<void>,
): Promise<string> {
  // Bound first: a request with a wrong value costs no connection.
  for (const { params } of compiled.statements) bind(params, execution.bindings)
  return withClient(pool, async (client, discard) => {
    let cancelling: Promise<void> | undefined
    const onAbort = () => {
      discard()
      cancelling = cancel(client)
    }
    signal.addEventListener('abort', onAbort)
    try {
      signal.throwIfAborted()
      if (compiled.statements.length === 1) return await executeIn(client, compiled, execution)
      return await inTransaction(client, () => executeIn(client, compiled, execution))
    } finally {
      signal.removeEventListener('abort', onAbort)
      await cancelling
      if (execution.prepare && isFull(client)) discard()
    }
  })
}

/** One statement that answers with one text. */
async function cell(client: ClientBase, statement: Prepared, execution: Execution): Promise<string> {
  const { text, params, name } = statement
  const values = bind(params, execution.bindings)
  const query = new CellQuery(text, values, execution.prepare ? name : '')
  client.query(query)
  try {
    return (await query.answer) as string
  } catch (error) {
    if (isConnectionError(error)) throw error
    throw clientError(error, execution.dialect, params)
  }
}

/** Statements that a connection keeps prepared before it makes room for a fresh one. */
const MAX_PREPARED = 500

function isFull(client: ClientBase): boolean {
  const { connection } = client as ClientBase & { connection: { parsedStatements: object } }
  return Object.keys(connection.parsedStatements).length > MAX_PREPARED
}
