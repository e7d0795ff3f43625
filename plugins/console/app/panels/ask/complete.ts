import type { Completion } from '@codemirror/autocomplete'
import { catalog, type Column, isNumeric, isSameTable, labelOf, type Table, type TableName } from '../../catalog.js'
import { type Part, partAt, partsOf, type Path, type Spot, spotAt } from '../../json-places.js'
import type { Completing } from '../../ui/editor.js'
import { AGGREGATES, keysOf, operationsFor } from './operations.js'

/** Offers what may stand at the cursor: operations, their keys, tables, columns, relationships, operators and values. */
export function complete({ text, position, context }: Completing, isAdmin: boolean) {
  const { root } = partsOf(text)
  const spot = spotAt(root, text, position)
  if (!context.explicit && spot.to === position && spot.from === position) return null
  const found = offersAt(root, text, spot, isAdmin).filter(({ word }) => !spot.taken.includes(word))
  const isObject = /^\s*:/.test(text.slice(spot.to))
  return { from: spot.from, to: spot.to, options: found.map((offer, i) => optionOf(offer, spot, isObject, i)) }
}

/** A word that may stand at a place. */
export interface Offer {
  readonly word: string
  readonly detail?: string | undefined
  readonly info?: string | undefined
  /** What is written instead of a JSON text, e.g. `true` or an object. */
  readonly as?: string
}

function optionOf({ word, detail, info, as }: Offer, { what }: Spot, hasColon: boolean, index: number): Completion {
  const quoted = JSON.stringify(word)
  return {
    label: quoted,
    displayLabel: word,
    apply: as ?? (what === 'key' && !hasColon ? `${quoted}: ` : quoted),
    ...(detail === undefined ? {} : { detail }),
    ...(info === undefined ? {} : { info }),
    boost: -index,
  }
}

/** What a place in the request is about. */
type Scope =
  | { readonly is: 'request' }
  | { readonly is: 'args'; readonly type: string }
  | { readonly is: 'entry'; readonly table: Table }
  | { readonly is: 'where'; readonly table: Table }
  | { readonly is: 'operators'; readonly table: Table; readonly column: Column }
  | { readonly is: 'row'; readonly table: Table; readonly action: 'insert' | 'update'; readonly only?: 'numbers' }
  | { readonly is: 'related'; readonly table: Table }
  | { readonly is: 'conflict'; readonly table: Table }
  | { readonly is: 'offers'; readonly offers: readonly Offer[] }
  | { readonly is: 'nothing' }

const NOTHING: Scope = { is: 'nothing' }
const offers = (words: readonly (Offer | string)[]): Scope => ({
  is: 'offers',
  offers: words.map((word) => (typeof word === 'string' ? { word } : word)),
})

function offersAt(root: Part | undefined, text: string, { path, what }: Spot, isAdmin: boolean): readonly Offer[] {
  let scope: Scope = { is: 'request' }
  path.forEach((step, i) => {
    scope = within(scope, step, { root, text, path: path.slice(0, i), isAdmin })
  })
  return what === 'key' ? keys(scope) : values(scope)
}

interface Around {
  readonly root: Part | undefined
  readonly text: string
  /** Path of the object or array around the step. */
  readonly path: Path
  readonly isAdmin: boolean
}

