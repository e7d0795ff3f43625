import {
  type FunctionData,
  isGraphqlName,
  type Names,
  ROOT_FIELD_KINDS,
  ROOT_FIELDS,
  type RootFieldKind,
  type Table,
} from 'rowhouse/plan'
import { type Dialect, keyOf } from './names.js'

/** A root field: what it does with which table. */
export interface RootField {
  readonly action: RootAction
  readonly table: Table
  /** The function that gives the rows, in place of the table. */
  readonly call?: FunctionData
}

/** What a root field of any table is made of. */
interface Declaration {
  /** Also in `/v1alpha1/graphql`. */
  readonly alpha?: true
  /** Whether a role sees it, besides having the permission that it needs. */
  offered?(table: Table, names: Names): boolean
  /** Rows, one row or null, the response of a mutation, or a list of responses. */
  readonly gives: 'rows' | 'row' | 'aggregate' | 'response' | 'responses'
  /** The method of `SchemaInputs` that makes its arguments. */
  readonly args: 'select' | 'key' | 'insert' | 'insertOne' | 'update' | 'updateByKey' | 'updateMany' | 'delete'
  /** The method of `Walker` that plans it in a query. */
  readonly read?: 'rows' | 'rowByKey' | 'aggregate'
  /** The planner of `mutation.ts` that plans it in a mutation. */
  readonly write?: 'insert' | 'update' | 'updateByKey' | 'updateMany' | 'delete' | 'deleteByKey'
}
export type RootAction = Declaration & (typeof ROOT_FIELDS)[RootFieldKind] & { readonly kind: RootFieldKind }

const inserts = ({ insertable }: Table): boolean => insertable
const updates = (table: Table, names: Names): boolean =>
  table.updatable && reads(table, names) && names.columns(table, 'update').some(({ name }) => isGraphqlName(name))
const deletes = (table: Table, names: Names): boolean => table.deletable && reads(table, names)
const reads = (table: Table, names: Names): boolean => names.may(table, 'select')

const DECLARATIONS: Readonly<Record<RootFieldKind, Declaration>> = {
  select: {
    alpha: true,
    gives: 'rows',
    args: 'select',
    read: 'rows',
  },
  select_by_pk: {
    gives: 'row',
    args: 'key',
    read: 'rowByKey',
  },
  select_aggregate: {
    offered: (table, names) => names.mayAggregate(table),
    gives: 'aggregate',
    args: 'select',
    read: 'aggregate',
  },
  insert: {
    alpha: true,
    offered: inserts,
    gives: 'response',
    args: 'insert',
    write: 'insert',
  },
  insert_one: {
    offered: (table, names) => inserts(table) && reads(table, names),
    gives: 'row',
    args: 'insertOne',
    write: 'insert',
  },
  update: {
    alpha: true,
    offered: updates,
    gives: 'response',
    args: 'update',
    write: 'update',
  },
  update_by_pk: {
    offered: updates,
    gives: 'row',
    args: 'updateByKey',
    write: 'updateByKey',
  },
  update_many: {
    offered: updates,
    gives: 'responses',
    args: 'updateMany',
    write: 'updateMany',
  },
  delete: {
    alpha: true,
    offered: deletes,
    gives: 'response',
    args: 'delete',
    write: 'delete',
  },
  delete_by_pk: {
    offered: deletes,
    gives: 'row',
    args: 'key',
    write: 'deleteByKey',
  },
}

/** Every root field, declared once: the schema, what a role sees of it, and the planner read this table. */
export const ROOT_ACTIONS = Object.fromEntries(
  ROOT_FIELD_KINDS.map((kind) => [kind, { kind, ...ROOT_FIELDS[kind], ...DECLARATIONS[kind] }]),
) as Readonly<Record<RootFieldKind, RootAction>>

const MODERN = Object.values(ROOT_ACTIONS)
const ROOTS: Record<Dialect, readonly RootAction[]> = { alpha: MODERN.filter(({ alpha }) => alpha), modern: MODERN }

/** The root fields that a role sees of a table. */
export const offeredRoots = (table: Table, names: Names, dialect: Dialect): readonly RootAction[] =>
  ROOTS[dialect].filter(
    ({ needs, offered, byKey }) =>
      names.may(table, needs) && (offered?.(table, names) ?? true) && (!byKey || seesKey(table, names)),
  )

/** Whether a table has a primary key, and the role sees all of it. */
function seesKey(table: Table, names: Names): boolean {
  const seen = new Set(names.columns(table).map(({ name }) => name))
  const keys = table.primaryKey.map((column) => keyOf(table, column))
  return keys.length > 0 && keys.every((key) => seen.has(key) && isGraphqlName(key))
}
