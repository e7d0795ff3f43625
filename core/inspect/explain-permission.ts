import type { ClientBase } from 'pg'
import { type Catalog, openCatalog, permissionsOf, type Table, tableKey } from '../catalog/catalog.js'
import type { Change } from '../metadata/change.js'
import { Editor } from '../metadata/editor.js'
import { definitionFor } from '../metadata/inherited-role.js'
import { permissionKey, type Metadata } from '../metadata/metadata.js'
import { partsOf, type RulePart, variablesIn } from '../metadata/permission.js'
import { clientError } from '../db/errors.js'
import { executeIn } from '../db/execute.js'
import type { Execution } from '../db/lane.js'
import { ServiceError, unexpectedPayload } from '../errors.js'
import { type Json, type JsonObject, NO_LIMITS, parseJson } from '../json/parse.js'
import { authorize } from '../plan/authorize.js'
import { columnField } from '../plan/fields.js'
import { type BoolExp, type Field, type Op, type Operand, type Read, type TableRef, TRUE, type Write } from '../ir.js'
import { type Action, type Names, namesFor } from '../plan/names.js'
import { INT8 } from '../plan/operators.js'
import { roleName } from '../session.js'
import type { PermissionExplained, RuleResult } from '../data/inspect.js'
import { unchecked, unnamed } from './explain.js'
import { bind } from '../sql/bind.js'
import { emit } from '../sql/emit.js'

interface Planned {
  plan(names: Names): Op
  readonly execution: Execution
}

/** The permission of a role for an action. */
interface PermissionRef {
  readonly role: string
  readonly action: Action
  readonly catalog: Catalog
  readonly metadata: Metadata
  readonly table: TableRef
  readonly variables: ReadonlyMap<string, string>
}

/** The question whether a role may do something. */
interface Trial extends PermissionRef {
  /** Read of the row, which finds at most one. Absent for an insert. */
  readonly row?: Planned
  /** The write. Absent for a select. */
  readonly write?: Planned
}

/**
 * Explains what a role may do with one row.
 * @param client in a transaction that will be rolled back
 */
export async function explainTrial(client: ClientBase, trial: Trial): Promise<PermissionExplained> {
  const { role, catalog, row, write } = trial
  const { table, about, rule } = permissionOf(trial)
  const read = row?.plan(namesFor('admin', catalog)) as Read | undefined
  let op: Op
  try {
    op = authorize(write?.plan(namesFor(role, catalog)) ?? readOf(table, role, catalog), role, catalog)
  } catch (error) {
    return { verdict: 'refused', reason: 'permission', error: said(error), ...about }
  }
  const [statement] = emit(op, 'array')
  if (!statement) throw unexpectedPayload('explain_permission takes no rows of relationships', '$.args.object')
  let found: Omit<PermissionExplained, 'verdict'> = { ...about, sql: statement.text }
  try {
    let filter: RuleResult | undefined
    if (read) {
      const rows = await rowsFor(client, read, row!.execution, rule('filter') as RulePart)
      if (rows.length > 1) throw unexpectedPayload('more than one row has this key', KEY)
      if (rows.length === 0) return { verdict: 'refused', reason: 'row', ...found }
      filter = rows[0] as RuleResult
      if (filter.result !== true) return { verdict: 'refused', reason: 'filter', filter, ...found }
    }
    if (read && !write && about.columns) {
      const hidden = await hiddenCells(client, read, row!.execution, trial)
      if (hidden) found = { ...found, columns: { ...about.columns, null: hidden } }
    }
    const written = write && (await tryWrite(client, op as Write, write.execution, rule('check')))
    if (written?.affected === 0 && isSeenOnly(trial)) return { verdict: 'refused', reason: 'row', ...found }
    const verdict = written?.refused
      ? ({ verdict: 'refused', reason: 'check' } as const)
      : ({ verdict: 'allowed' } as const)
    return { ...verdict, ...(filter ? { filter } : {}), ...(written?.check ? { check: written.check } : {}), ...found }
  } catch (error) {
    if (error instanceof ServiceError && error.path === KEY) throw error
    return { verdict: 'refused', reason: 'request', error: said(error), ...found }
  }
}

/**
 * Replaces the permission of a role in a change that is never written.
 * @throws ServiceError 400 with a path below `$.args`, like `create_select_permission` and its siblings
 */
