import { type Call, type Data, isAdmin, type Operations, permissionRole, tableSql } from 'rowhouse'
import {
  isObject,
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
 * may select now, since the row has had its key, of the columns that they may select in all rows, and not who wrote.
 */
export async function readHistory({ data, operations }: Parts, question: Question, call: Call): Promise<JsonObject[]> {
  const { table: ref, limit, before } = question
  const all = isAdmin(call.session)
  const isShown = all || (await isVisible(operations, question, call))
  const table = capturedTable(data, ref, call)
  const key = question.key === undefined ? undefined : await keyText(data, table, question.key, call)
  if (!isShown) return []
  const shown = all ? undefined : visibleColumns(table, call)
  const values: unknown[] = [ref.schema, ref.name, before ?? null, limit]
  if (key !== undefined) values.push(key)
  if (shown) values.push([...shown], table.primaryKey)
  const rows = await data.query<Stored>(
    `select ${COLUMNS} from svc_catalog.svc_history h
     where (table_schema, table_name) = ($1, $2) and ($3::bigint is null or h.id < $3::bigint)
     ${key === undefined ? '' : `and ${IS_KEY}`} ${shown ? OWN_LIFE : ''}
     order by h.id desc limit $4`,
    values,
    call.transaction,
  )
  return rows.map((row) => {
    const { id, time, operation, role, user_id, request_id, login } = row
    const change = { time, operation, old: columnsOf(row.old, shown), new: columnsOf(row.new, shown) }
    return shown ? change : { id, ...change, key: columnsOf(row.key), role, user_id, request_id, login }
  })
}

const IS_KEY = 'hashtextextended(key::text, 0) = hashtextextended($5::jsonb::text, 0) and key = $5::jsonb'
/** Since the row has had its key, which another row may have had before, and without changes of other columns only. */
const OWN_LIFE = `and operation <> 'delete' and (operation = 'insert' or old ?| $6::text[])
     and h.id >= coalesce((select max(id) from svc_catalog.svc_history where (table_schema, table_name) = ($1, $2) and ${IS_KEY}
       and (operation in ('insert', 'delete') or new ?| $7::text[])), 0)`

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

/**
 * Returns whether the caller may select the row.
 * @throws ServiceError 400 if it may not select the table by this key
 */
async function isVisible(operations: Operations, { table, key, before }: Question, call: Call): Promise<boolean> {
  if (!isObject(key ?? null)) throw parseFailed(`expecting an object with the primary key`, '$.args.key')
  // Ids tell how much else has changed.
  if (before !== undefined) throw parseFailed('only the role admin may page by ids', '$.args.before')
  const equal = Object.entries(key as JsonObject).map(([name, value]) => [name, { $eq: value }] as const)
  const columns = equal.map(([name]) => name)
  const query = { type: 'select', args: { table: { ...table }, columns, where: Object.fromEntries(equal), limit: 1 } }
  const answer = await operations.run(query as unknown as Json, call)
  return answer.kind === 'text' ? answer.text !== '[]' : answer.kind === 'bytes' && answer.bytes.toString() !== '[]'
}

/** Returns the columns that the role may select in each row that it may select. */
function visibleColumns(table: Table, { session }: Call): ReadonlySet<string> {
  const { columns = [], masks = {} } = permissionsOf(table, permissionRole(session))?.select ?? {}
  return new Set(columns.filter((name) => !Object.hasOwn(masks, name)))
}

function columnsOf(text: string | null, shown?: ReadonlySet<string>): JsonObject | null {
  if (text === null) return null
  const all = parseJson(text, NO_LIMITS) as JsonObject
  return shown ? Object.fromEntries(Object.entries(all).filter(([name]) => shown.has(name))) : all
}
