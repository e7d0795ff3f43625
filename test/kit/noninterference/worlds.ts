import type { Random } from '../oracle/generate.js'
import { type Era, isSame } from './permissions.js'
import { type Column, GATE, type Names, type Row, type Table, TABLES } from './schema.js'

/** What both worlds have, and what is different in each of them, which no role may see. */
export interface Content {
  readonly common: Readonly<Record<string, readonly Row[]>>
  readonly apart: readonly [Apart, Apart]
}
export interface Apart {
  /** Rows of tables. */
  readonly rows: Readonly<Record<string, readonly Row[]>>
  /** Columns of the common rows, in their order. */
  readonly columns: Readonly<Record<string, readonly Row[]>>
}

export const NAMES: readonly [Names, Names] = [
  { pin: 'pin', most: 'most', constraint: 'most_check', shadow: 'shadow', secret: 'secret' },
  { pin: 'nip', most: 'utmost', constraint: 'utmost_check', shadow: 'umbra', secret: 'hush' },
]
/** Ids of rows that both worlds have. A client that writes uses these, or ones above those of hidden rows. */
export const COMMON_IDS = 12
export const HIDDEN_IDS: readonly number[] = Array.from({ length: 12 }, (_, i) => 901 + i)
const HIDDEN_ORGS = [91, 92, 93]

export function generateContent(random: Random, era: Era): Content {
  const common = Object.fromEntries(Object.values(TABLES).map((table) => [table.name, commonRows(random, table)]))
  const apart = (): Apart => ({
    rows: Object.fromEntries(
      Object.values(TABLES).map((table) => [
        table.name,
        era.open.includes(table.name) ? [] : hiddenRows(random, table),
      ]),
    ),
    columns: Object.fromEntries(
      Object.entries(common).map(([name, rows]) => {
        const hidden = (TABLES[name] as Table).columns.filter((column) => era.hidden[name]?.includes(column.name))
        return [
          name,
          rows.map((row) =>
            isSame(name, row['id'] as number)
              ? {}
              : Object.fromEntries(hidden.map((column) => [column.name, oddValue(random, column)])),
          ),
        ]
      }),
    ),
  })
  return { common, apart: [apart(), apart()] }
}

function commonRows(random: Random, { name, columns }: Table): readonly Row[] {
  const count = name === 'org' ? 3 : COMMON_IDS - random.below(5)
  return Array.from({ length: count }, (_, i) => ({
    ...Object.fromEntries(columns.map((each) => [each.name, each.plain.length > 0 ? random.pick(each.plain) : null])),
    id: i + 1,
    // What a constraint demands to be different.
    ...(name === 'thing' ? { slug: `s${i + 1}`, room: 10 + i } : {}),
  }))
}

function hiddenRows(random: Random, { name, columns }: Table): readonly Row[] {
  const ids = name === 'org' ? HIDDEN_ORGS : HIDDEN_IDS
  return random.some(ids, random.pick([0, 40, 90])).map((id) => ({
    ...Object.fromEntries(columns.map((each) => [each.name, oddValue(random, each)])),
    id,
    ...(name === 'share'
      ? { note_id: random.pick(HIDDEN_IDS), item_id: random.pick(HIDDEN_IDS), user_id: 91 }
      : { org_id: random.pick(HIDDEN_ORGS) }),
    ...(name === 'member' ? { user_id: 91 } : {}),
    ...(columns.some((each) => each.name === GATE)
      ? { owner_id: random.pick(HIDDEN_ORGS), shared: false, gate: 9 }
      : {}),
    ...(name === 'thing' ? { slug: `h${id}`, room: id } : {}),
  }))
}

const oddValue = (random: Random, { plain, odd }: Column) => {
  const from = odd.length > 0 && random.chance(75) ? odd : plain
  return from.length > 0 ? random.pick(from) : null
}

/** Makes a world as it is said to be, whatever was in it before. */
export function fillSql({ common, apart }: Content, world: 0 | 1): string {
  const { rows: hidden, columns } = apart[world]
  const { pin, most, shadow } = NAMES[world]
  const fill = Object.keys(common).map((name) => {
    const shown = (common[name] as readonly Row[]).map((row, i) => ({ ...row, ...columns[name]?.[i] }))
    const extra = name === 'thing' ? { [pin]: `pin ${world}`, [most]: 5 } : {}
    const all = [...shown, ...(hidden[name] ?? [])].map((row) => ({ ...row, ...extra }))
    return `insert into ${name} select * from json_populate_recordset(null::${name}, ${quoted(JSON.stringify(all))});`
  })
  const tables = [...Object.keys(common), `"${shadow}"`].join(', ')
  return `begin; truncate ${tables}; ${fill.join(' ')} insert into "${shadow}" values (1, 1), (2, 2); commit`
}

const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`