export async function tryPermission(
  change: Change,
  { role, action, table }: Pick<Trial, 'role' | 'action' | 'table'>,
  permission: Json,
): Promise<Pick<Trial, 'catalog' | 'metadata'>> {
  const edit = new Editor(change)
  const { draft } = change
  if (draft.tracked(table)?.permissions.has(permissionKey(role, action))) edit.dropPermission(table, role, action)
  await edit.createPermission(table, role, action, permission, null)
  return { catalog: openCatalog(change.snapshot()), metadata: draft.metadata }
}

/**
 * Returns a permission: its definition, what it says without a row, and its rules.
 * @throws ServiceError 400 not-exists: the table is not tracked
 */
export function permissionOf({ role, action, catalog, metadata, table: ref, variables }: PermissionRef) {
  const names = namesFor('admin', catalog)
  const table = names.table(ref, action, '$.args.table')
  const tracked = metadata.tables.get(tableKey(table))
  const definition = tracked && definitionFor(tracked, roleName(role), action, metadata.roles)
  const about = {
    ...(action === 'delete' ? {} : { columns: columnsOf(table, role, action, catalog) }),
    ...(definition?.['set'] ? { presets: definition['set'] } : {}),
    ...(action === 'select' && typeof definition?.['limit'] === 'number' ? { limit: definition['limit'] } : {}),
    session: Object.fromEntries(variablesIn(definition ?? null).map((name) => [name, variables.get(name) ?? null])),
  }
  const rule = (key: 'filter' | 'check') =>
    definition?.[key] === undefined ? undefined : partsOf(definition, key, table, names)
  return { table, definition, about, rule }
}

/** Path of the row in the question. */
const KEY = '$.args.key'

/** Returns the read of all that a role may select. */
function readOf(table: Table, role: string, catalog: Catalog): Read {
  const fields = namesFor(role, catalog)
    .columns(table)
    .map((column) => columnField(column))
  return { kind: 'read', table: refOf(table), fields, where: TRUE, orderBy: [], single: false }
}

/** Evaluates a rule on the rows of a read, of which it reads at most two. */
export async function rowsFor(
  client: ClientBase,
  read: Read,
  execution: Execution,
  rule: RulePart,
): Promise<readonly RuleResult[]> {
  const probe = probeOf(rule)
  const rows = (await answerTo(client, asking(read, probe.fields), execution)) as JsonObject[]
  return rows.map(probe.result)
}

/** Returns a read of at most two rows with other fields, and without the version, which is no JSON. */
function asking(read: Read, fields: readonly Field[]): Read {
  const asked: Partial<Record<'version', unknown>> & Omit<Read, 'version'> = { ...read, fields, limit: TWO }
  delete asked.version
  return asked as Read
}

/** Runs a statement and parses its answer. */
async function answerTo(client: ClientBase, op: Read | Write, execution: Execution): Promise<Json> {
  const statements = unnamed(emit(op, 'array'))
  const values = bind(statements[0]!.params, execution.bindings)
  return parseJson(await executeIn(client, { statements }, values, execution), NO_LIMITS)
}

/** Returns the columns that a role sees in some rows, and not in the one of a read; undefined if it sees all in all rows. */
async function hiddenCells(
  client: ClientBase,
  read: Read,
  execution: Execution,
  { role, action, catalog, table: ref }: PermissionRef,
): Promise<readonly string[] | undefined> {
  const table = catalog.tables.get(tableKey(ref))
  const masks = action === 'select' && table ? permissionsOf(table, role)?.select?.masks : undefined
  const columns = Object.entries(masks ?? {}).filter(([name]) => table?.columnsByName.has(name))
  if (columns.length === 0) return undefined
  const fields = columns.map(([key, place]): Field => ({
    kind: 'condition',
    key,
    is: catalog.filters[place] as BoolExp,
  }))
  const [row] = (await answerTo(client, asking(read, fields), execution)) as JsonObject[]
  return columns.flatMap(([name]) => (row?.[name] === true ? [] : [name]))
}

/**
 * Runs a write without its check, and evaluates the check on the written rows. Checks deferred constraints too.
 * @returns as `check`, the one about the first row that it refuses, otherwise about the first row
 */
