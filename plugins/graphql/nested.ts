import { type Call, type Catalog, type Data, isAdmin, serviceError } from 'rowhouse'
import {
  at,
  isObject,
  type Json,
  type JsonObject,
  NO_LIMITS,
  parseJson,
  type Rows,
  rowsOf,
  stringifyJson,
  type Table,
  tableKey,
} from 'rowhouse/plan'
import { invalid, isGiven } from './plan/input.js'
import type { Conflict, NestedShape } from './plan/mutation.js'
import { isColumn, keyOf, withWords, wordOf } from './plan/names.js'

/**
 * Runs the statement of one step.
 * @param part the rows to write, or the result of writing them, as JSON text
 * @param slots values of the slots after that of `part`
 */
export type Step = (
  nested: NestedShape,
  part: Rows | string,
  slots: readonly Json[],
  call: Call,
) => Promise<string | undefined>

/** A row that was written: its key, and the requested columns. */
type Written = JsonObject

/** Returns whether a row to insert contains rows of related tables. */
export function hasRelatedRows(row: Json, table: Table, { naming }: Catalog): boolean {
  return isObject(row) && Object.keys(row).some((key) => isRelationship(key, table, naming))
}

const isRelationship = (key: string, table: Table, naming: Catalog['naming']): boolean =>
  table.relationshipsByName.has(key) && !isColumn(table, key, naming)

/**
 * Inserts rows with rows of related tables in one transaction, with a statement for each table and level. Rows that a
 * row references are inserted before it, and rows that reference it after it. The permissions of every table apply, and
 * their checks run when all rows are inserted.
 * @param slot the first slot that a step may use: that of its rows
 * @returns the value of the field, which counts all rows
 */
export function insertNested(
  data: Data,
  table: Table,
  rows: readonly Json[],
  slot: number,
  step: Step,
  path: string,
  call: Call,
): Promise<string> {
  return data.transaction(call, async (inner) => {
    const insert = new NestedInsert(data.catalogFor(inner), slot, step, inner)
    return insert.root(table, rows, path)
  })
}

class NestedInsert {
  private affected = 0

  constructor(
    private readonly catalog: Catalog,
    private readonly slot: number,
    private readonly step: Step,
    private readonly call: Call,
  ) {}

  async root(table: Table, rows: readonly Json[], path: string): Promise<string> {
    const written = await this.level(table, rows, [], [], path, (i) => at(path, i))
    const others = this.affected - written.length
    const look: NestedShape = { phase: 'look', link: [], via: [], others: this.slot + 1 }
    return (await this.step(look, stringifyJson(written as Json[]), [others], this.call)) as string
  }

  /**
   * @param link columns of the rows to return, as `l0`, `l1` and so on
   * @param place returns the path of a row
   */
  private async level(
    table: Table,
    rows: readonly Json[],
    link: readonly string[],
    via: readonly string[],
    path: string,
    place: Place,
    conflict?: Conflict,
  ): Promise<readonly Written[]> {
    const { naming } = this.catalog
    const own = rows.map((row, i) => {
      if (isObject(row))
        return Object.fromEntries(Object.entries(row).filter(([key]) => !isRelationship(key, table, naming)))
      throw invalid('expecting an object', place(i))
    })
    const used = [...table.relationshipsByName.values()].filter(
      ({ name }) =>
        isRelationship(name, table, naming) && (rows as readonly JsonObject[]).some((row) => isGiven(row[name])),
    )
    for (const { name, table: ref, on } of used.filter(({ type }) => type === 'object')) {
      const groups = this.related(rows as readonly JsonObject[], name, place, false)
      const determined = on.map(([column]) => keyOf(table, column, naming))
      const remote = this.find(ref, path)
      const inner = on.map(([, column]) => column)
      for (const { entries, conflict: inside } of groups) {
        for (const { of } of entries) refuseDetermined(rows[of] as JsonObject, determined, name, () => place(of))
        const parents = await this.level(
          remote,
          entries.map(({ row }) => row),
          inner,
          [...via, name],
          path,
          (i) => (entries[i] as Entry).place(),
          inside,
        )
        await this.check(parents, [...via, name])
        parents.forEach((parent, i) => {
          const target = own[(entries[i] as Entry).of] as JsonObject
          on.forEach(([column], at) => (target[keyOf(table, column, naming)] = parent[`l${at}`] as Json))
        })
      }
    }
    const children = used.filter(({ type }) => type === 'array')
    const wanted = [...new Set([...link, ...children.flatMap(({ on }) => on.map(([column]) => column))])]
    const written = await this.write(own, wanted, via, path, conflict)
    for (const { name, table: ref, on } of children) {
      const remote = this.find(ref, path)
      const determined = on.map(([, column]) => keyOf(remote, column, naming))
      for (const { entries, conflict: inside } of this.related(rows as readonly JsonObject[], name, place, true)) {
        const filled = entries.map(({ row, of, place: here }): Json => {
          refuseDetermined(row, determined, name, here)
          const parent = written[of] as Written
          const keys = on.map(([column, inner]) => [
            keyOf(remote, inner, naming),
            parent[`l${wanted.indexOf(column)}`] as Json,
          ])
          return { ...row, ...Object.fromEntries(keys) } as Json
        })
        if (filled.length === 0) continue
        const here: Place = (i) => (entries[i] as Entry).place()
        await this.check(await this.level(remote, filled, [], [...via, name], path, here, inside), [...via, name])
      }
    }
    return written
  }

