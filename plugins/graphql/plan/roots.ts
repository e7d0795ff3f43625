import {
  type Field,
  type FunctionData,
  isGraphqlName,
  type Names,
  ROOT_FIELD_KINDS,
  ROOT_FIELDS,
  type RootFieldKind,
  type Table,
  type Write,
} from 'rowhouse/plan'
import { byKey, byWhere, entryOf, type Mutation, planDelete, planInsert, planUpdate } from './mutation.js'
import { type Dialect, keyOf } from './names.js'
import type { InputFields } from './registry.js'
import type { SchemaInputs } from './schema-inputs.js'
import type { Asked, Walker } from './walk.js'

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
  args(inputs: SchemaInputs, table: Table): InputFields
  /** Plans it in a query. */
  read?(walker: Walker, asked: Asked): Field
  /** Plans it in a mutation. */
  write?(mutation: Mutation): Write
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
    args: (inputs, table) => inputs.select(table),
    read: (walker, asked) => walker.rows(asked),
  },
  select_by_pk: {
    gives: 'row',
    args: (inputs, table) => inputs.key(table),
    read: (walker, asked) => walker.rowByKey(asked),
  },
  select_aggregate: {
    offered: (table, names) => names.mayAggregate(table),
    gives: 'aggregate',
    args: (inputs, table) => inputs.select(table),
    read: (walker, asked) => walker.aggregate(asked),
  },
  insert: {
    alpha: true,
    offered: inserts,
    gives: 'response',
    args: (inputs, table) => inputs.insert(table, 'objects'),
    write: planInsert,
  },
  insert_one: {
    offered: (table, names) => inserts(table) && reads(table, names),
    gives: 'row',
    args: (inputs, table) => inputs.insert(table, 'object'),
    write: planInsert,
  },
  update: {
    alpha: true,
    offered: updates,
    gives: 'response',
    args: (inputs, table) => inputs.update(table),
    write: (mutation) => planUpdate(mutation, byWhere(mutation), mutation.args),
  },
  update_by_pk: {
    offered: updates,
    gives: 'row',
    args: (inputs, table) => inputs.updateByKey(table),
    write: (mutation) => planUpdate(mutation, byKey(mutation, 'pk_columns'), mutation.args),
  },
  update_many: {
    offered: updates,
    gives: 'responses',
    args: (inputs, table) => inputs.updateMany(table),
    write: (mutation) => planUpdate(mutation, byWhere(mutation, entryOf(mutation)), entryOf(mutation)),
  },
  delete: {
    alpha: true,
    offered: deletes,
    gives: 'response',
    args: (inputs, table) => inputs.delete(table),
    write: (mutation) => planDelete(mutation, byWhere(mutation)),
  },
  delete_by_pk: {
    offered: deletes,
    gives: 'row',
    args: (inputs, table) => inputs.key(table),
    write: (mutation) => planDelete(mutation, byKey(mutation)),
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
