import pg, { type ClientBase } from 'pg'
import { type Data, describeDatabaseError, type Json, type Operation, serviceError } from 'rowhouse'
import { type JsonObject, stringifyJson, tableKey } from 'rowhouse/plan'

const MAX_ROWS = 10_000
const AS_TEXT = { getTypeParser: () => (text: string) => text }

/** Runs one or more SQL statements of an admin, updates the metadata, and returns the last result. */
export function runSqlOperation(data: Data): Operation {
  return {
    admin: true,
    args: {
      type: 'object',
      properties: { sql: { type: 'string' }, cascade: { type: 'boolean' } },
      required: ['sql'],
      additionalProperties: false,
    },
    async run(args, call) {
      const { sql, cascade } = args as JsonObject
      await refuseForbidden(sql as string, data)
      const result = await data.runSql(call, cascade === true, (client) => runInTransaction(client, sql as string))
      return { kind: 'text', text: stringifyJson(result) }
    },
  }
}

async function runInTransaction(client: ClientBase, sql: string): Promise<Json> {
  const before = await transactionId(client)
  const result = await run(client, sql)
  if ((await transactionId(client)) !== before) {
    throw serviceError('not-supported', 'run_sql cannot end the transaction that it runs in', '$.args.sql')
  }
  return result
}

async function transactionId(client: ClientBase): Promise<string | undefined> {
  const { rows } = await client.query<{ id: string }>('select pg_current_xact_id()::text as id')
  return rows[0]?.id
}

/** Runs all statements, and keeps at most `MAX_ROWS` rows of the last one in memory. */
async function run(client: ClientBase, sql: string): Promise<Json> {
  let rows: (string | null)[][] = []
  let last: pg.QueryResult | undefined
  let count = 0
  const started = (result: pg.QueryResult) => {
    if (result === last) return
    last = result
    rows = []
    count = 0
  }
  await new Promise<void>((resolve, reject) => {
    const query = new pg.Query<(string | null)[]>({ text: sql, rowMode: 'array', types: AS_TEXT } as pg.QueryConfig)
    query.on('row', (row: (string | null)[], result) => {
      if (result) started(result as unknown as pg.QueryResult)
      if (++count <= MAX_ROWS) rows.push(row)
    })
    query.on('end', (result: pg.QueryResult | pg.QueryResult[]) => {
      const final = Array.isArray(result) ? result.at(-1) : result
      if (final) started(final)
      resolve()
    })
    query.on('error', reject)
    client.query(query)
  }).catch((error: unknown) => {
    throw failure(error, sql)
  })
  if (!last || last.fields.length === 0) return { result_type: 'CommandOk' }
  if (count > MAX_ROWS) {
    const message = `the result has more than ${MAX_ROWS} rows; use a select instead, whose result is streamed`
    throw serviceError('unexpected-payload', message, '$.args.sql')
  }
  const header = last.fields.map(({ name }) => name)
  return { result_type: 'TuplesOk', result: [header, ...rows.map((row) => row.map((cell) => cell ?? 'NULL'))] }
}

/** Reports errors of the SQL. Timeouts, conflicts and lost connections have codes of their own in the core. */
function failure(error: unknown, sql: string): unknown {
  if (!(error instanceof pg.DatabaseError) || error.code === undefined) return error
  const hasOwnCode = /^(40|08|53|57P|25006|55P03)/.test(error.code) || error.message.includes('statement timeout')
  if (hasOwnCode) return error
  return serviceError('postgres-error', 'query execution failed', '$.args', {
    internal: { statement: sql, error: describeDatabaseError(error) },
  })
}

/** Refuses forbidden statements before any of them runs. SQL that the parser cannot read goes to PostgreSQL. */
async function refuseForbidden(sql: string, data: Data): Promise<void> {
  for (const statement of await parse(sql)) {
    const [kind, node] = Object.entries(statement)[0] ?? []
    if (kind === 'TransactionStmt')
      throw notSupported('transaction control is not allowed in run_sql, which runs in one transaction')
    if (kind === 'CopyStmt' && !node?.filename && !node?.is_program) {
      throw notSupported('run_sql does not support COPY from or to the client')
    }
    if (kind === 'RenameStmt') refuseRename(node as RenameStmt)
    for (const { schemaname: schema = '', relname: name = '' } of writtenBy(statement)) {
      if (data.catalog.tables.get(tableKey({ schema, name }))?.system !== true) continue
      const instead = 'use the metadata operations, such as untrack_table or replace_metadata'
      throw notSupported(`run_sql cannot write to "${schema}.${name}": ${instead}`)
    }
  }
}

/** Returns the tables that a statement, or a statement inside it, writes to. Bodies of functions are not searched. */
function writtenBy(statement: Statement): readonly Relation[] {
  const found: Relation[] = []
  const left: unknown[] = [statement]
  while (left.length > 0) {
    const node = left.pop()
    if (typeof node !== 'object' || node === null) continue
    for (const [key, value] of Object.entries(node)) {
      left.push(value)
      if (!WRITES.has(key)) continue
      const { relation, relations = [], is_from } = value as Write
      if (key === 'CopyStmt' && is_from !== true) continue
      found.push(...(relation ? [relation] : []), ...relations.flatMap(({ RangeVar }) => (RangeVar ? [RangeVar] : [])))
    }
  }
  return found
}
const WRITES = new Set(['InsertStmt', 'UpdateStmt', 'DeleteStmt', 'MergeStmt', 'TruncateStmt', 'CopyStmt'])

interface Relation {
  readonly schemaname?: string
  readonly relname?: string
}
interface Write {
  readonly relation?: Relation
  readonly relations?: readonly { readonly RangeVar?: Relation }[]
  readonly is_from?: boolean
}

type Statement = Readonly<Record<string, Node>>
interface Node {
  readonly filename?: string
  readonly is_program?: boolean
}
interface RenameStmt extends Node {
  readonly renameType?: string
  readonly relation?: Relation
  readonly subname?: string
}

async function parse(sql: string): Promise<readonly Statement[]> {
  const parser = await import('libpg-query')
  try {
    const { stmts } = (await parser.parse(sql)) as { stmts?: readonly { readonly stmt?: Statement }[] }
    return (stmts ?? []).flatMap(({ stmt }) => (stmt ? [stmt] : []))
  } catch {
    return []
  }
}

const TABLES = new Set(['OBJECT_TABLE', 'OBJECT_VIEW', 'OBJECT_MATVIEW', 'OBJECT_FOREIGN_TABLE'])

function refuseRename({ renameType = '', relation, subname }: RenameStmt): void {
  const { schemaname, relname = '' } = relation ?? {}
  const table = `"${schemaname && schemaname !== 'public' ? `${schemaname}.` : ''}${relname}"`
  if (TABLES.has(renameType)) throw notSupported(`table renames are not yet supported : ${table}`)
  if (renameType === 'OBJECT_COLUMN')
    throw notSupported(`column renames are not yet supported : ${table}."${subname ?? ''}"`)
}

const notSupported = (message: string) => serviceError('not-supported', message, '$.args')
