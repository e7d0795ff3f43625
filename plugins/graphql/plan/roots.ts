import {
  type FunctionData,
  isGeo,
  isGraphqlName,
  type Names,
  ROOT_FIELD_KINDS,
  ROOT_FIELDS,
  type RootFieldKind,
  type Table,
} from 'rowhouse/plan'
import { type Dialect, keyOf } from './names.js'

/** A root field of a table or of a function. */
export interface RootField {
  readonly action: RootAction
  readonly table: Table
  /** The function that returns the rows. */
  readonly call?: FunctionData
}

/** A kind of root field. */
interface Declaration {
  /** Whether `/v1alpha1/graphql` has it too. */
  readonly alpha?: true
  /** Returns whether a role that has the necessary permission sees it. */
  offered?(table: Table, names: Names): boolean
  /** What it returns: `row` is a row or null, `response` the response of a mutation. */
  readonly gives: 'rows' | 'row' | 'aggregate' | 'connection' | 'response' | 'responses'
  /** The method of `SchemaInputs` that declares its arguments. */
  readonly args:
    | 'select'
    | 'stream'
    | 'connection'
    | 'key'
    | 'insert'
    | 'insertOne'
    | 'update'
    | 'updateByKey'
    | 'updateMany'
    | 'delete'
  /** The method of `Walker` that plans it in a query. */
  readonly read?: 'rows' | 'rowByKey' | 'aggregate' | 'connection'
  /** Whether a subscription sends each row once, in the order of a cursor. */
  readonly streams?: true
  /** The planner of `mutation.ts` that plans it in a mutation. */
  readonly write?: 'insert' | 'update' | 'updateByKey' | 'updateMany' | 'delete' | 'deleteByKey'
}
export interface RootAction extends Declaration {
  readonly needs: (typeof ROOT_FIELDS)[RootFieldKind]['needs']
  readonly byKey: boolean
  /** Absent: it is a connection, which `set_table_customization` cannot rename. */
  readonly kind?: RootFieldKind
}

const inserts = ({ insertable }: Table): boolean => insertable
const updates = (table: Table, names: Names): boolean =>
  table.updatable &&
  (names.presetsUpdate(table) || names.columns(table, 'update').some(({ name }) => isGraphqlName(name)))
const deletes = ({ deletable }: Table): boolean => deletable
const reads = (table: Table, names: Names): boolean => names.may(table, 'select')

const DECLARATIONS: Readonly<Record<RootFieldKind, Declaration>> = {
  select: { alpha: true, gives: 'rows', args: 'select', read: 'rows' },
  select_by_pk: { gives: 'row', args: 'key', read: 'rowByKey' },
  select_aggregate: {
    offered: (table, names) => names.mayAggregate(table),
    gives: 'aggregate',
    args: 'select',
    read: 'aggregate',
  },
  insert: { alpha: true, offered: inserts, gives: 'response', args: 'insert', write: 'insert' },
  insert_one: {
    offered: (table, names) => inserts(table) && reads(table, names),
    gives: 'row',
    args: 'insertOne',
    write: 'insert',
  },
  update: { alpha: true, offered: updates, gives: 'response', args: 'update', write: 'update' },
  update_by_pk: { offered: updates, gives: 'row', args: 'updateByKey', write: 'updateByKey' },
  update_many: { offered: updates, gives: 'responses', args: 'updateMany', write: 'updateMany' },
  delete: { alpha: true, offered: deletes, gives: 'response', args: 'delete', write: 'delete' },
  delete_by_pk: { offered: deletes, gives: 'row', args: 'key', write: 'deleteByKey' },
}

/** Declares every kind of root field once, for the schema, the permissions and the planner. */
export const ROOT_ACTIONS = Object.fromEntries(
  ROOT_FIELD_KINDS.map((kind): [RootFieldKind, RootAction] => [
    kind,
    { kind, ...ROOT_FIELDS[kind], ...DECLARATIONS[kind] },
  ]),
) as Readonly<Record<RootFieldKind, RootAction>>

/** The root fields of Relay are mutations, `node`, and the connections of tables with a primary key. */
export const CONNECTION_ACTION: RootAction = {
  needs: 'select',
  byKey: true,
  offered: isNode,
  gives: 'connection',
  args: 'connection',
  read: 'connection',
}
/** A root field of a subscription. */
export const STREAM_ACTION: RootAction = {
  needs: 'select',
  byKey: false,
  gives: 'rows',
  args: 'stream',
  read: 'rows',
  streams: true,
}
/** The root field that finds a row by its global id. */
export const NODE = 'node'

const MODERN = Object.values(ROOT_ACTIONS)
const ROOTS: Record<Dialect, readonly RootAction[]> = {
  alpha: MODERN.filter(({ alpha }) => alpha),
  modern: MODERN,
  relay: [CONNECTION_ACTION, ...MODERN.filter(({ write }) => write)],
}

/** Returns the kinds of root fields of a table that a role sees. */
export const offeredRoots = (table: Table, names: Names, dialect: Dialect): readonly RootAction[] =>
  ROOTS[dialect].filter(
    ({ needs, offered, byKey }) =>
      names.may(table, needs) && (offered?.(table, names) ?? true) && (!byKey || seesKey(table, names)),
  )

/** Returns whether a table has a primary key of which the role sees all columns. */
function seesKey(table: Table, names: Names): boolean {
  const seen = new Set(names.columns(table).map(({ name }) => name))
  const keys = table.primaryKey.map((column) => keyOf(table, column, names.naming))
  return keys.length > 0 && keys.every((key) => seen.has(key) && isGraphqlName(key))
}

/** Returns whether rows of a table have global ids: by a primary key that the role sees, and that JSON keeps unchanged. */
export function isNode(table: Table, names: Names): boolean {
  const isExact = table.primaryKey.every((name) => !isGeo(table.columnsByName.get(name)?.type))
  return isExact && names.may(table, 'select') && seesKey(table, names)
}