/** Returns what a member of an object or array is about. Members of arrays are about the same as the array. */
function within(scope: Scope, step: string | number, around: Around): Scope {
  if (typeof step === 'number') return scope
  switch (scope.is) {
    case 'request':
      if (step === 'type') return offers(operationsFor(around.isAdmin))
      return step === 'args' ? argsScope(textAt(around, 'type')) : NOTHING
    case 'args':
    case 'related':
      return inArgs(step, scope.is === 'related' ? scope.table : tableOf(around), around)
    case 'entry': {
      if (step === 'name') return offers(relationships(scope.table))
      if (AGGREGATES.includes(step))
        return offers(step === 'count' ? ['*', ...columns(scope.table)] : columns(scope.table))
      return inArgs(step, relatedTo(scope.table, textAt(around, 'name')), around)
    }
    case 'where': {
      if (/^[$_](and|or|not)$/.test(step)) return scope
      const column = scope.table.columns.find(({ name }) => name === step)
      if (column) return { is: 'operators', table: scope.table, column }
      const table = relatedTo(scope.table, step)
      return table ? { is: 'where', table } : NOTHING
    }
    case 'operators':
      if (/^[$_]is_null$/.test(step))
        return offers([
          { word: 'true', as: 'true' },
          { word: 'false', as: 'false' },
        ])
      return offers(
        /^[$_]c[a-z]+$/.test(step) && step.slice(2, 4) !== 'on' ? columns(scope.table) : valuesOf(scope.column),
      )
    case 'row': {
      const column = scope.table.columns.find(({ name }) => name === step)
      if (column) return offers(valuesOf(column))
      const table = relatedTo(scope.table, step)
      return table ? { is: 'related', table } : NOTHING
    }
    case 'conflict':
      if (step === 'action') return offers(['ignore', 'update'])
      return offers(step === 'constraint' ? scope.table.unique.map(({ name }) => name) : columns(scope.table))
    case 'offers':
    case 'nothing':
      return NOTHING
  }
}

const argsScope = (type: string): Scope => (type === 'bulk' ? { is: 'request' } : { is: 'args', type })

function inArgs(step: string, table: Table | undefined, around: Around): Scope {
  if (step === 'table') return offers(tables())
  if (step === 'function') return offers((catalog.value?.functions ?? []).map((each) => labelOf(each.function)))
  if (step === 'template') return { is: 'request' }
  if (step === 'role') return offers(catalog.value?.roles ?? [])
  if (step === 'cascade' || step === 'is_enum' || step === 'dry_run' || step === 'read_only') return BOOLEANS
  const shown = table ?? tableOfFunction(textAt(around, 'function'))
  if (!shown) return NOTHING
  switch (step) {
    case 'columns':
    case 'returning':
      return { is: 'entry', table: shown }
    case 'where':
    case 'key':
      return { is: 'where', table: shown }
    case 'order_by':
      return offers(
        shown.columns.flatMap(({ name, type: of }) => [`+${name}`, `-${name}`].map((word) => ({ word, detail: of }))),
      )
    case 'group_by':
    case 'distinct_on':
    case 'distinct':
      return offers(columns(shown))
    case 'having':
      return NOTHING
    case 'after':
    case 'object':
    case 'objects':
    case 'data':
      return { is: 'row', table: shown, action: 'insert' }
    case 'insert':
    case 'update':
    case 'delete':
      return { is: 'related', table: shown }
    case '$set':
    case '_set':
      return { is: 'row', table: shown, action: 'update' }
    case '$inc':
    case '$mul':
      return { is: 'row', table: shown, action: 'update', only: 'numbers' }
    case '$default':
      return offers(columns(shown))
    case 'on_conflict':
      return { is: 'conflict', table: shown }
    default:
      return NOTHING
  }
}

const BOOLEANS = offers([
  { word: 'true', as: 'true' },
  { word: 'false', as: 'false' },
])

