import { type Column, isSameTable, labelOf, type Table, catalog, wireName } from '../../catalog.js'
import { isObject, type Json, type JsonObject, parse } from '../../json.js'
import { acting } from '../../session.js'

/** A column of a view: its own, one of a related row by its path, or the number or the first rows of a relationship. */
export type Choice = string | readonly string[] | { readonly count: string } | { readonly rows: string }

/** What is seen of a table. It is kept in the address, so that a link shows the same. */
export interface View {
  readonly where: JsonObject
  /** Keys of columns, with `-` before descending ones. */
  readonly sort: readonly string[]
  /** undefined for all columns of the table. */
  readonly columns: readonly Choice[] | undefined
}

/** Returns the key of a column in rows of the grid. */
export const keyOf = (choice: Choice): string => (typeof choice === 'string' ? choice : JSON.stringify(choice))

export const titleOf = (choice: Choice): string => {
  if (typeof choice === 'string') return choice
  if ('count' in choice) return `${choice.count} (count)`
  return 'rows' in choice ? choice.rows : choice.join('.')
}

export const ownColumns = (table: Table): readonly Column[] => table.columns.filter(({ select }) => select)

export const choicesOf = (table: Table, { columns }: View): readonly Choice[] =>
  columns ?? ownColumns(table).map(({ name }) => name)

/** Returns the address of a view, with only what differs from the plain table. */
export function addressOf(table: Pick<Table, 'table'>, view: Partial<View> = {}): string {
  const { where = {}, sort = [], columns } = view
  const query = new URLSearchParams()
  if (Object.keys(where).length > 0) query.set('where', JSON.stringify(where))
  if (sort.length > 0) query.set('sort', JSON.stringify(sort))
  if (columns) query.set('columns', JSON.stringify(columns))
  const search = query.toString()
  return `/console/data/${encodeURIComponent(labelOf(table.table))}${search === '' ? '' : `?${search}`}`
}

/**
 * Reads the view of an address.
 * @throws Error if the address was changed by hand and is wrong
 */
export function readView({ where, sort, columns }: Readonly<Record<string, string>>): View {
  const parsed = (name: string, text: string | undefined, isRight: (value: Json) => boolean): Json | undefined => {
    if (text === undefined) return undefined
    let value: Json | undefined
    try {
      value = parse(text)
    } catch {
      value = undefined
    }
    if (value !== undefined && isRight(value)) return value
    throw new Error(`the part "${name}" of the address is not valid`)
  }
  const isList = (value: Json, isMember: (member: Json) => boolean) => Array.isArray(value) && value.every(isMember)
  const isText = (value: Json) => typeof value === 'string'
  return {
    where: (parsed('where', where, isObject) ?? {}) as JsonObject,
    sort: (parsed('sort', sort, (value) => isList(value, isText)) ?? []) as readonly string[],
    columns: parsed('columns', columns, (value) =>
      isList(
        value,
        (each) => isText(each) || isList(each, isText) || (isObject(each) && isText(Object.values(each)[0]!)),
      ),
    ) as readonly Choice[] | undefined,
  }
}

/** Returns the columns by which rows are found again; none if the caller does not see such columns. */
export function keyColumns(table: Table): readonly string[] {
  const byName = new Map(table.columns.map((column) => [column.name, column]))
  const isSeen = (name: string) => byName.get(name)?.select === true
  if (table.primary_key.length > 0 && table.primary_key.every(isSeen)) return table.primary_key
  const found = table.unique.find(({ columns }) =>
    columns.every((name) => isSeen(name) && byName.get(name)?.nullable === false),
  )
  return found?.columns ?? []
}

/** Returns the condition that finds a row. */
export const whereOf = (table: Table, row: JsonObject): JsonObject =>
  Object.fromEntries(keyColumns(table).map((name) => [name, { $eq: row[name] }]))

/** Returns the row that a condition names by its key; undefined if it names none. */
export function rowIn(table: Table, where: JsonObject): JsonObject | undefined {
  const names = keyColumns(table)
  const values = names.map((name) => equalTo(where, name))
  if (names.length === 0 || values.some((value) => value === undefined)) return undefined
  return Object.fromEntries(names.map((name, i) => [name, values[i] as Json]))
}

/** Returns the value that a condition compares a column with by `=`. */
function equalTo(where: JsonObject, name: string): Json | undefined {
  const found = Object.hasOwn(where, name) ? where[name] : undefined
  const value = isObject(found) ? found['$eq'] : found
  if (value !== undefined && value !== null) return value
  const all = Array.isArray(where['$and']) ? (where['$and'] as readonly Json[]) : []
  return all.reduce<Json | undefined>(
    (before, part) => before ?? (isObject(part) ? equalTo(part, name) : undefined),
    undefined,
  )
}

/**
 * Returns the address that explains to an admin whether the caller sees a row, and why.
 * @param row without it, the page asks for the row
 */
export function whyAddress(table: Table, row?: JsonObject): string {
  const key = row && Object.fromEntries(keyColumns(table).map((name) => [name, row[name]]))
  const caller = acting.value
  return `/console/permissions/why?${new URLSearchParams({
    table: labelOf(table.table),
    operation: 'select',
    ...(caller ? { role: caller.role, session: JSON.stringify(caller.variables) } : {}),
    ...(key ? { key: JSON.stringify(key) } : {}),
  }).toString()}`
}

