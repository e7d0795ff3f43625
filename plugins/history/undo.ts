import { type Call, type Data, type Operations, serviceError, tableSql, ident } from 'rowhouse'
import {
  isObject,
  type Json,
  type JsonObject,
  NO_LIMITS,
  notExists,
  parseJson,
  stringifyJson,
  type Table,
  type TableRef,
  unexpectedPayload,
} from 'rowhouse/plan'
import { capturedTable, COLUMNS, type Stored } from './read.js'

/**
 * Undoes one change, in the transaction of the call: deletes what was inserted, inserts what was deleted, and sets what was
 * updated to what it was. Permissions, checks and triggers apply as to any write.
 * @throws ServiceError 412 when the row has changed since
 */
export async function undoChange(
  { data, operations }: { readonly data: Data; readonly operations: Operations },
  id: string,
  call: Call & Required<Pick<Call, 'transaction'>>,
): Promise<JsonObject> {
  const [change] = await data.query<Stored & TableRef>(
    `select ${COLUMNS}, table_schema as schema, table_name as name from svc_catalog.svc_history where id = $1`,
    [id],
    call.transaction,
  )
  if (!change) throw notExists(`there is no change "${id}"`, '$.args.id')
  const { schema, name, operation, key, old } = change
  if (key === null) throw unexpectedPayload('what was truncated is not kept', '$.args.id')
  const table = capturedTable(data, { schema, name }, call)
  const now = await currentRow(data, table, key, call)
  const is = (change.new ?? 'null') === 'null' ? null : parseJson(change.new!, NO_LIMITS)
  if (operation === 'delete' ? now !== null : !holds(now, is)) {
    throw serviceError('precondition-failed', 'the row has changed since', '$.args.id')
  }
  const where = parseJson(key, NO_LIMITS)
  const write =
    operation === 'insert'
      ? { type: 'delete', args: { table: { schema, name }, where } }
      : operation === 'update'
        ? { type: 'update', args: { table: { schema, name }, where, $set: written(table, old) } }
        : { type: 'insert', args: { table: { schema, name }, objects: [written(table, old)] } }
  await operations.run(write as unknown as Json, call)
  return { table: schema === 'public' ? name : { schema, name }, undone: operation, key: where }
}

/** Returns the columns that can be written again. */
function written(table: Table, text: string | null): JsonObject {
  const all = parseJson(text ?? '{}', NO_LIMITS) as JsonObject
  const isComputed = (name: string) => {
    const column = table.columnsByName.get(name)
    return !column || (column.generated === 'always' && !column.identity)
  }
  return Object.fromEntries(Object.entries(all).filter(([name]) => !isComputed(name)))
}

async function currentRow(data: Data, table: Table, key: string, { transaction }: Call): Promise<Json> {
  const same = table.primaryKey.map((name) => `t.${ident(name)} is not distinct from k.${ident(name)}`).join(' and ')
  const [row] = await data.query<{ row: string }>(
    `select to_jsonb(t)::text as row from ${tableSql(table)} t
     join jsonb_populate_record(null::${tableSql(table)}, $1::jsonb) k on ${same} for update of t`,
    [key],
    transaction,
  )
  return row ? parseJson(row.row, NO_LIMITS) : null
}

/** Returns whether a row still has the values that a change gave it. */
const holds = (now: Json, values: Json): boolean =>
  isObject(now) &&
  Object.entries((values ?? {}) as JsonObject).every(
    ([name, value]) => stringifyJson(now[name] ?? null) === stringifyJson(value),
  )