function keys(scope: Scope): readonly Offer[] {
  switch (scope.is) {
    case 'request':
      return ['type', 'args'].map((word) => ({ word }))
    case 'args':
      return keysOf(scope.type).map(({ key, isRequired }) => ({
        word: key,
        detail: isRequired ? 'required' : undefined,
      }))
    case 'entry':
      return [
        ...['name', 'alias', 'columns', 'where', 'order_by', 'limit', 'offset', 'group_by'].map((word) => ({ word })),
        ...AGGREGATES.map((word) => ({ word, detail: 'aggregate' })),
        { word: 'as' },
      ]
    case 'where':
      return [
        ...columns(scope.table),
        ...relationships(scope.table),
        ...['$and', '$or', '$not'].map((word) => ({ word })),
      ]
    case 'operators':
      return (catalog.value?.operators[scope.column.type] ?? []).map((word) => ({ word }))
    case 'row':
      return [
        ...scope.table.columns
          .filter((column) => column[scope.action] && (scope.only === undefined || isNumeric(column)))
          .map(offerOf),
        ...(scope.only ? [] : relationships(scope.table)),
      ]
    case 'related':
      return ['data', 'on_conflict', 'insert', 'update', 'delete', 'where', '$set'].map((word) => ({ word }))
    case 'conflict':
      return ['action', 'constraint', 'constraint_on'].map((word) => ({ word }))
    case 'offers':
    case 'nothing':
      return []
  }
}

function values(scope: Scope): readonly Offer[] {
  switch (scope.is) {
    case 'offers':
      return scope.offers
    case 'entry':
      return [
        { word: '*', detail: 'all columns' },
        ...columns(scope.table),
        ...relationships(scope.table).map((offer) => ({
          ...offer,
          as: `{"name": ${JSON.stringify(offer.word)}, "columns": ["*"]}`,
        })),
        ...(scope.table.aggregations ? [{ word: 'count', detail: 'aggregate', as: '{"count": "*"}' }] : []),
      ]
    case 'operators':
      return valuesOf(scope.column)
    case 'request':
    case 'args':
    case 'where':
    case 'row':
    case 'related':
    case 'conflict':
    case 'nothing':
      return []
  }
}

const offerOf = ({ name, type, comment }: Column): Offer => ({ word: name, detail: type, info: comment })
const columns = (table: Table): readonly Offer[] => table.columns.filter(({ select }) => select).map(offerOf)
const relationships = (table: Table): readonly Offer[] =>
  table.relationships.map(({ name, type, table: to }) => ({
    word: name,
    detail: `${type === 'array' ? 'many' : 'one'} ${labelOf(to)}`,
  }))

const tables = (): readonly Offer[] =>
  (catalog.value?.tables ?? []).map(({ table, kind }) => ({
    word: labelOf(table),
    detail: kind === 'table' ? undefined : kind,
    ...(table.schema === 'public' ? {} : { as: JSON.stringify(table) }),
  }))

function valuesOf({ type, values: all }: Column): readonly Offer[] {
  if (type === 'bool') return ['true', 'false'].map((word) => ({ word, as: word }))
  return [...(all ?? []).map((word) => ({ word })), { word: 'X-Service-User-Id', detail: 'the caller' }].slice(
    0,
    all ? undefined : 0,
  )
}

const find = (name: TableName): Table | undefined => catalog.value?.tables.find(({ table }) => isSameTable(table, name))

function relatedTo(table: Table, relationship: string): Table | undefined {
  const to = table.relationships.find(({ name }) => name === relationship)?.table
  return to && find(to)
}

/** Returns the table that a part names with its key `table`. */
function tableOf({ root, text, path }: Around): Table | undefined {
  const part = partAt(root, [...path, 'table'])
  if (!part) return undefined
  const read = (key: string) => textOf(text, part.entries.find((entry) => entry.key === key)?.value)
  const name = part.kind === 'scalar' ? textOf(text, part) : read('name')
  return find({ schema: (part.kind === 'scalar' ? '' : read('schema')) || 'public', name })
}

function tableOfFunction(name: string): Table | undefined {
  const returns = catalog.value?.functions.find((each) => labelOf(each.function) === name)?.returns
  return returns?.table && find(returns.table)
}

const textAt = ({ root, text, path }: Around, key: string): string => textOf(text, partAt(root, [...path, key]))
const textOf = (text: string, part: Part | undefined): string =>
  part ? text.slice(part.from, part.to).replaceAll('"', '') : ''