/** Returns a relationship of a table with the other table, if the caller may see it. */
export function related(table: Table, name: string) {
  const relationship = table.relationships.find((each) => each.name === name)
  const other = relationship && catalog.value?.tables.find((each) => isSameTable(each.table, relationship.table))
  return relationship && other ? { ...relationship, other } : undefined
}

/** Returns the table of the column at the end of a path through relationships. */
export const tableAt = (table: Table, path: readonly string[]): Table | undefined =>
  path.slice(0, -1).reduce<Table | undefined>((before, name) => before && related(before, name)?.other, table)

/** Returns the column at the end of a path through relationships. */
export const columnAt = (table: Table, path: readonly string[]): Column | undefined =>
  tableAt(table, path)?.columns.find(({ name }) => name === path.at(-1))

/** Rows of a relationship that a cell shows. */
const FIRST_ROWS = 10

/** Returns the key of the number of related rows in an answer. */
const countAlias = (table: Table, name: string): string => {
  const alias = `${name}_count`
  const isTaken = [...table.columns, ...table.relationships].some((each) => each.name === alias)
  return isTaken ? `_${alias}` : alias
}

/** Returns the arguments of a select without a limit. */
export function selectArgs(table: Table, view: View): JsonObject {
  const { where } = view
  const order = orderOf(table, sortOf(table, view))
  return {
    table: wireName(table.table) as Json,
    columns: columnsOf(table, view),
    ...(Object.keys(where).length > 0 ? { where } : {}),
    ...(order.length > 0 ? { order_by: order } : {}),
  }
}

/** Returns the columns of a select: those that are chosen, those that sort, and the key. */
export function columnsOf(table: Table, view: View): Json {
  const choices = choicesOf(table, view)
  const own = new Set(choices.filter((choice) => typeof choice === 'string'))
  const sorted = view.sort.map((key) => sortedBy(table, key).path).filter(({ length }) => length === 1)
  for (const name of [...sorted.flat(), ...keyColumns(table)]) own.add(name)
  return [...own, ...nested(choices.filter(isPath)), ...choices.flatMap((choice) => listOf(table, choice))]
}

const isPath = (choice: Choice): choice is readonly string[] => Array.isArray(choice)

/** Joins paths with the same beginning. */
function nested(paths: readonly (readonly string[])[]): readonly Json[] {
  return [...new Set(paths.map(([first]) => first!))].map((name) => {
    const rests = paths.filter(([first]) => first === name).map(([, ...rest]) => rest)
    const leaves = rests.filter(({ length }) => length === 1).map(([leaf]) => leaf!)
    return { name, columns: [...leaves, ...nested(rests.filter(({ length }) => length > 1))] }
  })
}

function listOf(table: Table, choice: Choice): readonly Json[] {
  if (typeof choice === 'string' || isPath(choice)) return []
  if ('count' in choice) {
    return [{ name: choice.count, alias: countAlias(table, choice.count), columns: [{ count: '*' }] }]
  }
  return [{ name: choice.rows, columns: ['*'], limit: FIRST_ROWS }]
}

/** Returns how the rows of a view are sorted: by the key if nothing else is chosen. */
export const sortOf = (table: Table, { sort }: View): readonly string[] => (sort.length > 0 ? sort : keyColumns(table))

/** Returns the `order_by` of a sort. */
const orderOf = (table: Table, sort: readonly string[]): readonly Json[] =>
  sort.map((key) => {
    const { path, isDescending } = sortedBy(table, key)
    const [name = ''] = path
    if (path.length === 1 && !/^\w+$/.test(name)) return { column: name, type: isDescending ? 'desc' : 'asc' }
    return `${isDescending ? '-' : ''}${path.join('.')}`
  })

/** Reads a key of a sort. A column may be called `-x`. */
export function sortedBy(
  table: Table,
  key: string,
): { readonly path: readonly string[]; readonly isDescending: boolean } {
  const isOwn = (name: string) => table.columns.some((column) => column.name === name)
  const isDescending = key.startsWith('-') && (isOwn(key.slice(1)) || !isOwn(key))
  const name = isDescending ? key.slice(1) : key
  return { path: !isOwn(name) && name.startsWith('[') ? (JSON.parse(name) as string[]) : [name], isDescending }
}

/** Puts what is nested in a row where the grid looks for it. */
export function flatten(table: Table, choices: readonly Choice[], row: JsonObject): JsonObject {
  const more = choices.filter((choice) => typeof choice !== 'string')
  if (more.length === 0) return row
  const found = more.map((choice): [string, Json | undefined] => {
    if (isPath(choice)) return [keyOf(choice), valueAt(row, choice)]
    if ('rows' in choice) return [keyOf(choice), row[choice.rows]]
    const [group] = (row[countAlias(table, choice.count)] ?? []) as readonly JsonObject[]
    return [keyOf(choice), group?.['count']]
  })
  return { ...row, ...Object.fromEntries(found) }
}

function valueAt(row: Json | undefined, path: readonly string[]): Json | undefined {
  return path.reduce<Json | undefined>((value, name) => (isObject(value) ? value[name] : (value ?? null)), row)
}
