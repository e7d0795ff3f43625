import {
  type Call,
  type Data,
  insertNested,
  isAdmin,
  type Json,
  type JsonObject,
  type NestedFrontEnd,
  NestedWrite,
  relatedBy,
  ServiceError,
} from 'rowhouse'
import {
  at,
  isObject,
  NO_LIMITS,
  parseFailed,
  parseJson,
  refuseOtherKeys,
  type Related,
  Rows,
  rowsOf,
  serviceError,
  type Table,
  tableKey,
  unexpectedPayload,
  under,
} from 'rowhouse/plan'
import { type ConflictShape, type Lifted, PLANNER, type StepShape } from './lift/shape.js'
import { liftConflict, liftDelete, liftInsert, liftUpdate } from './lift/writes.js'

const PATH = '$.args'
/** A row without columns, for steps that have none. */
const NO_ROWS = rowsOf([{}], PATH)
/** Maximum number of rows that an update inserts. */
const MAX_INSERTED = 10_000
/** Maximum number of values in rows with rows of relationships. They are parsed in the main thread. */
const MAX_VALUES = 100_000
const TOO_MANY_VALUES = `rows with rows of relationships have at most ${MAX_VALUES} values together`
/** Maximum length of the keys of the rows of an update. They are parsed in the main thread. */
const MAX_WRITTEN = 8 * 1024 * 1024

/**
 * Returns how the JSON API inserts rows with related rows.
 * @param args of the insert or update
 */
const nestedRows = (data: Data, args: JsonObject, from: StepShape['from']): NestedFrontEnd<ConflictShape> => ({
  key: (_, column) => column,
  isColumn: (table, key) => table.columnsByName.has(key),
  related: (value) => value,
  conflict: liftConflict,
  conflicts: isGiven(args['on_conflict']),
  invalid: unexpectedPayload,
  insert({ conflict, ...step }, part, others, call) {
    const { table, on_conflict: onConflict, returning } = args
    const isLook = step.phase === 'look'
    const own = step.via.length > 0 ? {} : { on_conflict: onConflict, returning: isLook ? returning : null }
    const lifted = liftInsert({ table, ...own } as JsonObject, part instanceof Rows ? part : NO_ROWS)
    const shape = { ...lifted.shape, ...(conflict && { onConflict: conflict }) }
    return runStep(data, { shape, values: lifted.values.with(0, part) }, { ...step, from, others }, call)
  },
})

/** A step with the values that its shape has slots for. */
type Step = Omit<StepShape, 'others' | 'written' | 'within'> & {
  readonly others?: number
  readonly written?: string
  readonly within?: Within
}
/** The result of writing rows, and the indexes in their `link` of the columns that join them with related ones. */
interface Within {
  readonly written: string
  readonly links: readonly number[]
}

function runStep(data: Data, { shape, values }: Pick<Lifted, 'shape' | 'values'>, step: Step, call: Call) {
  const all = [...values]
  const slot = (value: Json | undefined) => (value === undefined ? undefined : all.push(value) - 1)
  const { others, written, within, ...rest } = step
  const steps = {
    ...rest,
    others: slot(others),
    written: slot(written),
    within: within && { slot: slot(within.written), links: within.links },
  }
  return data.run({ planner: PLANNER, shape: { ...shape, step: steps }, values: all }, call)
}

/** Inserts rows with rows of relationships. @returns undefined if they have none */
export async function insertWithRelated(
  data: Data,
  args: JsonObject,
  rows: Rows,
  call: Call,
): Promise<string | undefined> {
  const { table } = liftInsert(args, rows).shape
  const catalog = data.catalogFor(call)
  const front = nestedRows(data, args, 'insert')
  const found = catalog.tables.get(tableKey(table))
  const has = (name: string) => rows.columns.has(name)
  if (!found || relatedBy(front, has, found, catalog, call).length === 0) return undefined
  if (!isAdmin(call.session) && rows.values > MAX_VALUES)
    throw serviceError('payload-too-large', TOO_MANY_VALUES, `${PATH}.objects`)
  return insertNested(data, table, parsed(rows), front, `${PATH}.objects`, call)
}

const parsed = ({ source }: Rows): readonly Json[] =>
  under(`${PATH}.objects`, () => parseJson(source) as readonly Json[])

/** Updates rows, and inserts, updates and deletes rows of their relationships, in the transaction of the call. */
export function updateWithRelated(data: Data, args: JsonObject, call: Call): Promise<string> {
  return data.transaction(call, (inner) => {
    const { table } = liftUpdate(args).shape
    const found = data.catalogFor(inner).tables.get(tableKey(table))
    if (!found) throw unexpectedPayload('the table does not exist any more', `${PATH}.table`)
    return new NestedUpdate(data, args, inner).update(args, found, [], undefined, PATH)
  })
}

class NestedUpdate {
  private readonly front: NestedFrontEnd<ConflictShape>
  private readonly rows: NestedWrite<ConflictShape>

  constructor(
    private readonly data: Data,
    private readonly args: JsonObject,
    private readonly call: Call & Required<Pick<Call, 'transaction'>>,
  ) {
    this.front = nestedRows(data, args, 'update')
    this.rows = new NestedWrite(data.catalogFor(call), this.front, call)
  }

