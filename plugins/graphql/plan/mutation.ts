import type { FieldNode } from 'graphql'
import {
  type Assignment,
  at,
  type Column,
  type Delete,
  INT8,
  type Insert,
  type Json,
  type JsonChange,
  type OnConflict,
  planRows,
  type Returning,
  rowKey,
  type SqlType,
  type Table,
  TEXT,
  TRUE,
  type Update,
  type Write,
  type WriteAnswer,
  type WritePart,
} from 'rowhouse/plan'
import { exposed, type RootField } from './exposed.js'
import { type Input, inputOf, invalid } from './input.js'
import type { Args, Walker } from './walk.js'

/** The rows of an insert: their slot, and their keys with whether every row has them. */
export interface RowsShape {
  readonly slot: number
  readonly columns: readonly (readonly [name: string, everywhere: boolean])[]
}

/** A step of an insert whose rows bring rows of related tables along. */
export interface NestedShape {
  readonly phase: 'write' | 'look'
  /** Columns that the related rows are joined by. */
  readonly link: readonly string[]
  /** The names of the relationships that lead from the field's table to the rows of this step. */
  readonly via: readonly string[]
  readonly conflict?: { readonly constraint: string; readonly columns: readonly string[]; readonly where?: Json }
  /** Slot of the number of rows of other tables. */
  readonly others?: number
}

/** @param rows when looking, their slot is that of what writing gave */
export function planNested(
  walker: Walker,
  nodes: readonly FieldNode[],
  { action, table }: RootField,
  key: string,
  rows: RowsShape,
  { phase, link, via, conflict, others }: NestedShape,
): Insert {
  const [node] = nodes as [FieldNode]
  const path = at('$.selectionSet', key)
  const args = walker.args(node)
  const { names } = walker
  const steps = { phase, link, ...(others === undefined ? {} : { alsoAffected: count(others, path) }) }
  if (via.length === 0) {
    const answer = phase === 'look' ? answering(walker, nodes, action, table, path) : {}
    return { ...planInsert(walker, table, args, rows, answer, path), ...steps }
  }
  const here = `${path}.args.objects.${via.join('.')}`
  if (conflict)
    names.upsert(
      via.reduce((from, name) => names.relationship(from, name, here).table, table),
      here,
    )
  const target = via.reduce((from, name) => names.relationship(from, name, here).table, table)
  names.table(target, 'insert', here)
  const input: Input | undefined = conflict && {
    kind: 'object',
    fields: {
      constraint: { kind: 'enum', name: constraintOf(target, conflict.constraint, here) },
      update_columns: {
        kind: 'list',
        of: conflict.columns.map((name): Input => ({ kind: 'enum', name })),
      },
      ...(conflict.where === undefined ? {} : { where: inputOf(conflict.where) }),
    },
  }
  return { ...planInsert(walker, target, input ? { on_conflict: input } : {}, rows, { answer: [] }, here), ...steps }
}

const count = (slot: number, path: string) => ({ kind: 'value' as const, slot, type: INT8, path })

function constraintOf(table: Table, name: string, path: string): string {
  if (table.keys.some((key) => key.name === name)) return name
  throw invalid(`"${name}" is not a unique constraint of "${table.name}"`, path)
}

/**
 * One root field of a mutation.
 * @param index of the entry of `updates` that is meant, where the field takes several
 */
export function planMutation(
  walker: Walker,
  nodes: readonly FieldNode[],
  { action, table }: RootField,
  key: string,
  rows: RowsShape | undefined,
  index: number | undefined,
): Write {
  const [node] = nodes as [FieldNode]
  const path = at('$.selectionSet', key)
  const args = walker.args(node)
  const answer = answering(walker, nodes, action, table, path)
  const where = (input: Input | undefined) => walker.where(required(input, 'where', path), table, `${path}.args.where`)
  switch (action) {
    case 'insert':
    case 'insert_one':
      return planInsert(walker, table, args, rows as RowsShape, answer, path)
    case 'update':
      return planUpdate(walker, table, where(args['where']), args, answer, path)
    case 'update_by_pk': {
      const keys = objectFields(required(args['pk_columns'], 'pk_columns', path))
      return planUpdate(walker, table, walker.byKey(keys, table, `${path}.args.pk_columns`), args, answer, path)
    }
    case 'update_many': {
      const entry = objectFields(elementOf(args['updates'], index as number))
      return planUpdate(walker, table, where(entry['where']), entry, answer, path)
    }
    case 'delete':
      return { ...remove(table), where: where(args['where']), ...answer }
    case 'delete_by_pk':
      return { ...remove(table), where: walker.byKey(args, table, path), ...answer }
    case 'select':
    case 'by_pk':
    case 'aggregate':
      throw new Error(`${action} changes nothing`)
  }
}

const ref = ({ schema, name }: Table) => ({ schema, name })
const remove = (table: Table): Omit<Delete, 'where'> => ({ kind: 'delete', table: ref(table) })

