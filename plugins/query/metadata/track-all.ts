import { type Data, didYouMean, type Editor, type Json, type Operation, ServiceError } from 'rowhouse'
import {
  at,
  compareTables,
  type ForeignKey,
  graphqlName,
  isGraphqlName,
  type JsonObject,
  liftTableRef,
  notExists,
  parseFailed,
  stringifyJson,
  type TableRef,
  tableKey,
  tableName,
} from 'rowhouse/plan'
import { backToOne, type End, firstFree, toMany, toOne, type Words } from './relationship-names.js'
import { type Args, args, exportedName, tableSchema } from './operation.js'

const word = { type: 'string', minLength: 1 } as const
const words = args({ singular: word, plural: word }, ['singular', 'plural'])
const schema = args(
  {
    schemas: { type: 'array', items: { type: 'string' } },
    tables: { type: 'array', items: tableSchema },
    names: { type: 'object', additionalProperties: words },
    dry_run: { type: 'boolean' },
  },
  ['schemas', 'tables', 'names', 'dry_run'],
)

/** Tracks the tables, foreign keys and functions of an existing database. Changes nothing that is tracked already. */
export function trackAllOperation(data: Data): Operation {
  return {
    admin: true,
    args: schema,
    async run(value, call) {
      const { schemas, tables, names = {}, dry_run: dry = false } = value as unknown as Args<typeof schema>
      if (schemas && tables) throw parseFailed('expecting either schemas or tables', '$.args')
      const refs = tables?.map((table, i) => liftTableRef(table, at('$.args.tables', i)))
      const report = await data.alter(call, (edit) =>
        trackAll(dry ? edit.copy() : edit, { schemas, tables: refs }, new Map(Object.entries(names))),
      )
      return { kind: 'text', text: stringifyJson({ dry_run: dry, ...report }) }
    },
  }
}

type Wanted = Parameters<Editor['survey']>[0]
type Survey = Awaited<ReturnType<Editor['survey']>>
/** Something that was left out, by its name in lists of inconsistent metadata. */
type LeftOut = { readonly name: string; readonly reason: string }

async function trackAll(edit: Editor, wanted: Wanted, names: ReadonlyMap<string, Words>): Promise<JsonObject> {
  const survey = await edit.survey(wanted)
  const leftOut: LeftOut[] = []
  const tables = await trackTables(edit, survey, wanted.tables, leftOut)
  for (const name of names.keys()) {
    const known: readonly TableRef[] = [...survey.tables, ...edit.trackedTables.map(({ ref }) => ref)]
    if (known.some((ref) => nameOf(names, ref) === names.get(name))) continue
    const meant = known.find((ref) => ref.name === name || `${ref.schema}.${ref.name}` === name)
    const near = meant ? `, did you mean "${tableName(meant)}"?` : didYouMean(name, known.map(tableName))
    throw notExists(`table "${name}" does not exist${near}`, at('$.args.names', name))
  }
  const relationships = relate(edit, survey, names, leftOut)
  const functions = await trackFunctions(edit, survey, leftOut)
  const notInGraphql = [
    ...relationships
      .filter(({ name }) => !isGraphqlName(name))
      .map(({ table, name }) => `relationship ${tableName(table)}.${name}`),
    ...functions.filter((ref) => !isGraphqlName(graphqlName(ref))).map((ref) => `function ${tableName(ref)}`),
  ]
  const remove = edit.inconsistent.map(({ object, reason }) => ({ name: object, reason }))
  const lists = {
    // Those that the request names stay in its order.
    tables: (wanted.tables ? tables : tables.toSorted(compareTables)).map(exportedName),
    relationships: relationships.map(({ table, name, type, to, using }) => ({
      table: exportedName(table),
      name,
      type,
      to: exportedName(to),
      using,
    })),
    functions: functions.toSorted(compareTables).map(exportedName),
    left_out: leftOut,
    not_in_graphql: notInGraphql,
    remove,
  }
  const counts = Object.fromEntries(Object.entries(lists).map(([key, list]) => [key, list.length]))
  return { counts, ...lists }
}

