import { isSameTable, labelOf, type Table } from '../../catalog.js'
import { type Part, partsOf, type Path, spotAt } from '../../json-places.js'
import type { Completing, Place } from '../../ui/editor.js'
import type { Rules } from './rules.js'

/** What may stand at a place of a rule. */
type Context =
  | { readonly kind: 'table'; readonly table: Table }
  | {
      readonly kind: 'column'
      readonly table: Table
      readonly type: string
      readonly values?: readonly string[] | undefined
    }
  | { readonly kind: 'operator'; readonly name: string; readonly of: Context & { readonly kind: 'column' } }
  | { readonly kind: 'unknown' }

const LOGIC = ['$and', '$or', '$not']
const UNKNOWN: Context = { kind: 'unknown' }

/** Goes one step into a rule. Undefined: there is no such name. */
function step(context: Context, segment: string | number, { tables, operators }: Rules): Context | undefined {
  if (typeof segment === 'number') return context
  const name = segment.replace(/^_/, '$')
  switch (context.kind) {
    case 'table': {
      const { table } = context
      if (LOGIC.includes(name)) return context
      const column = table.columns.find((each) => each.name === segment)
      if (column) return { kind: 'column', table, type: column.type, values: column.values }
      const related = table.relationships.find((each) => each.name === segment)
      const other = related && tables.find((each) => isSameTable(each.table, related.table))
      if (related) return other ? { kind: 'table', table: other } : UNKNOWN
      const isOther = name === '$exists' || segment.endsWith('_aggregate')
      return isOther || table.computed_fields.some((each) => each.name === segment) ? UNKNOWN : undefined
    }
    case 'column': {
      const known = operators[context.type]
      return known && !known.includes(name) ? undefined : { kind: 'operator', name, of: context }
    }
    case 'operator':
    case 'unknown':
      return UNKNOWN
  }
}

function contextAt(path: Path, table: Table, rules: Rules): Context {
  let context: Context = { kind: 'table', table }
  for (const segment of path) context = step(context, segment, rules) ?? UNKNOWN
  return context
}

/** Returns the names and values that may stand at the cursor in a rule. */
export function completeRule(
  { text, position, context }: Completing,
  table: Table,
  rules: Rules,
  variables: readonly string[],
) {
  const { path, what, from, to, taken } = spotAt(partsOf(text).root, text, position)
  if (!context.explicit && from === position && to === position) return null
  const found = optionsFor(contextAt(path, table, rules), what, rules, variables)
  const ending = what === 'key' && !/^\s*:/.test(text.slice(to)) ? ': ' : ''
  const options = found
    .filter(({ label }) => !taken.includes(label))
    .map(({ label, detail = '', isText = true }, i) => {
      const word = isText ? JSON.stringify(label) : label
      return { label: word, displayLabel: label, detail, apply: `${word}${ending}`, boost: -Math.min(i, 99) }
    })
  return { from, to, options }
}

interface Option {
  readonly label: string
  readonly detail?: string
  /** Whether it is written in quotes. */
  readonly isText?: boolean
}

function optionsFor(
  context: Context,
  kind: 'key' | 'value',
  { operators }: Rules,
  variables: readonly string[],
): readonly Option[] {
  const names = (all: readonly string[], detail: string): readonly Option[] => all.map((label) => ({ label, detail }))
  if (kind === 'key') {
    if (context.kind === 'column') return names(operators[context.type] ?? [], 'operator')
    if (context.kind !== 'table') return []
    const { columns, relationships } = context.table
    return [
      ...columns.map(({ name, type }) => ({ label: name, detail: type })),
      ...relationships.map(({ name, table }) => ({ label: name, detail: `→ ${labelOf(table)}` })),
      ...names(LOGIC, 'logic'),
    ]
  }
  const column = context.kind === 'operator' ? context.of : context.kind === 'column' ? context : undefined
  if (!column) return []
  const operator = context.kind === 'operator' ? context.name : ''
  if (operator === '$is_null') return BOOLEANS
  if (operator.startsWith('$c') && operator !== '$contains' && operator !== '$contained_in') {
    return column.table.columns.map(({ name, type }) => ({ label: name, detail: type }))
  }
  return [
    ...names(variables, 'of the session'),
    ...names(column.values ?? [], 'value'),
    ...(column.type === 'bool' ? BOOLEANS : []),
  ]
}

const BOOLEANS: readonly Option[] = [
  { label: 'true', isText: false },
  { label: 'false', isText: false },
]

/** Returns what is wrong with a rule: its JSON, or a name that does not exist. */
export function checkRule(text: string, table: Table, rules: Rules): readonly Place[] {
  const { root, mistake } = partsOf(text)
  if (mistake) return [mistake]
  const check = (part: Part | undefined, context: Context): readonly Place[] => [
    ...(part?.items ?? []).flatMap((item) => check(item, context)),
    ...(part?.entries ?? []).flatMap(({ key, from, to, value }) => {
      const next = step(context, key, rules)
      return next ? check(value, next) : [{ from, to, message: unknownName(key, context) }]
    }),
  ]
  return check(root, { kind: 'table', table })
}

const unknownName = (name: string, context: Context): string =>
  context.kind === 'column'
    ? `${context.type} has no operator ${name}`
    : context.kind === 'table'
      ? `${labelOf(context.table.table)} has no column or relationship ${name}`
      : `${name} is unknown`