export async function tryWrite(
  client: ClientBase,
  write: Write,
  execution: Execution,
  rule: RulePart | undefined,
): Promise<{ readonly refused: boolean; readonly affected?: number; readonly check?: RuleResult }> {
  const probe = write.kind !== 'delete' && rule ? probeOf(rule) : undefined
  const tried = write.kind !== 'delete' && probe ? unchecked(write, probe.fields) : write
  const answer = (await answerTo(client, tried, execution)) as JsonObject
  const rows = probe ? (answer['returning'] as JsonObject[]) : []
  // A row that was not found again is unchecked, and the write refuses it.
  if (probe && rows.length < (answer['affected_rows'] as number)) return { refused: true }
  const checks = probe ? rows.map(probe.result) : []
  const check = checks.find(({ result }) => result !== true)
  if (check) return { refused: true, check }
  await client.query('set constraints all immediate').catch((error: unknown) => {
    throw clientError(error, execution.reader)
  })
  return { refused: false, affected: answer['affected_rows'] as number, check: checks[0] }
}

/** Returns whether a role may change only rows that it may select, beside what the permission says. */
function isSeenOnly({ role, action, catalog, table: ref }: PermissionRef): boolean {
  const table = catalog.tables.get(tableKey(ref))
  const permissions = table && permissionsOf(table, role)
  return (action === 'update' || action === 'delete') && permissions?.[action]?.seenOnly === true
}

/** Fields that tell whether a rule and its parts hold, and the reader of their values. */
interface Probe {
  readonly fields: readonly Field[]
  result(row: JsonObject): RuleResult
}

/** Maximum number of parts of a rule that are evaluated. Others have no result. */
const MAX_PARTS = 300
/** Number of related rows to show. */
const MOST_ROWS = 5

function probeOf(rule: RulePart): Probe {
  let parts = 0
  const probe = (part: RulePart): Probe => {
    const key = `p${parts++}`
    const isFull = parts >= MAX_PARTS
    const own: Field = { kind: 'condition', key, is: part.exp }
    const columns = (part.columns ?? []).map((column, i) => columnField(column, `${key}v${i}`))
    const of = isFull ? undefined : part.parts?.of
    const rules = isFull ? [] : (part.parts?.rules ?? []).map(probe)
    const related = isFull || !part.related ? undefined : probeRelated(part.related, `${key}r`)
    return {
      fields: [own, ...columns, ...rules.flatMap(({ fields }) => fields), ...(related ? [related.field] : [])],
      result(row) {
        const results = rules.map(({ result }) => result(row))
        return {
          path: part.path,
          result: row[key] as boolean | null,
          clause: part.clause,
          ...(of === 'not' ? { not: results[0] as RuleResult } : of ? { [of]: results } : {}),
          ...(columns.length > 0
            ? { values: Object.fromEntries(columns.map((each) => [each.column, row[each.key] as Json])) }
            : {}),
          ...related?.result(row),
        }
      },
    }
  }

  /** Reads some related rows. Without a join it shows rows for which the rule is true, because others may be many. */
  const probeRelated = ({ table, on, rule: about }: NonNullable<RulePart['related']>, key: string) => {
    const keys = table.primaryKey.flatMap((name, i) => {
      const column = table.columnsByName.get(name)
      return column ? [columnField(column, `${key}k${i}`)] : []
    })
    const inner = probe(about)
    const read: Read = {
      kind: 'read',
      table: refOf(table),
      fields: [...keys, ...inner.fields],
      where: on.length > 0 ? TRUE : about.exp,
      orderBy: [],
      limit: countOf(MOST_ROWS + 1),
      single: false,
    }
    return {
      field: { kind: 'relation', key, on, read } satisfies Field,
      result(row: JsonObject): Pick<RuleResult, 'rows' | 'more'> {
        const rows = row[key] as JsonObject[]
        const shown = rows.slice(0, MOST_ROWS).map((each) => ({
          key: Object.fromEntries(keys.map((field) => [field.column, each[field.key] as Json])),
          rule: inner.result(each),
        }))
        return { rows: shown, ...(rows.length > MOST_ROWS ? { more: true as const } : {}) }
      },
    }
  }
  return probe(rule)
}

const countOf = (count: number): Operand => ({ kind: 'const', value: String(count), type: INT8 })
const TWO = countOf(2)

const refOf = ({ schema, name }: Table) => ({ schema, name })

function columnsOf(table: Table, role: string, action: 'select' | 'insert' | 'update', catalog: Catalog) {
  const allowed = namesFor(role, catalog)
    .columns(table, action)
    .map(({ name }) => name)
  const refused = table.columns.map(({ name }) => name).filter((name) => !allowed.includes(name))
  return { allowed, refused }
}

/** @throws what is no refusal, such as a lost connection */
export function said(error: unknown): PermissionExplained['error'] {
  if (!(error instanceof ServiceError) || error.status >= 500) throw error
  return { path: error.path, error: error.message, code: error.code }
}
