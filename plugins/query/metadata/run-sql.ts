import pg, { type ClientBase } from 'pg'
import { type Data, describeDatabaseError, type Json, type Operation, serviceError } from 'rowhouse'
import { stringifyJson, tableKey } from 'rowhouse/plan'
import { anything, type Args, args, text } from './operation.js'

const MAX_ROWS = 10_000
const AS_TEXT = { getTypeParser: () => (text: string) => text }
const DAY_MS = 86_400_000

const flag = { type: 'boolean' } as const
const schema = args(
  {
    sql: text,
    cascade: flag,
    read_only: flag,
    timeout_ms: { type: 'integer', minimum: 1, maximum: DAY_MS },
    no_transaction: flag,
    params: { type: 'array', maxItems: 65_535, items: anything },
    check_metadata_consistency: flag,
  },
  ['cascade', 'read_only', 'timeout_ms', 'no_transaction', 'params', 'check_metadata_consistency'],
)

/** Runs one or more SQL statements of an admin, updates the metadata, and returns the last result. */
export function runSqlOperation(data: Data): Operation {
  return {
    admin: true,
    args: schema,
    async run(given, call) {
      const { sql, params, cascade = false, ...rest } = given as unknown as Args<typeof schema>
      const { read_only: readOnly = false, no_transaction: noTransaction = false, timeout_ms: timeoutMs } = rest
      const checkMetadata = rest.check_metadata_consistency ?? true
      const [extra] = Object.keys(rest).filter((option) => option !== 'read_only')
      if (call.transaction && extra !== undefined) {
        throw serviceError('not-supported', `"${extra}" is not possible inside of a bulk`, `$.args.${extra}`)
      }
      const statements = await parse(sql)
      refuse(statements, data)
      if (noTransaction) {
        if (readOnly) throw serviceError('unexpected-payload', NOT_BOTH, '$.args.no_transaction')
        refuseTransacted(statements, checkMetadata)
      }
      const query = { sql, readOnly, values: params?.map(textOf), extended: noTransaction || params !== undefined }
      const work = (client: ClientBase) => (noTransaction ? run(client, query) : runInside(client, query))
      const options = { checkMetadata, readOnly, noTransaction, timeoutMs }
      const result = await data.runSql(call, cascade, work, options)
      return { kind: 'text', text: stringifyJson(result) }
    },
  }
}

const NOT_BOTH = 'read_only needs a transaction, so it cannot be combined with no_transaction'

interface Query {
  readonly sql: string
  readonly readOnly: boolean
  /** Texts of `$1` and so on. */
  readonly values: readonly (string | null)[] | undefined
  /** Whether to use the protocol that takes values, and only one statement. */
  readonly extended: boolean
}

/** Returns the text that PostgreSQL reads a parameter from. Arrays and objects are JSON. */
function textOf(value: Json): string | null {
  if (value === null || typeof value === 'string') return value
  return stringifyJson(value)
}

async function runInside(client: ClientBase, query: Query): Promise<Json> {
  const before = await transactionId(client)
  const result = await run(client, query)
  if ((await transactionId(client)) !== before) {
    throw serviceError('not-supported', 'run_sql cannot end the transaction that it runs in', '$.args.sql')
  }
  return result
}

async function transactionId(client: ClientBase): Promise<string | undefined> {
  const { rows } = await client.query<{ id: string }>(TRANSACTION)
  return rows[0]?.id
}
/** A standby gives transactions no id. */
const TRANSACTION = `select case when pg_catalog.pg_is_in_recovery()
  then (select virtualtransaction from pg_catalog.pg_locks where pid = pg_catalog.pg_backend_pid() limit 1)
  else pg_catalog.pg_current_xact_id()::text end as id`

/** Runs all statements, and keeps at most `MAX_ROWS` rows of the last one in memory. */
async function run(client: ClientBase, query: Query): Promise<Json> {
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
    const mode = query.extended ? { values: query.values, queryMode: 'extended' } : {}
    const config: object = { text: query.sql, rowMode: 'array', types: AS_TEXT, ...mode }
    const sent = new pg.Query<(string | null)[]>(config as pg.QueryConfig)
    sent.on('row', (row: (string | null)[], result) => {
      if (result) started(result as unknown as pg.QueryResult)
      if (++count <= MAX_ROWS) rows.push(row)
    })
    sent.on('end', (result: pg.QueryResult | pg.QueryResult[]) => {
      const final = Array.isArray(result) ? result.at(-1) : result
      if (final) started(final)
      resolve()
    })
    sent.on('error', reject)
    client.query(sent)
  }).catch((error: unknown) => {
    throw failure(error, query)
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
function failure(error: unknown, { sql, readOnly, extended }: Query): unknown {
  if (!(error instanceof pg.DatabaseError) || error.code === undefined) return error
  // A write in a read-only transaction, and a wrong number of parameters.
  const isCallers = (readOnly && error.code === '25006') || (extended && error.code === '08P01')
  const own = /^(40|08|53|57P|25006|55P03)/.test(error.code) || error.message.includes('statement timeout')
  if (own && !isCallers) return error
  const details = describeDatabaseError(error, sql)
  const statement = (sql.split('\n', Number(details['line'] ?? 1)).at(-1) ?? '').slice(0, MAX_STATEMENT)
  return serviceError('postgres-error', error.message, '$.args', { internal: { statement, error: details } })
}
/** Characters of the line that failed, which may be all rows of a large insert. */
const MAX_STATEMENT = 200

/** Refuses forbidden statements before any of them runs. SQL that the parser cannot read goes to PostgreSQL. */
function refuse(statements: readonly Statement[], data: Data): void {
  for (const statement of statements) {
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

/** Refuses what also runs in a transaction, because outside of one nothing can undo what breaks metadata. */
function refuseTransacted(statements: readonly Statement[], checkMetadata: boolean): void {
  if (statements.length > 1) throw notSupported('with no_transaction, run_sql takes a single statement')
  const [kind, node] = Object.entries(statements[0] ?? {})[0] ?? []
  if (!checkMetadata || kind === undefined || OUTSIDE.has(kind) || JSON.stringify(node).includes('"concurrent":true')) {
    return
  }
  const these = 'such as create index concurrently, reindex and vacuum'
  throw notSupported(`no_transaction is for statements that PostgreSQL refuses inside of a transaction, ${these}`)
}
const OUTSIDE = new Set(
  ['Vacuum', 'Reindex', 'Cluster', 'AlterSystem', 'AlterEnum', 'CheckPoint', 'Createdb', 'Dropdb'].map(
    (kind) => `${kind}Stmt`,
  ),
)

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
  if (TABLES.has(renameType)) throw notSupported(`run_sql cannot rename tables: ${table}`)
  if (renameType === 'OBJECT_COLUMN') throw notSupported(`run_sql cannot rename columns: ${table}."${subname ?? ''}"`)
}

const notSupported = (message: string) => serviceError('not-supported', message, '$.args')