/** @returns the tables that were not tracked before */
async function trackTables(
  edit: Editor,
  { tables }: Survey,
  named: readonly TableRef[] | undefined,
  leftOut: LeftOut[],
): Promise<readonly TableRef[]> {
  const known = new Set(edit.trackedTables.map(({ ref }) => tableKey(ref)))
  const isNew = (ref: TableRef) => !known.has(tableKey(ref))
  if (named) {
    const done: TableRef[] = []
    await edit.readAhead(named.filter(isNew))
    for (const [i, ref] of named.entries()) {
      if (!isNew(ref)) continue
      await edit.trackTable(ref, at('$.args.tables', i))
      known.add(tableKey(ref))
      done.push(ref)
    }
    return done
  }
  const wanted = acceptable(tables.filter(isNew), 'table', leftOut)
  await edit.readAhead(wanted)
  return attempt(wanted, 'table', leftOut, (ref) => edit.trackTable(refOf(ref)))
}

/** @returns the functions that were not tracked before */
async function trackFunctions(edit: Editor, { functions }: Survey, leftOut: LeftOut[]): Promise<readonly TableRef[]> {
  const known = new Set(edit.trackedFunctions.map(({ ref }) => tableKey(ref)))
  const wanted = acceptable(
    functions.filter((ref) => !known.has(tableKey(ref))),
    'function',
    leftOut,
  )
  await edit.readAhead([], wanted)
  return attempt(wanted, 'function', leftOut, async (each) => {
    const ref = refOf(each)
    await edit.trackFunction({ ref, configuration: null, comment: null })
    try {
      edit.refuseTakenField(ref)
    } catch (error) {
      edit.untrackFunction(ref)
      throw error
    }
  })
}

/** Leaves out what the survey has a reason for. */
function acceptable(found: Survey['functions'], kind: string, leftOut: LeftOut[]): readonly TableRef[] {
  for (const each of found) {
    if (each.reason !== null) leftOut.push(leave(`${kind} ${tableName(each)}`, each.reason))
  }
  return found.filter(({ reason }) => reason === null)
}

/** Runs a step for each object, and leaves out those that it refuses. */
async function attempt(
  refs: readonly TableRef[],
  kind: string,
  leftOut: LeftOut[],
  step: (ref: TableRef) => Promise<void>,
): Promise<readonly TableRef[]> {
  const done: TableRef[] = []
  for (const ref of refs) {
    try {
      await step(ref)
      done.push(ref)
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error
      leftOut.push(leave(`${kind} ${tableName(ref)}`, error.message))
    }
  }
  return done
}

interface Related {
  readonly table: TableRef
  readonly name: string
  readonly type: 'object' | 'array'
  readonly to: TableRef
  readonly using: Json
}

/** A foreign key between two tracked tables. */
interface Link {
  readonly from: TableRef
  readonly key: ForeignKey
  /** Whether at most one row refers to each row. */
  readonly isUnique: boolean
}

/**
 * Creates the relationships of the foreign keys that begin or end at a table of the survey, unless there are some: first
 * those to one row, in the order of tables and constraints, then those in the other direction.
 */
function relate(
  edit: Editor,
  survey: Survey,
  names: ReadonlyMap<string, Words>,
  leftOut: LeftOut[],
): readonly Related[] {
  const surveyed = new Map(survey.tables.map((table) => [tableKey(table), table]))
  const tracked = new Map(edit.trackedTables.map(({ ref }) => [tableKey(ref), ref]))
  const links: Link[] = []
  for (const [from, ref] of [...tracked].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const found = edit.found(ref)
    const unique = surveyed.get(from)?.unique ?? found?.keys.map(({ columns }) => columns) ?? []
    for (const key of found?.foreignKeys ?? []) {
      const to = tableKey(key.table)
      if (!surveyed.has(from) && !surveyed.has(to)) continue
      const isUnique = unique.some((columns) => columns.every((column) => key.columns.includes(column)))
      if (tracked.has(to)) links.push({ from: ref, key, isUnique })
      else
        leftOut.push(
          leave(`foreign key ${tableName(ref)}.${key.name}`, `table "${tableName(key.table)}" is not tracked`),
        )
    }
  }
  const ends = new Map<string, Fields>()
  for (const ref of links.flatMap(({ from, key }) => [from, key.table])) {
    if (!ends.has(tableKey(ref))) ends.set(tableKey(ref), fieldsOf(edit, ref))
  }
  const keysBetween = new Map<string, Set<string>>()
  for (const { from, key } of links) {
    const route = routeOf(from, key)
    keysBetween.set(route, (keysBetween.get(route) ?? new Set()).add(idOf(key.table, pairs(key))))
  }
  for (const { schema, name, partitionKeys } of survey.tables) {
    for (const { table, columns, remoteColumns } of partitionKeys) {
      const ref = tracked.get(tableKey({ schema, name }))
      const on = columns.map((column, i) => [column, remoteColumns[i] as string] as const)
      if (!ref || !tracked.has(tableKey(table)) || fieldsOf(edit, ref).joins.has(idOf(table, on))) continue
      const reason = `only its partitions have it; create a relationship to "${tableName(table)}" with manual_configuration`
      leftOut.push(leave(`foreign key ${tableName(ref)} (${columns.join(', ')})`, reason))
    }
  }
  const related: Related[] = []
  const create = (
    table: TableRef,
    to: TableRef,
    join: Join,
    type: Related['type'],
    choices: readonly string[],
    using: Json,
  ) => {
    const { taken, joins } = ends.get(tableKey(table)) as Fields
    const id = idOf(to, join)
    if (joins.has(id)) return
    const name = firstFree(choices, taken)
    edit.createRelationship(table, { name, type, definition: using, comment: null })
    taken.add(name)
    joins.add(id)
    related.push({ table, name, type, to, using })
  }
  for (const { from, key } of links) {
    const choices = toOne(endOf(key, key.table, names))
    create(from, key.table, pairs(key), 'object', choices, usingOwn(edit, from, key))
  }
  for (const { from, key, isUnique } of links) {
    const isOnly = keysBetween.get(routeOf(from, key))?.size === 1
    const choices = (isUnique ? backToOne : toMany)(endOf(key, from, names), isOnly)
    const join = pairs(key).map(([here, there]) => [there, here] as const)
    create(key.table, from, join, isUnique ? 'object' : 'array', choices, usingOther(edit, from, key))
  }
  return related
}