  /** Writes rows, those with the same keys in one statement. The result has the order of the rows. */
  private async write(
    rows: readonly JsonObject[],
    link: readonly string[],
    via: readonly string[],
    path: string,
    conflict: Conflict | undefined,
  ): Promise<readonly Written[]> {
    const nested: NestedShape = { phase: 'write', link, via, conflict }
    const sent = rowsOf(rows as Json[], path)
    const whole = await this.step(nested, sent, [], this.call)
    const written: Written[] = []
    /** From groups in which a conflict skipped rows. It is unknown which ones, but nothing depends on that. */
    const unordered: Written[] = []
    if (whole !== undefined) written.push(...(parseJson(whole, NO_LIMITS) as Written[]))
    else {
      for (const group of sent.groups()) {
        const part = parseJson((await this.step(nested, group.rows, [], this.call)) as string, NO_LIMITS) as Written[]
        if (part.length === group.indices.length)
          part.forEach((each, i) => (written[group.indices[i] as number] = each))
        else if (link.length > 0) throw skipped(path)
        else unordered.push(...part)
      }
    }
    const all = [...written.filter((each) => each !== undefined), ...unordered]
    if (all.length !== rows.length && link.length > 0) throw skipped(path)
    this.affected += all.length
    return all
  }

  private async check(written: readonly Written[], via: readonly string[]): Promise<void> {
    if (isAdmin(this.call.session)) return
    await this.step({ phase: 'look', link: [], via }, stringifyJson(written as Json[]), [], this.call)
  }

  private find(ref: { schema: string; name: string }, path: string): Table {
    const table = this.catalog.tables.get(tableKey(ref))
    if (table) return table
    throw invalid(`table "${ref.name}" does not exist`, path)
  }

  /** Groups the rows of a relationship by their `on_conflict`. */
  private related(rows: readonly JsonObject[], name: string, place: Place, many: boolean): readonly Group[] {
    const groups = new Map<string, Group>()
    rows.forEach((row, of) => {
      const given = row[name]
      if (!isGiven(given)) return
      const here = at(place(of), name)
      if (!isObject(given) || !isGiven(given['data'])) throw invalid('expecting an object with the key data', here)
      const { data, on_conflict: raw } = withWords(given)
      const conflict = isGiven(raw) ? conflictOf(raw, `${here}.on_conflict`) : undefined
      const key = JSON.stringify(conflict ?? null)
      const group = groups.get(key) ?? { entries: [], conflict }
      groups.set(key, group)
      const isList = many && Array.isArray(data)
      const list = isList ? data : [data]
      list.forEach((each, i) => {
        if (!isObject(each)) throw invalid('expecting an object', `${here}.data`)
        group.entries.push({ row: each, of, place: () => (isList ? at(`${here}.data`, i) : `${here}.data`) })
      })
    })
    return [...groups.values()]
  }
}

/** Returns the path of a row. Only errors need it. */
type Place = (row: number) => string

interface Entry {
  readonly row: JsonObject
  /** Index of the outer row. */
  readonly of: number
  /** Returns its path. */
  readonly place: () => string
}
interface Group {
  readonly entries: Entry[]
  readonly conflict?: Conflict
}

/** Refuses a value for a column that joins a row with a related one. It would be replaced. */
function refuseDetermined(row: JsonObject, columns: readonly string[], name: string, place: () => string): void {
  const given = columns.find((column) => column in row)
  if (given === undefined) return
  throw invalid(`the relationship "${name}" determines the value of "${given}"; leave it out`, at(place(), given))
}

function conflictOf(value: Json, path: string): Conflict {
  if (!isObject(value)) throw invalid('expecting an object', path)
  const { constraint, update_columns: columns = [], where } = withWords(value)
  const known = ['constraint', 'update_columns', 'where']
  const unknown = Object.keys(value).find((key) => !known.includes(wordOf(key)))
  if (unknown !== undefined) throw invalid(`field "${unknown}" is not in an on_conflict`, at(path, unknown))
  if (typeof constraint !== 'string') throw invalid('the field "constraint" is missing', path)
  if (!Array.isArray(columns)) throw invalid('expecting a list', `${path}.update_columns`)
  return { constraint, columns: columns.map(String), ...(isGiven(where) ? { where } : {}) }
}

const skipped = (path: string) =>
  serviceError(
    'unexpected-payload',
    'on_conflict skipped a row that other rows of the insert belong to; set update_columns to update it',
    path,
  )
