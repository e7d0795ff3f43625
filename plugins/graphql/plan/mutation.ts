import type { FieldNode } from 'graphql'
import {
  and,
  type Assignment,
  at,
  type BoolExp,
  type Column,
  type Delete,
  type Field,
  INT8,
  type Insert,
  type Json,
  type JsonChange,
  type NestedStep,
  type OnConflict,
  planRows,
  planStep,
  type Returning,
  rowKey,
  type SqlType,
  type Table,
  tableOfStep,
  TEXT,
  TRUE,
  type Update,
  type Write,
  type WriteAnswer,
  type WritePart,
} from 'rowhouse/plan'
import { type Args, fieldsOf, type Input, inputOf, invalid, isAbsent } from './input.js'
import { withWords, wordOf } from './names.js'
import type { RootAction, RootField } from './roots.js'
import type { Walker } from './walk.js'

/** The rows of an insert: their slot, and their keys. */
export interface RowsShape {
  readonly slot: number
  /** Whether there are no rows, rather than rows without keys. */
  readonly empty?: true
  readonly columns: readonly (readonly [name: string, everywhere: boolean])[]
}

/** A step of an insert with rows of related tables. */
export interface NestedShape extends NestedStep {
  readonly conflict?: Conflict
}

export interface Conflict {
  readonly constraint: string
  readonly columns: readonly string[]
  readonly where?: Json
}

/** A root field of a mutation. */
interface Mutation {
  readonly walker: Walker
  readonly table: Table
  readonly args: Args
  readonly path: string
  readonly answer: Answer
  readonly rows?: RowsShape
  /** Index of the entry of `updates` to plan. */
  readonly index?: number
}
interface Answer {
  readonly returning?: Returning
  /** Absent: the number of rows. */
  readonly answer?: WriteAnswer
}

/**
 * Plans one root field of a mutation.
 * @param index index of the entry of `updates` to plan
 */
export function planMutation(
  walker: Walker,
  nodes: readonly FieldNode[],
  { action, table }: RootField,
  key: string,
  rows: RowsShape | undefined,
  index: number | undefined,
): Write {
  if (!action.write) throw new Error('a query changes nothing')
  const path = at('$.selectionSet', key)
  const args = walker.args.of(nodes[0] as FieldNode)
  const answer = planAnswer(walker, nodes, action, table, path)
  return WRITES[action.write]({ walker, table, args, path, answer, rows, index })
}

const WRITES: Readonly<Record<NonNullable<RootAction['write']>, (mutation: Mutation) => Write>> = {
  insert: (mutation) => planInsert(mutation),
  update: (mutation) => planUpdate(mutation, byWhere(mutation), mutation.args),
  updateByKey: (mutation) => planUpdate(mutation, byKey(mutation, 'pk_columns'), mutation.args),
  updateMany: (mutation) => planUpdate(mutation, byWhere(mutation, entryOf(mutation)), entryOf(mutation)),
  delete: (mutation) => planDelete(mutation, byWhere(mutation)),
  deleteByKey: (mutation) => planDelete(mutation, byKey(mutation)),
}

/**
 * Plans a step of an insert with rows of related tables.
 * @param rows in the phase `look`, their slot holds the result of writing them
 */
export function planNested(
  walker: Walker,
  nodes: readonly FieldNode[],
  { action, table }: RootField,
  key: string,
  rows: RowsShape,
  nested: NestedShape,
): Insert {
  const path = at('$.selectionSet', key)
  const { names } = walker
  const { phase, via, conflict } = nested
  const step = planStep(nested, table, names, path)
  if (via.length === 0) {
    const args = walker.args.of(nodes[0] as FieldNode)
    const answer = phase === 'look' ? planAnswer(walker, nodes, action, table, path) : {}
    return { ...planInsert({ walker, table, args, path, answer, rows }), ...step }
  }
  const target = tableOfStep(nested, table, names, `${path}.args.table`)
  names.table(target, 'insert', `${path}.args.table`)
  const args: Args = conflict
    ? { on_conflict: conflictInput(walker, target, conflict, `${path}.args.${walker.args.word('on_conflict')}`) }
    : {}
  return { ...planInsert({ walker, table: target, args, path, answer: {}, rows }), ...step }
}

function conflictInput({ names }: Walker, table: Table, { constraint, columns, where }: Conflict, path: string): Input {
  if (!names.conflictKeys(table).some(({ name }) => name === constraint)) {
    throw invalid(`"${constraint}" is not a unique constraint of "${table.name}"`, path)
  }
  const fields: Record<string, Input> = {
    constraint: { kind: 'enum', name: constraint },
    update_columns: { kind: 'list', of: columns.map((name): Input => ({ kind: 'enum', name })) },
  }
  if (where !== undefined) fields['where'] = inputOf(where)
  return { kind: 'object', fields }
}