type Join = readonly (readonly [here: string, there: string])[]
/** The names that are taken in a table, and the relationships that it has. */
interface Fields {
  readonly taken: Set<string>
  readonly joins: Set<string>
}

const fieldsOf = (edit: Editor, ref: TableRef): Fields => ({
  taken: edit.takenNames(ref),
  joins: new Set(edit.relationships(ref).map(({ table, on }) => idOf(table, on))),
})

const pairs = ({ columns, remoteColumns }: ForeignKey): Join =>
  columns.map((column, i) => [column, remoteColumns[i] as string])

const routeOf = (from: TableRef, { table }: ForeignKey): string => JSON.stringify([tableKey(from), tableKey(table)])

/** Identifies what a relationship leads to. Its name and type do not matter. */
const idOf = (to: TableRef, join: Join): string =>
  JSON.stringify([tableKey(to), join.map((pair) => pair.join('\0')).sort()])

const isSame = (one: TableRef, other: TableRef): boolean => tableKey(one) === tableKey(other)

const endOf = ({ columns }: ForeignKey, other: TableRef, names: ReadonlyMap<string, Words>): End => ({
  columns,
  table: other.name,
  words: nameOf(names, other) ?? {},
})

/** Several foreign keys may have the same columns. Then only the mapping of the columns says which one is meant. */
function usingOwn(edit: Editor, from: TableRef, key: ForeignKey): Json {
  const alike = edit.found(from)?.foreignKeys.filter((other) => hasColumns(other, key)) ?? []
  if (alike.length > 1) return mapping(key.table, pairs(key))
  return { foreign_key_constraint_on: columnsOf(key) }
}

function usingOther(edit: Editor, from: TableRef, key: ForeignKey): Json {
  const alike =
    edit.found(from)?.foreignKeys.filter((other) => hasColumns(other, key) && isSame(other.table, key.table)) ?? []
  if (alike.length > 1)
    return mapping(
      from,
      pairs(key).map(([here, there]) => [there, here]),
    )
  return { foreign_key_constraint_on: { table: exportedName(from), column: columnsOf(key) } }
}

const hasColumns = (one: ForeignKey, other: ForeignKey): boolean =>
  one.columns.length === other.columns.length && one.columns.every((column) => other.columns.includes(column))

const columnsOf = ({ columns }: ForeignKey): Json => (columns.length === 1 ? (columns[0] as string) : [...columns])

const mapping = (to: TableRef, join: Join): Json => ({
  manual_configuration: { remote_table: exportedName(to), column_mapping: Object.fromEntries(join) },
})

const nameOf = (names: ReadonlyMap<string, Words>, ref: TableRef): Words | undefined =>
  names.get(`${ref.schema}.${ref.name}`) ?? names.get(tableName(ref))

const leave = (name: string, reason: string): LeftOut => ({ name, reason })
const refOf = ({ schema, name }: TableRef): TableRef => ({ schema, name })