function planInsert(
  walker: Walker,
  table: Table,
  args: Args,
  rows: RowsShape,
  answer: Pick<Write, 'returning' | 'answer'>,
  path: string,
): Insert {
  const here = `${path}.args.objects`
  walker.names.table(table, 'insert', path)
  const onConflict = planConflict(walker, table, args['on_conflict'], `${path}.args.on_conflict`)
  return {
    kind: 'insert',
    table: ref(table),
    key: rowKey(table),
    rows: rows.slot,
    ...planRows(rows.columns, table, walker.names, onConflict?.action === 'update', here),
    presets: [],
    check: TRUE,
    ...(onConflict ? { onConflict } : {}),
    ...answer,
  }
}

function planConflict(walker: Walker, table: Table, input: Input | undefined, path: string): OnConflict | undefined {
  if (!input || input.kind === 'null') return undefined
  const { constraint, update_columns: columns, where } = objectFields(input)
  const [name] = walker.enums(constraint)
  if (name === undefined) throw invalid('the required argument "constraint" is missing', path)
  const set = walker.enums(columns).map((each) => walker.names.column(table, each, 'update', path).name)
  return {
    action: set.length > 0 ? 'update' : 'ignore',
    constraint: name,
    set,
    presets: [],
    where: walker.where(where, table, `${path}.where`),
    check: TRUE,
  }
}

function planUpdate(
  walker: Walker,
  table: Table,
  where: Update['where'],
  args: Args,
  answer: Pick<Write, 'returning' | 'answer'>,
  path: string,
): Update {
  const set = OPERATORS.flatMap(({ key, kind, type }) => {
    const here = `${path}.args.${key}`
    return Object.entries(objectFields(args[key])).map(([name, input]): Assignment => {
      const column: Column = walker.names.column(table, name, 'update', here)
      // Whether a change of the present value succeeds would tell that value.
      if (kind !== 'set') walker.names.column(table, name, 'select', here)
      if (column.generated === 'always') throw invalid(`column "${name}" is generated`, at(here, name))
      if (kind === 'set' && input.kind === 'null') return { kind: 'null', column: column.name }
      return { kind, column: column.name, to: walker.operand(input, type ?? column.type, at(here, name)) }
    })
  })
  const twice = set.find((each, i) => set.findIndex(({ column }) => column === each.column) !== i)
  if (twice) throw invalid(`multiple assignments to same column "${twice.column}"`, path)
  if (set.length === 0) throw invalid('nothing is set', path)
  return { kind: 'update', table: ref(table), key: rowKey(table), set, where, check: TRUE, ...answer }
}

const INT4: SqlType = { ...INT8, name: 'int4', kind: 'int4' }
const TEXTS: SqlType = { schema: 'pg_catalog', name: '_text', kind: 'array', element: TEXT }
const OPERATORS: readonly {
  readonly key: string
  readonly kind: 'set' | 'inc' | JsonChange
  readonly type?: SqlType
}[] = [
  { key: '_set', kind: 'set' },
  { key: '_inc', kind: 'inc' },
  { key: '_append', kind: 'append' },
  { key: '_prepend', kind: 'prepend' },
  { key: '_delete_key', kind: 'delete_key', type: TEXT },
  { key: '_delete_elem', kind: 'delete_elem', type: INT4 },
  { key: '_delete_at_path', kind: 'delete_at_path', type: TEXTS },
]

/** What the field asks for of the rows written: `affected_rows` and `returning`, or one row. */
function answering(
  walker: Walker,
  nodes: readonly FieldNode[],
  action: RootField['action'],
  table: Table,
  path: string,
): { readonly returning?: Returning; readonly answer: WriteAnswer } {
  if (action === 'insert_one' || action.endsWith('by_pk')) {
    return { returning: { fields: walker.fields(nodes, table, path, 1), visible: TRUE }, answer: 'row' }
  }
  let returning: Returning | undefined
  const name = exposed(walker.names, walker.dialect).nameOf(table) as string
  const sets = nodes.flatMap(({ selectionSet }) => selectionSet ?? [])
  const answer = [...walker.collect(sets)].map(([key, same]): WritePart => {
    const [node] = same as [FieldNode]
    const here = `${path}.selectionSet${at('', key)}`
    switch (node.name.value) {
      case '__typename':
        return { kind: 'constant', key, value: `${name}_mutation_response` }
      case 'affected_rows':
        return { kind: 'affected_rows', key }
      default:
        if (returning) throw invalid('returning may be asked for once', here)
        returning = { fields: walker.fields(same, table, here, 1), visible: TRUE }
        return { kind: 'returning', key }
    }
  })
  return { ...(returning ? { returning } : {}), answer }
}

function required(input: Input | undefined, name: string, path: string): Input {
  if (input && input.kind !== 'null') return input
  throw invalid(`the required argument "${name}" is missing`, `${path}.args`)
}

function objectFields(input: Input | undefined): Args {
  return input?.kind === 'object' ? input.fields : {}
}

function elementOf(input: Input | undefined, index: number): Input | undefined {
  return input?.kind === 'list' ? input.of[index] : input
}
