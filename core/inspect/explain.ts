import type { ClientBase } from 'pg'
import { type Catalog, type Table, tableKey, tableName } from '../catalog/catalog.js'
import type { Reading } from '../metadata/change.js'
import { definitionFor } from '../metadata/inherited-role.js'
import type { Metadata } from '../metadata/metadata.js'
import { clausesOf, partsOf } from '../metadata/permission.js'
import type { Prepared } from '../compile/compile.js'
import { executeIn } from '../db/execute.js'
import type { Execution } from '../db/lane.js'
import { serviceError, unexpectedPayload } from '../errors.js'
import { type Field, type Insert, type Op, TRUE, type Update } from '../ir.js'
import { namesFor, RULE_ACTIONS } from '../plan/names.js'
import { bind, type Statement } from '../sql/bind.js'
import { emit } from '../sql/emit.js'
import type { Explained, Refusal } from '../data/inspect.js'
import type { Call } from '../data/operations.js'
import type { Snapshot } from '../data/snapshots.js'

/** Runs within the caller's share of connections, in a transaction that it rolls back. */
export type Undone = <T>(run: (client: ClientBase) => Promise<T>) => Promise<T>

/** Returns the parts of a request that are explained separately: the root fields of a query, or the whole. */
export const fieldsOf = (op: Op): readonly { readonly op: Op; readonly field?: string }[] =>
  op.kind === 'roots' ? op.fields.map((field) => ({ op: { ...op, fields: [field] }, field: field.key })) : [{ op }]

/**
 * Returns PostgreSQL's plan of the first statement of a request.
 * @param op authorized for the caller's role
 * @param analyze also runs the statement, and returns its times, rows and buffers
 */
export async function explainStatement(
  op: Op,
  { bindings }: Execution,
  analyze: boolean,
  undone: Undone,
): Promise<Pick<Explained, 'sql' | 'plan'>> {
  const [statement, another] = emit(op, 'array')
  if (!statement) throw unexpectedPayload(ONE_STATEMENT, op.kind === 'insert' ? '$.args.objects' : '$.args')
  if (another && (op.kind === 'read' || op.kind === 'roots')) {
    throw unexpectedPayload('a function that may change the database cannot be explained', '$.args.function')
  }
  const values = bind(statement.params, bindings)
  const text = `explain ${analyze ? '(analyze, buffers) ' : ''}${statement.text}`
  const query = { text, values, rowMode: 'array' as const }
  const { rows } = await undone((client) => client.query<[string]>(query))
  return { sql: statement.text, plan: rows.map(([line]) => line) }
}

/**
 * Returns PostgreSQL's plan of a statement without values for its parameters.
 * @throws ServiceError 400 not-supported before PostgreSQL 16
 */
export async function genericPlan(client: ClientBase, sql: string): Promise<readonly string[]> {
  const { rows: versions } = await client.query<{ number: number; version: string }>(
    `select pg_catalog.current_setting('server_version_num')::int as number, pg_catalog.current_setting('server_version') as version`,
  )
  const { number, version } = versions[0]!
  if (number < 160_000)
    throw serviceError(
      'not-supported',
      `plans without values need PostgreSQL 16, and this is ${version}`,
      '$.args.plan',
    )
  const { rows } = await client.query<[string]>({ text: `explain (generic_plan) ${sql}`, rowMode: 'array' })
  return rows.map(([line]) => line)
}

const ONE_STATEMENT = 'explain takes no rows of relationships, and only rows with the same keys'

/**
 * Runs a write and rolls it back.
 * @param op authorized for the caller's role
 * @returns the clauses of the role's permission that refuse it; undefined when none does, or for a read
 */
export async function refusalOf(
  op: Op,
  { session }: Call,
  { catalog, reading }: Snapshot,
  execution: Execution,
  undone: Undone,
): Promise<Refusal | undefined> {
  if (op.kind !== 'insert' && op.kind !== 'update') return undefined
  const trial = trialOf(op, session.role, catalog, (reading as Reading).metadata)
  const values = bind(trial.statements[0]!.params, execution.bindings)
  return trial.refusal(await undone((client) => executeIn(client, trial, values, execution)))
}

/**
 * Prepares a write that refuses no row, to be run and rolled back.
 * @param write authorized for the role
 */
function trialOf(write: Insert | Update, role: string, catalog: Catalog, metadata: Metadata) {
  const table = catalog.tables.get(tableKey(write.table)) as Table
  const tracked = metadata.tables.get(tableKey(write.table))
  const names = namesFor('admin', catalog)
  const clauses = rulesOf(write).flatMap((rule) => {
    const permission = tracked && definitionFor(tracked, role, RULE_ACTIONS[rule], metadata.roles)
    const all = permission ? clausesOf(partsOf(permission, 'check', table, names)) : []
    return all.map((each) => ({ ...each, rule }))
  })
  const fields = clauses.map(({ exp, rule }, i): Field => ({ kind: 'condition', key: `c${i}`, is: exp, rule }))
  return {
    statements: unnamed(emit(unchecked(write, fields), 'array')),
    /** @param answer result of the last statement */
    refusal(answer: string): Refusal | undefined {
      const { affected_rows: affected, returning } = JSON.parse(answer) as Tried
      const refusing = clauses.filter((_, i) => returning.some((row) => row[`c${i}`] !== true))
      if (clauses.length === 0 || (refusing.length === 0 && returning.length === affected)) return undefined
      return {
        role,
        table: tableName(write.table),
        clauses: refusing.map(({ rule, path, clause }) => ({ permission: RULE_ACTIONS[rule], path, clause })),
      }
    },
  }
}

interface Tried {
  readonly affected_rows: number
  /** A row that a trigger moved is missing. */
  readonly returning: readonly Readonly<Record<string, boolean | null>>[]
}

/** Returns statements that run once, so that no connection keeps them prepared. */
export const unnamed = (statements: readonly Statement[]): readonly Prepared[] =>
  statements.map((statement) => ({ ...statement, name: '' }))

/** Returns a write that refuses no row and returns some fields of every row. */
export function unchecked<W extends Insert | Update>(write: W, fields: readonly Field[]): W {
  const conflict = write.kind === 'insert' && write.onConflict
  return {
    ...write,
    check: TRUE,
    returning: { fields, visible: TRUE },
    answer: undefined,
    ...(conflict ? { onConflict: { ...conflict, check: TRUE } } : {}),
  }
}

function rulesOf(write: Insert | Update): readonly ('inserted' | 'updated')[] {
  if (write.kind === 'update') return ['updated']
  return write.onConflict?.action === 'update' ? ['inserted', 'updated'] : ['inserted']
}