  /**
   * @param args of the update, without a table if the rows are those of a relationship
   * @param path of `args`
   */
  async update(
    args: JsonObject,
    table: Table,
    via: readonly string[],
    within: Within | undefined,
    path: string,
  ): Promise<string> {
    const key = isGiven(args['$set']) ? '$set' : 'values'
    const set = args[key]
    const has = (name: string) => isObject(set) && Object.hasOwn(set, name)
    const related = relatedBy(this.front, has, table, this.data.catalogFor(this.call), this.call)
    const step = { from: 'update', via, within } as const
    const { returning = null, ...rest } = { ...args, table: this.args['table'] as Json }
    if (related.length === 0) return this.counted(await this.run(() => liftUpdate(rest), step, path))

    this.rows.count(2, path)
    const names = related.map(({ relationship }) => relationship.name)
    const own = Object.entries(set as JsonObject).filter(([name]) => !names.includes(name))
    const link = [...new Set(related.flatMap(({ relationship }) => relationship.on.map(([column]) => column)))]
    const changes = () => liftUpdate({ ...rest, [key]: Object.fromEntries(own) })
    const written = await this.run(changes, { ...step, phase: 'write', link }, path)
    if (written.length > MAX_WRITTEN) {
      throw unexpectedPayload('the condition meets too many rows to write related rows too', at(path, 'where'))
    }
    const parents = parseJson(written, NO_LIMITS) as readonly JsonObject[]
    const before = (this.rows.affected += parents.length)
    for (const each of related) {
      const given = (set as JsonObject)[each.relationship.name] as Json
      await this.change(each, given, { written, parents, link, via }, at(at(path, key), each.relationship.name))
    }
    const look = () => liftUpdate({ table: rest.table, where: {}, returning })
    return this.run(look, { from: 'update', via, phase: 'look', written, others: this.rows.affected - before }, path)
  }

  /** Deletes, updates and inserts rows of a relationship, in this order. */
  private async change(
    related: Related,
    given: Json,
    { written, parents, link, via }: Outer,
    path: string,
  ): Promise<void> {
    const { relationship, table } = related
    const object = expectObject(given, ['insert', 'update', 'delete'], path)
    const links = relationship.on.map(([column]) => link.indexOf(column))
    const [inside, within] = [[...via, relationship.name], { written, links }]
    const [deletes, updates] = [entriesOf(object, 'delete', ['where'], path), entriesOf(object, 'update', UPDATE, path)]
    this.rows.count(deletes.length + updates.length, path)
    for (const [entry, here] of deletes) {
      const lifted = () => liftDelete({ ...entry, table: this.args['table'] as Json })
      this.counted(await this.run(lifted, { from: 'update', via: inside, within }, here))
    }
    for (const [entry, here] of updates) {
      await this.update(entry, table, inside, within, here)
    }
    const { insert } = object
    if (!isGiven(insert)) return
    const here = `${path}.insert`
    if (relationship.before) {
      throw unexpectedPayload(
        `"${relationship.name}" leads to the row that a row belongs to, and insert is for rows that belong to it`,
        here,
      )
    }
    const rows = isObject(insert) && Array.isArray(insert['data']) ? insert['data'].length : 1
    if (rows * parents.length > MAX_INSERTED) {
      throw unexpectedPayload(`the update would insert more than ${MAX_INSERTED} rows`, here)
    }
    const inserts = parents.map(() => ({ [relationship.name]: insert }))
    await this.rows.children(related, inserts, parents, link, via, path, () => here)
  }

  private counted(answer: string): string {
    this.rows.affected += (parseJson(answer, NO_LIMITS) as { affected_rows: number }).affected_rows
    return answer
  }

  private async run(lift: () => Lifted, step: Step, path: string): Promise<string> {
    try {
      return (await runStep(this.data, lift(), step, this.call)) as string
    } catch (error) {
      if (path === PATH || !(error instanceof ServiceError) || !error.path.startsWith(PATH)) throw error
      const rest = error.path.slice(PATH.length)
      throw error.moved(rest === '.table' ? path : path + rest)
    }
  }
}

/** Rows that were updated, with the values of the columns `link`. */
interface Outer {
  readonly written: string
  readonly parents: readonly JsonObject[]
  readonly link: readonly string[]
  readonly via: readonly string[]
}

const UPDATE = ['where', '$set', 'values', '$inc', '$mul', '$default']

/** Returns the object under a key, or those of an array, with their paths. */
function entriesOf(
  object: JsonObject,
  key: string,
  keys: readonly string[],
  path: string,
): readonly (readonly [entry: JsonObject, path: string])[] {
  const value = object[key]
  if (!isGiven(value)) return []
  const here = at(path, key)
  if (!Array.isArray(value)) return [[expectObject(value, keys, here), here]]
  return value.map((each, i) => [expectObject(each, keys, at(here, i)), at(here, i)])
}

function expectObject(value: Json, keys: readonly string[], path: string): JsonObject {
  if (!isObject(value)) throw parseFailed(`expecting an object with the keys ${keys.join(', ')}`, path)
  refuseOtherKeys(value, keys, path)
  return value
}

const isGiven = (value: Json | undefined): value is Exclude<Json, null> => value !== undefined && value !== null
