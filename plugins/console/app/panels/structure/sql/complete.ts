import type { Catalog, Table } from '../../../catalog.js'

interface Option {
  readonly label: string
  readonly type: 'keyword' | 'class' | 'property'
  readonly detail?: string
  readonly apply?: string
  readonly boost?: number
}

/**
 * Returns what may stand at a place of an SQL text: after a dot the columns of a table or its alias, or the tables of a
 * schema; elsewhere tables, the columns of the tables that the text names, and keywords.
 */
export function completeSql(
  text: string,
  position: number,
  { tables }: Pick<Catalog, 'tables'>,
): { readonly from: number; readonly options: readonly Option[] } | null {
  const [word = ''] = /[\p{L}\p{N}_$]*$/u.exec(text.slice(0, position)) ?? []
  const from = position - word.length
  const before = text.slice(0, from)
  const owner = /("(?:[^"]|"")+"|[\p{L}_][\p{L}\p{N}_$]*)\.$/u.exec(before)?.[1]
  if (owner !== undefined) {
    const name = unquote(owner)
    const table = aliasesIn(text, tables).get(name) ?? tables.find((each) => each.table.name === name)
    const options = table
      ? columnsOf(table)
      : tables.filter((each) => each.table.schema === name).map((each) => tableOption(each, each.table.name))
    return options.length > 0 ? { from, options } : null
  }
  if (word === '') return null
  const named = new Set(aliasesIn(text, tables).values())
  return {
    from,
    options: [
      ...[...named].flatMap(columnsOf).map((option) => ({ ...option, boost: 2 })),
      ...tables.map((table) => ({ ...tableOption(table), boost: 1 })),
      ...KEYWORDS.map((label): Option => ({ label, type: 'keyword' })),
    ],
  }
}

/** Returns the tables that a text names after `from`, `join`, `update` or `into`, by their names and aliases there. */
function aliasesIn(text: string, tables: readonly Table[]): ReadonlyMap<string, Table> {
  const found = new Map<string, Table>()
  for (const [, first = '', second, alias] of text.matchAll(NAMED)) {
    const [schema, name] = second === undefined ? ['public', unquote(first)] : [unquote(first), unquote(second)]
    const table = tables.find((each) => each.table.schema === schema && each.table.name === name)
    if (!table) continue
    found.set(name, table)
    if (alias !== undefined && !KEYWORDS.includes(alias.toLowerCase())) found.set(unquote(alias), table)
  }
  return found
}

const NAME = String.raw`("[^"]+"|[\p{L}_][\p{L}\p{N}_$]*)`
const NAMED = new RegExp(
  String.raw`\b(?:from|join|update|into|table)\s+${NAME}(?:\.${NAME})?(?:\s+(?:as\s+)?${NAME})?`,
  'giu',
)

const unquote = (name: string): string =>
  name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name.toLowerCase()

const quote = (name: string): string => (/^[a-z_][a-z0-9_$]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`)

const columnsOf = ({ columns }: Table): readonly Option[] =>
  columns.map(({ name, type }) => ({ label: name, type: 'property', detail: type, apply: quote(name) }))

const tableOption = ({ table, kind }: Table, label?: string): Option => ({
  label: label ?? (table.schema === 'public' ? table.name : `${table.schema}.${table.name}`),
  type: 'class',
  detail: kind,
  apply:
    label !== undefined || table.schema === 'public'
      ? quote(table.name)
      : `${quote(table.schema)}.${quote(table.name)}`,
})

const KEYWORDS: readonly string[] =
  `add all alter and any as asc begin between by cascade case check column comment constraint create cross current_date
current_timestamp default delete desc distinct drop else end enum except exists explain false foreign from full function grant group
having if ilike in index inner insert intersect into is join key language lateral left like limit materialized not null
nulls offset on or order outer over partition primary references returning returns right schema select set table then
trigger true truncate type union unique update using values view when where with bigint boolean date integer
jsonb numeric text timestamptz uuid varchar count sum avg min max coalesce now generate_series`.split(/\s+/)
