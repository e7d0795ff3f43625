import { type Call, type Data, isAdmin, type Operations, permissionRole, tableSql } from 'rowhouse'
import {
  type Json,
  type JsonObject,
  NO_LIMITS,
  notExists,
  parseFailed,
  parseJson,
  permissionsOf,
  stringifyJson,
  type Table,
  tableKey,
  tableName,
  type TableRef,
  unexpectedPayload,
} from 'rowhouse/plan'

/** A change as it is stored. */
export interface Stored {
  readonly id: string
  readonly time: string
  readonly operation: 'insert' | 'update' | 'delete' | 'truncate'
  /** JSON texts, with all digits. */
  readonly key: string | null
  readonly old: string | null
  readonly new: string | null
  readonly role: string | null
  readonly user_id: string | null
  readonly request_id: string | null
  readonly login: string
}

export const COLUMNS = `id::text, to_json(at) #>> '{}' as time, operation, key::text, old::text, new::text, role, user_id, request_id, login`

interface Question {
  readonly table: TableRef
  readonly key?: Json | undefined
  readonly limit: number
  /** `id` of a change; returns those before it. */
  readonly before?: string | undefined
}

interface Parts {
  readonly data: Data
  readonly operations: Operations
}

/**
 * Returns the changes of a row, or those of a table for an admin, the latest first. Other roles see the history of rows that they
 * may select now, of the columns that they may select in all rows, and not who wrote.
 */
export async function readHistory({ data, operations }: Parts, question: Question, call: Call): Promise<JsonObject[]> {
  const { table: ref, limit, before } = question
  const all = isAdmin(call.session)
  if (!all) await mustSelect(operations, question, call)
  const table = capturedTable(data, ref, call)
  const key = question.key === undefined ? undefined : await keyText(data, table, question.key, call)
  if (!all && !(await isVisible(operations, question, call))) return []
  const rows = await data.query<Stored>(
    `select ${COLUMNS} from svc_catalog.svc_history h
     where (table_schema, table_name) = ($1, $2) and ($3::bigint is null or h.id < $3::bigint)
     ${key === undefined ? '' : 'and hashtextextended(key::text, 0) = hashtextextended($5::jsonb::text, 0) and key = $5::jsonb'}
     order by h.id desc limit $4`,
    [ref.schema, ref.name, before ?? null, limit, ...(key === undefined ? [] : [key])],
    call.transaction,
  )
  const shown = all ? undefined : visibleColumns(table, call)
  return rows.flatMap((row) => {
    const change = {
      time: row.time,
      operation: row.operation,
      old: values(row.old, shown),
      new: values(row.new, shown),
    }
    const isEmpty = [change.old, change.new].every((each) => each === null || Object.keys(each).length === 0)
    if (shown) return row.operation === 'update' && isEmpty ? [] : [change]
    const { id, role, user_id, request_id, login } = row
    return [{ id, ...change, key: values(row.key), role, user_id, request_id, login }]
  })
}

/** Returns a table whose history is kept. @throws ServiceError 400 */
export function capturedTable(data: Data, ref: TableRef, call: Call): Table {
  const table = data.catalogFor(call).tables.get(tableKey(ref))
  if (!table) throw notExists(`table "${tableName(ref)}" does not exist`, '$.args.table')
  if (!table.captures?.includes('history')) {
    throw unexpectedPayload(`no history of "${tableName(ref)}" is kept: see set_table_history`, '$.args.table')
  }
  return table
}

/** Returns the primary key of a row as PostgreSQL writes it. @throws ServiceError 400 */
async function keyText(data: Data, table: Table, key: Json, { transaction }: Call): Promise<string> {
  const given = typeof key === 'object' && key !== null ? Object.keys(key) : []
  const wanted = table.primaryKey
  if (given.length !== wanted.length || !wanted.every((name) => given.includes(name))) {
    throw parseFailed(`expecting an object with the primary key: ${wanted.join(', ')}`, '$.args.key')
  }
  const [row] = await data.query<{ key: string }>(
    `select jsonb_object_agg(e.key, e.value)::text as key
     from jsonb_each(to_jsonb(jsonb_populate_record(null::${tableSql(table)}, $1::jsonb))) e where e.key = any ($2::text[])`,
    [stringifyJson(key), wanted],
    transaction,
  )
  return row!.key
}

const select = ({ table, key = null }: Question, columns: readonly string[]): Json =>
  ({ type: 'select', args: { table: { ...table }, columns, where: key, limit: 1 } }) as unknown as Json

/** @throws ServiceError 400 if the role may not select the table by its key */
async function mustSelect(operations: Operations, question: Question, call: Call): Promise<void> {
  if (question.key === undefined) throw parseFailed(`the key 'key' was not present`, '$.args')
  await isVisible(operations, question, call)
}

/** Returns whether the caller may select the row. */
async function isVisible(operations: Operations, question: Question, call: Call): Promise<boolean> {
  const columns = Object.keys((question.key ?? {}) as JsonObject)
  const answer = await operations.run(select(question, columns), call)
  return answer.kind === 'text' ? answer.text !== '[]' : answer.kind === 'bytes' && answer.bytes.toString() !== '[]'
}

/** Returns the columns that the role may select in each row that it may select. */
function visibleColumns(table: Table, { session }: Call): ReadonlySet<string> {
  const { columns = [], masks = {} } = permissionsOf(table, permissionRole(session))?.select ?? {}
  return new Set(columns.filter((name) => !Object.hasOwn(masks, name)))
}

function values(text: string | null, shown?: ReadonlySet<string>): JsonObject | null {
  if (text === null) return null
  const all = parseJson(text, NO_LIMITS) as JsonObject
  return shown ? Object.fromEntries(Object.entries(all).filter(([name]) => shown.has(name))) : all
}
