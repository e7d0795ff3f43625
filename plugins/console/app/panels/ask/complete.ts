import type { Completion } from '@codemirror/autocomplete'
import { catalog, type Column, isNumeric, labelOf, type Table } from '../../catalog.js'
import { type Part, partsOf, type Spot, spotAt } from '../../json-places.js'
import type { Completing } from '../../ui/editor.js'
import { type Around as Place, relatedTo, tableOf, tableOfFunction, textAt } from './named.js'
import { AGGREGATES, keysOf, operationsFor } from './operations.js'
import { isStep, listsAt, type Offer, referencesAt } from './steps.js'

/** Offers what may stand at the cursor: operations, their keys, tables, columns, relationships, operators and values. */
export function complete({ text, position, context }: Completing, isAdmin: boolean) {
  const { root } = partsOf(text)
  const spot = spotAt(root, text, position)
  if (!context.explicit && spot.to === position && spot.from === position) return null
  const found = offersAt(root, text, spot, isAdmin).filter(({ word }) => !spot.taken.includes(word))
  const isObject = /^\s*:/.test(text.slice(spot.to))
  return { from: spot.from, to: spot.to, options: found.map((offer, i) => optionOf(offer, spot, isObject, i)) }
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
  | {
      readonly is: 'offers'
      readonly offers: readonly Offer[]
      /** What the keys are about, if it may be an object. */
      readonly keys?: Readonly<Record<string, Scope>>
      /** Whether it is a value of a column, which a reference may replace. */
      readonly isData?: true
    }
  | { readonly is: 'nothing' }

const NOTHING: Scope = { is: 'nothing' }
const offers = (words: readonly (Offer | string)[], isData = false): Scope & { readonly is: 'offers' } => ({
  is: 'offers',
  offers: words.map((word) => (typeof word === 'string' ? { word } : word)),
  ...(isData && { isData }),
})

function offersAt(root: Part | undefined, text: string, { path, what }: Spot, isAdmin: boolean): readonly Offer[] {
  const scope = path.reduce<Scope>(
    (around, step, i) => within(around, step, { root, text, path: path.slice(0, i), isAdmin }),
    { is: 'request' },
  )
  const references = referencesAt({ root, text, path })
  if (what === 'value') {
    if (path.at(-1) === '$ref') return references
    const isData = scope.is === 'operators' || (scope.is === 'offers' && scope.isData)
    return [...values(scope), ...(isData ? references.map((offer) => ({ ...offer, as: referenceTo(offer) })) : [])]
  }
  const isValue = scope.is === 'operators' || scope.is === 'row' || (scope.is === 'offers' && scope.isData)
  return [...keys(scope, { root, text, path }), ...(isValue && references.length > 0 ? [REFERENCE] : [])]
}

const referenceTo = ({ word }: Offer) => `{"$ref": ${JSON.stringify(word)}}`
const REFERENCE: Offer = { word: '$ref', detail: 'value of an earlier step' }

interface Around extends Place {
  readonly isAdmin: boolean
}

/** Returns what a member of an object or array is about. Members of arrays are about the same as the array. */
function within(scope: Scope, step: string | number, around: Around): Scope {
  if (typeof step === 'number') return scope
  switch (scope.is) {
    case 'request':
      if (step === 'type') return offers(operationsFor(around.isAdmin))
      if (step === 'dry_run') return BOOLEANS
      if (step === 'args') return argsScope(textAt(around, 'type'))
      return isStep(around) ? inStep(step, around) : NOTHING
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
        true,
      )
    case 'row': {
      const column = scope.table.columns.find(({ name }) => name === step)
      if (column) return offers(valuesOf(column), true)
      const table = relatedTo(scope.table, step)
      return table ? { is: 'related', table } : NOTHING
    }
    case 'conflict':
      if (step === 'action') return offers(['ignore', 'update'])
      return offers(step === 'constraint' ? scope.table.unique.map(({ name }) => name) : columns(scope.table))
    case 'offers':
      return scope.keys?.[step] ?? NOTHING
    case 'nothing':
      return NOTHING
  }
}

/** Returns what a key of a member of a bulk is about. */
function inStep(key: string, around: Around): Scope {
  switch (key) {
    case 'as': {
      const table = tableOf({ ...around, path: [...around.path, 'args'] })
      return offers(table ? [table.table.name.replaceAll(/\W/g, '_')] : [])
    }
    case 'expect':
      return { is: 'offers', offers: [], keys: { affected: RANGE, rows: RANGE, exists: BOOLEANS } }
    case 'for_each': {
      const lists = offers(listsAt(around))
      return { ...lists, keys: { in: lists, max: NOTHING } }
    }
    default:
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
    case 'expect':
      return { is: 'offers', offers: [], keys: { version: NOTHING } }
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
const RANGE: Scope = { is: 'offers', offers: [{ word: '1', as: '1' }], keys: { min: NOTHING, max: NOTHING } }

const STEP_KEYS: readonly Offer[] = [
  { word: 'as', detail: 'name of its answer', info: 'Later members of the bulk use the answer by this name.' },
  { word: 'expect', detail: 'or else roll back', info: 'What the answer must have: affected, rows or exists.' },
  { word: 'for_each', detail: 'run for each', info: 'A reference to a list. References name its element "each".' },
]
const DRY_RUN: Offer = { word: 'dry_run', detail: 'true: roll back', info: 'Answers as usual, and rolls it back.' }

function keys(scope: Scope, place: Place): readonly Offer[] {
  switch (scope.is) {
    case 'request': {
      const more = isStep(place) ? STEP_KEYS : place.path.length === 0 ? [DRY_RUN] : []
      return [{ word: 'type' }, { word: 'args' }, ...more]
    }
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
      return Object.keys(scope.keys ?? {}).map((word) => ({ word }))
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