function planInsert({ walker, table, args, rows, answer, path }: Mutation): Insert {
  const { slot, columns: keys, empty } = rows as RowsShape
  walker.names.table(table, 'insert', path)
  // No rows need no defaults, which some tables cannot give.
  const [first] = empty ? walker.names.columns(table, 'insert') : []
  const columns = first ? [[first.name, true] as const] : keys
  const onConflict = planConflict(walker, table, args['on_conflict'], `${path}.args.${walker.args.word('on_conflict')}`)
  return {
    kind: 'insert',
    table: ref(table),
    key: rowKey(table, true),
    rows: slot,
    ...planRows(columns, table, walker.names, onConflict?.action === 'update', `${path}.args.objects`),
    presets: [],
    check: TRUE,
    ...(onConflict ? { onConflict } : {}),
    ...answer,
  }
}

function planConflict(walker: Walker, table: Table, input: Input | undefined, path: string): OnConflict | undefined {
  if (isAbsent(input)) return undefined
  const { constraint, update_columns: columns, where } = withWords(fieldsOf(input))
  const [name] = walker.args.enums(constraint)
  if (name === undefined) throw invalid('the required argument "constraint" is missing', path)
  const set = walker.args.columns(columns, table, path, 'update')
  return {
    action: set.length > 0 ? 'update' : 'ignore',
    constraint: name,
    set,
    presets: [],
    where: walker.args.where(where, table, `${path}.where`),
    check: TRUE,
  }
}

/** @param from the arguments of the field, or an entry of `updates` */
const byWhere = ({ walker, table, args, path }: Mutation, from = args): BoolExp =>
  walker.args.where(required(from['where'], 'where', path), table, `${path}.args.where`)

/** @param name argument that contains the primary key; without it, the arguments are the key */
function byKey({ walker, table, args, path }: Mutation, name?: string): BoolExp {
  if (name === undefined) return walker.args.byKey(args, table, path)
  const word = walker.args.word(name)
  return walker.args.byKey(fieldsOf(required(args[name], word, path)), table, `${path}.args.${word}`)
}

function entryOf({ args, index }: Mutation): Args {
  const { updates } = args
  return withWords(fieldsOf(updates?.kind === 'list' ? updates.of[index as number] : updates))
}

const planDelete = ({ table, answer }: Mutation, where: BoolExp): Delete => ({
  kind: 'delete',
  table: ref(table),
  where,
  ...answer,
})

const ref = ({ schema, name }: Table) => ({ schema, name })

/** @param args the arguments of the field, or an entry of `updates` */
function planUpdate({ walker, table, answer, path }: Mutation, where: BoolExp, args: Args): Update {
  const set = OPERATORS.flatMap(({ key, kind, type }) => {
    const here = `${path}.args.${walker.args.word(key)}`
    return Object.entries(fieldsOf(args[key])).map(([name, input]): Assignment => {
      const column: Column = walker.names.column(table, name, 'update', here)
      // Otherwise the success of a change could reveal the current value.
      if (kind !== 'set') walker.names.column(table, name, 'select', here)
      if (column.generated === 'always') throw invalid(`column "${name}" is generated`, at(here, name))
      if (kind === 'set' && input.kind === 'null') return { kind: 'null', column: column.name }
      return { kind, column: column.name, to: walker.args.operand(input, type ?? column.type, at(here, name)) }
    })
  })
  const twice = set.find((each, i) => set.findIndex(({ column }) => column === each.column) !== i)
  if (twice) throw invalid(`multiple assignments to same column "${twice.column}"`, path)
  if (set.length === 0 && !walker.names.presetsUpdate(table)) {
    // Only an operator without columns says that nothing changes. A missing one is a mistake.
    const [first] = OPERATORS.some(({ key }) => !isAbsent(args[key])) ? walker.names.columns(table, 'update') : []
    if (!first || walker.dialect === 'alpha') throw invalid('the update sets no column', path)
    const { name: column } = walker.names.column(table, first.name, 'update', path)
    set.push({ kind: 'null', column })
    where = and([where, NONE])
  }
  return { kind: 'update', table: ref(table), key: rowKey(table, false), set, where, check: TRUE, ...answer }
}

/** A condition that no row meets. */
const NONE: BoolExp = { kind: 'or', of: [] }
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

/** Plans the selection: `affected_rows` and `returning`, or the fields of one row. */
function planAnswer(
  walker: Walker,
  nodes: readonly FieldNode[],
  { gives }: RootAction,
  table: Table,
  path: string,
): Answer {
  if (gives === 'row') {
    return { returning: { fields: walker.fields(nodes, table, path), visible: TRUE }, answer: 'row' }
  }
  const fields: Field[] = []
  let returns = false
  const answer = [...walker.selected(nodes)].map(([key, same]): WritePart => {
    const here = `${path}.selectionSet${at('', key)}`
    switch (wordOf((same[0] as FieldNode).name.value)) {
      case '__typename':
        return { kind: 'constant', key, value: walker.typeName(table, '_mutation_response') }
      case 'affected_rows':
        return { kind: 'affected_rows', key }
      default: {
        const from = fields.length
        fields.push(...walker.fields(same, table, here))
        returns = true
        return { kind: 'returning', key, fields: [from, fields.length] }
      }
    }
  })
  return { ...(returns ? { returning: { fields, visible: TRUE } } : {}), answer }
}

function required(input: Input | undefined, name: string, path: string): Input {
  if (!isAbsent(input)) return input
  throw invalid(`the required argument "${name}" is missing`, `${path}.args`)
}
