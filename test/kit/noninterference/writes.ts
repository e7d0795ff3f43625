import type { Random } from '../oracle/generate.js'
import { anyId, type Used } from './conditions.js'
import type { Document } from './documents.js'
import type { Case } from './requests.js'
import { type Era, grantsOf } from './permissions.js'
import { type Json, type Row, type Table, tableOf } from './schema.js'
import { COMMON_IDS, NAMES } from './worlds.js'

/** What the requests of an era are made of. */
export interface Generator {
  readonly random: Random
  readonly era: Era
  readonly templates: readonly Template[]
  /** Requests that were sent already, change nothing, and are answered with data. */
  reads: Case[]
  /** GraphQL documents that were sent already, and are not refused. */
  documents: Document[]
  readonly used: Used
  /** The next id of a row that is written: no row has it. */
  nextId(): number
}
export interface Template {
  readonly name: string
  readonly query: Json
  readonly writes: boolean
  args(random: Random): { readonly [name: string]: Json }
}

const MAIN = ['note', 'note', 'note', 'item', 'item', 'org', 'thing', 'thing', 'member']

/** Mostly one of which the role may do it, and see rows. */
export function pickTable(
  { random, era }: Generator,
  role: string,
  action: 'select' | 'insert' | 'update' | 'delete',
): Table {
  const granted = MAIN.filter((name) => {
    const grants = grantsOf(era, role, name)
    return grants[action] && grants.select
  })
  return tableOf(random.pick(granted.length > 0 && random.chance(96) ? granted : MAIN))
}

/** Columns that the role may write, mostly. */
function writable(
  { random, era }: Generator,
  role: string,
  table: Table,
  action: 'insert' | 'update',
): readonly string[] {
  const granted = grantsOf(era, role, table.name)[action]?.columns ?? []
  const named = table.columns.map((column) => column.name).filter((name) => name !== 'id')
  const from = granted.filter((name) => name !== 'id')
  return random.chance(95) && from.length > 0 ? from : [...named, NAMES[0].pin, NAMES[1].pin]
}

/** Values for some columns. */
export function generateSet(generator: Generator, role: string, table: Table): Row {
  const { random } = generator
  const may = writable(generator, role, table, 'update')
  return generateRow(random, table, random.some(may, 15), [random.pick(may)])
}

/** What to add to a column, or to multiply it by. */
export function generateIncrement(generator: Generator, role: string, table: Table): Row {
  const { random } = generator
  const by = random.pick<Json>([1, -1, 2, 0, 2147483647, '9223372036854775807', '1e300'])
  return { [random.pick(numbers(generator, role, table))]: by }
}

export const mayCount = (generator: Generator, role: string, table: Table): boolean =>
  numbers(generator, role, table).length > 0

const numbers = ({ era }: Generator, role: string, table: Table): readonly string[] =>
  (grantsOf(era, role, table.name).update?.columns ?? []).filter((name) => NUMBERS.includes(name))
const NUMBERS = ['amount', 'big', 'qty', 'ratio', 'price', 'low', 'room', 'note_id']

/** @param conflict whether rows that are there may be named */
export function generateRows(generator: Generator, role: string, table: Table, conflict: boolean): readonly Row[] {
  const { random } = generator
  const may = writable(generator, role, table, 'insert')
  return Array.from({ length: 1 + random.below(3) }, () => {
    const id = random.chance(conflict ? 80 : 8) ? 1 + random.below(COMMON_IDS) : generator.nextId()
    const always = ['org_id', 'owner_id', 'shared', ...(table.name === 'thing' ? ['name'] : [])]
    const row = generateRow(
      random,
      table,
      random.some(may, 40),
      always.filter((name) => may.includes(name)),
    )
    return random.chance(97) ? { id, ...row } : row
  })
}

function generateRow(random: Random, table: Table, ...names: readonly (readonly string[])[]): Row {
  return Object.fromEntries(
    [...new Set(names.flat())].map((name): [string, Json] => {
      const of = table.columns.find((column) => column.name === name)
      // Now and then a value of another type.
      const from = of && random.chance(97) ? of : random.pick(table.columns)
      if (random.chance(4)) return [name, null]
      return [name, from.plain.length > 0 ? random.pick(from.plain) : anyId(random)]
    }),
  )
}
