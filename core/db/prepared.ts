import { isDeepStrictEqual } from 'node:util'
import type { ClientBase, QueryResultRow } from 'pg'

/** Connections with a session of their own, where a prepared statement stays. Behind a pooler there are none. */
const own = new WeakSet<ClientBase>()
export const ownsSession = (client: ClientBase): void => void own.add(client)

/**
 * Runs a large statement that is the same each time. PostgreSQL parses it once for each connection. It plans it once, too,
 * because the statement has no parameters: it reads what is given with `current_setting('rowhouse.KEY')`.
 * @param name of the statement
 */
export async function prepared<Row extends QueryResultRow>(
  client: ClientBase,
  name: string,
  text: string,
  given: Readonly<Record<string, string>> = {},
): Promise<readonly Row[]> {
  const settings = Object.entries(given).map(([key], i) => `pg_catalog.set_config('rowhouse.${key}', $${i + 1}, false)`)
  const set = settings.length > 0 && client.query(`select ${settings.join()}`, Object.values(given))
  const [{ rows }] = await Promise.all([client.query<Row>(own.has(client) ? { name, text } : text), set])
  return rows
}

/** Members of pg's connections that its types omit. */
interface Prepares {
  readonly connection?: { parsedStatements: Readonly<Record<string, string>> }
}

/** Makes sure, after the SQL of somebody else, that the session has the statements that pg prepared there, and no others. */
export async function checkPrepared(client: ClientBase): Promise<void> {
  const { connection } = client as Prepares
  const { rows } = await client.query<{ name: string }>('select name from pg_catalog.pg_prepared_statements')
  const found = rows.map(({ name }) => name)
  if (!connection || isDeepStrictEqual(new Set(found), new Set(Object.keys(connection.parsedStatements)))) return
  await client.query('deallocate all')
  connection.parsedStatements = {}
}
