import { type Catalog, type Table, tableKey } from '../catalog/catalog.js'
import { at, ServiceError, serviceError, unexpectedPayload } from '../errors.js'
import {
  isObject,
  type Json,
  type JsonObject,
  NO_LIMITS,
  parseJson,
  type Rows,
  rowsOf,
  stringifyJson,
} from '../json/parse.js'
import { encode } from '../plan/encode.js'
import { type Operand, supports, type TableRef } from '../ir.js'
import type { NestedStep } from '../plan/nested.js'
import { namesFor, type Related } from '../plan/names.js'
import { rowKey } from '../plan/rows.js'
import { isAdmin, permissionRole } from '../session.js'
import { bind } from '../sql/bind.js'
import { emitEqual } from '../sql/emit.js'
import type { Data } from './data.js'
import type { Call } from './operations.js'

/** How a front end writes rows with rows of related tables. `Conflict` is what its planner makes of `on_conflict`. */
export interface NestedFrontEnd<Conflict> {
  /** Returns the key of a column in rows. */
  key(table: Table, column: string): string
  isColumn(table: Table, key: string): boolean
  /** Returns the value of a relationship with the keys `data` and `on_conflict`. */
  related(value: JsonObject): JsonObject
  conflict(value: Json, path: string): Conflict
  /** Whether the rows of the request itself have an `on_conflict`. */
  readonly conflicts: boolean
  invalid(message: string, path: string): ServiceError
  /**
   * Runs the statement of one step of an insert.
   * @param part the rows to write; in phase `look`, the result of writing them as JSON text
   * @param others number of rows that other steps wrote, if the step counts them
   */
  insert(
    step: InsertStep<Conflict>,
    part: Rows | string,
    others: number | undefined,
    call: Call,
  ): Promise<string | undefined>
}
export interface InsertStep<Conflict> extends Pick<NestedStep, 'phase' | 'via'>, Required<Pick<NestedStep, 'link'>> {
  readonly conflict?: Conflict
}

/** Maximum number of statements that write related rows in one transaction. */
const MAX_STEPS = 2000

/** A row that was written: its key, and the requested columns. */
type Written = JsonObject

/**
 * Returns the relationships whose names are keys of rows, as far as the role may know them.
 * @param has returns whether some row has a key
 */
export function relatedBy<Conflict>(
  front: NestedFrontEnd<Conflict>,
  has: (key: string) => boolean,
  table: Table,
  catalog: Catalog,
  { session }: Call,
): readonly Related[] {
  if (table.relationships.length === 0) return []
  const known = namesFor(permissionRole(session), catalog).relationships(table)
  return known.filter(({ relationship: { name } }) => has(name) && !front.isColumn(table, name))
}

/**
 * Inserts rows with rows of related tables in one transaction, with a statement for each table and level. Rows that a
 * row references are inserted before it, and rows that reference it after it. The permissions of every table apply, and
 * their checks run when all rows are inserted; those of rows that cannot be found again, as the rows are written.
 * @returns the answer of the step that looks at the rows of `table`, which counts all rows
 */
export function insertNested<Conflict>(
  data: Data,
  table: TableRef,
  rows: readonly Json[],
  front: NestedFrontEnd<Conflict>,
  path: string,
  call: Call,
): Promise<string> {
  return data.transaction(call, (inner) =>
    new NestedWrite(data.catalogFor(inner), front, inner).insert(table, rows, path),
  )
}

/** A write of rows and related rows, in the transaction of `call`. */
export class NestedWrite<Conflict> {
  /** Number of rows written so far. */
  affected = 0

  constructor(
    private readonly catalog: Catalog,
    private readonly front: NestedFrontEnd<Conflict>,
    private readonly call: Call & Required<Pick<Call, 'transaction'>>,
  ) {}

  async insert(ref: TableRef, rows: readonly Json[], path: string): Promise<string> {
    const written = await this.level(this.find(ref, path), rows, [], [], path, (i) => at(path, i))
    const others = this.affected - written.length
    const look = { phase: 'look', link: [], via: [] } as const
    return (await this.step(look, stringifyJson(written as Json[]), others, path)) as string
  }

  /**
   * Inserts the rows that reference rows which have been written.
   * @param rows with their related rows, each at the path `here`
   * @param written returned `wanted`
   */
  async children(
    { relationship: { name, type, on }, table: remote }: Related,
    rows: readonly JsonObject[],
    written: readonly (Written | undefined)[],
    wanted: readonly string[],
    via: readonly string[],
    path: string,
    here: Place,
  ): Promise<void> {
    const determined = on.map(([, column]) => this.front.key(remote, column))
    const inside = [...via, name]
    for (const { entries, conflict } of this.groups(rows, name, here, type === 'array')) {
      const filled = entries.map(({ row, of, place }): Json => {
        this.refuseDetermined(row, determined, name, place)
        const parent = written[of] as Written
        const keys = on.map(([column], i) => [determined[i], parent[`l${wanted.indexOf(column)}`] as Json])
        return { ...row, ...Object.fromEntries(keys) } as Json
      })
      if (filled.length === 0) continue
      const place: Place = (i) => (entries[i] as Entry).place()
      const children = await this.level(remote, filled, [], inside, path, place, conflict, determined)
      await this.check(remote, children, inside, path, conflict)
    }
  }

  /** Counts statements before they run. */
  count(statements: number, path: string): void {
    const { transaction } = this.call
    transaction.steps += statements
    if (transaction.steps <= MAX_STEPS) return
    throw unexpectedPayload(`the related rows need more than ${MAX_STEPS} statements`, path)
  }

  /** Returns the relationships that are keys of some rows, and refuses other values than rows. */
  related(table: Table, rows: readonly Json[], place: Place): readonly Related[] {
    const wrong = rows.findIndex((row) => !isObject(row))
    if (wrong >= 0) throw this.front.invalid('expecting an object', place(wrong))
    const has = (key: string) => (rows as readonly JsonObject[]).some((row) => Object.hasOwn(row, key))
    return relatedBy(this.front, has, table, this.catalog, this.call)
  }

  /**
   * @param link columns of the rows to return, as `l0`, `l1` and so on
   * @param place returns the path of a row
   * @param known keys of the rows that the relationship to them determines
   */
  private async level(
    table: Table,
    all: readonly Json[],
    link: readonly string[],
    via: readonly string[],
    path: string,
    place: Place,
    conflict?: Conflict,
    known: readonly string[] = [],
  ): Promise<readonly Written[]> {
    const related = this.related(table, all, place)
    const rows = all as readonly JsonObject[]
    const names = new Set(related.map(({ relationship }) => relationship.name))
    const used = related.filter(({ relationship: { name } }) => rows.some((row) => isGiven(row[name])))
    const own = rows.map((row) => Object.fromEntries(Object.entries(row).filter(([key]) => !names.has(key))))
    const after = used.filter(({ relationship }) => !relationship.before)
    for (const { relationship, table: remote } of used.filter((each) => !after.includes(each))) {
      const { name, on } = relationship
      const determined = on.map(([column]) => this.front.key(table, column))
      const inside = [...via, name]
      const free = determined.filter((key) => !known.includes(key))
      for (const { entries, conflict: theirs } of this.groups(rows, name, (i) => at(place(i), name), false)) {
        for (const { of } of entries) this.refuseDetermined(rows[of] as JsonObject, free, name, () => place(of))
        const parents = await this.level(
          remote,
          entries.map(({ row }) => row),
          on.map(([, column]) => column),
          inside,
          path,
          (i) => (entries[i] as Entry).place(),
          theirs,
        )
        await this.check(remote, parents, inside, path, theirs)
        for (const [i, parent] of parents.entries()) {
          const { of } = entries[i] as Entry
          const target = own[of] as JsonObject
          for (const [number, [column]] of on.entries()) {
            const key = determined[number] as string
            const value = parent[`l${number}`] as Json
            if (Object.hasOwn(target, key) && !(await this.areEqual(table, column, target[key] as Json, value, path))) {
              const message = `the relationship "${name}" gives "${key}" another value than the row has from another relationship`
              throw this.front.invalid(message, at(place(of), name))
            }
            target[key] = value
          }
        }
      }
    }
    const referenced = after.flatMap(({ relationship }) => relationship.on.map(([column]) => column))
    const wanted = [...new Set([...link, ...referenced])]
    const written = await this.write({ table, link: wanted, via, path, place, conflict }, own, (i) => {
      return link.length > 0 || after.some(({ relationship: { name } }) => hasRows((rows[i] as JsonObject)[name]))
    })
    for (const each of after) {
      const { name } = each.relationship
      await this.children(each, rows, written, wanted, via, path, (i) => at(place(i), name))
    }
    return written.filter((each) => each !== undefined)
  }

  /**
   * Writes rows. Where a conflict, a trigger or a rule may skip rows, those that no other row needs have statements of their own.
   * @param isNeeded returns whether other rows belong to a row
   * @returns the rows in the order of `rows`, and after them those of which it is unknown which ones they are
   */
  private async write(
    to: Target<Conflict>,
    rows: readonly JsonObject[],
    isNeeded: (row: number) => boolean,
  ): Promise<readonly (Written | undefined)[]> {
    const indices = rows.map((_, i) => i)
    const needed = indices.filter(isNeeded)
    // Partitions, and the tables of views, may have triggers of their own.
    const maySkip = this.mayConflict(to) || to.table.kind !== 'table' || to.table.ownTransaction
    const mixed = needed.length > 0 && needed.length < rows.length && maySkip
    const written: (Written | undefined)[] = indices.map(() => undefined)
    const loose: Written[] = []
    for (const part of mixed ? [needed, indices.filter((i) => !isNeeded(i))] : [indices]) {
      const done = await this.writeAll(
        { ...to, place: (i) => to.place(part[i] as number), ...(part.some(isNeeded) ? {} : { link: [] }) },
        part.map((i) => rows[i] as JsonObject),
      )
      if (done.length === part.length) part.forEach((index, i) => (written[index] = done[i]))
      else loose.push(...done)
    }
    return [...written, ...loose]
  }

  /** Writes rows, those with the same keys in one statement. The result has the order of the rows, unless rows were skipped. */
  private async writeAll(to: Target<Conflict>, rows: readonly JsonObject[]): Promise<readonly Written[]> {
    const { table, link, via, path, place, conflict } = to
    const step = { phase: 'write', link, via, conflict } as const
    const run = async (part: Rows, placed: Place): Promise<readonly Written[] | undefined> => {
      const text = await withPlace(this.step(step, part, undefined, path), placed, via.length > 0)
      return text === undefined ? undefined : (parseJson(text, NO_LIMITS) as Written[])
    }
    const sent = rowsOf(rows as Json[], path)
    const written: Written[] = []
    /** From groups with skipped rows. It is unknown which ones, but nothing depends on that. */
    const unordered: Written[] = []
    const whole = await run(sent, place)
    if (whole) written.push(...whole)
    else {
      for (const { rows: group, indices } of sent.groups(path)) {
        const part = (await run(group, (i) => place(indices[i] as number))) as readonly Written[]
        if (part.length === indices.length) part.forEach((each, i) => (written[indices[i] as number] = each))
        else unordered.push(...part)
      }
    }
    const done = [...written.filter((each) => each !== undefined), ...unordered]
    if (done.length !== rows.length && link.length > 0) {
      const because = this.mayConflict(to)
        ? `on_conflict skipped a row${OTHERS}; it must update a column of that row`
        : `"${table.name}" did not take a row${OTHERS}: a trigger or rule of it skipped it`
      throw serviceError('unexpected-payload', because, path)
    }
    this.affected += done.length
    return done
  }

  private mayConflict({ via, conflict }: Target<Conflict>): boolean {
    return via.length > 0 ? conflict !== undefined : this.front.conflicts
  }

  /**
   * Checks rows, unless they were checked as they were written.
   * @param conflict after which the rules of updates apply to rows that existed already
   */
  private async check(
    table: Table,
    written: readonly Written[],
    via: readonly string[],
    path: string,
    conflict: Conflict | undefined,
  ): Promise<void> {
    if (isAdmin(this.call.session) || !isFound(table)) return
    await this.step({ phase: 'look', link: [], via, conflict }, stringifyJson(written as Json[]), undefined, path)
  }

  private step(step: InsertStep<Conflict>, part: Rows | string, others: number | undefined, path: string) {
    this.count(1, path)
    return this.front.insert(step, part, others, this.call)
  }

  /** Compares values of a column. PostgreSQL knows that `1.50` and `1.5` are one number. */
  private async areEqual(table: Table, column: string, a: Json, b: Json, path: string): Promise<boolean> {
    if (stringifyJson(a) === stringifyJson(b)) return true
    const type = table.columnsByName.get(column)?.type
    if (!type || a === null || b === null || !supports(type, 'equality')) return false
    this.count(1, path)
    const constant = (value: Json): Operand => ({ kind: 'const', value: encode(value, type, path), type })
    const { text, params } = emitEqual(constant(a), constant(b))
    const client = await this.call.transaction.connection()
    const { rows } = await client.query<{ equal: boolean }>(text, bind(params, { values: [], variables: new Map() }))
    return rows[0]?.equal === true
  }

  private find(ref: TableRef, path: string): Table {
    const table = this.catalog.tables.get(tableKey(ref))
    if (table) return table
    throw this.front.invalid(`table "${ref.name}" does not exist`, path)
  }

  /** Groups the rows of a relationship by their `on_conflict`. */
  private groups(rows: readonly JsonObject[], name: string, place: Place, many: boolean): readonly Group<Conflict>[] {
    const { front } = this
    const groups = new Map<string, Group<Conflict>>()
    rows.forEach((row, of) => {
      const given = row[name]
      if (!isGiven(given)) return
      const here = place(of)
      if (!isObject(given) || !isGiven(given['data']))
        throw front.invalid('expecting an object with the key data', here)
      const { data, on_conflict: raw } = front.related(given)
      const conflict = isGiven(raw) ? front.conflict(raw, `${here}.on_conflict`) : undefined
      const key = JSON.stringify(conflict ?? null)
      const group = groups.get(key) ?? { entries: [], conflict }
      groups.set(key, group)
      const isList = many && Array.isArray(data)
      const list = isList ? data : [data]
      list.forEach((each, i) => {
        if (!isObject(each)) throw front.invalid('expecting an object', `${here}.data`)
        group.entries.push({ row: each, of, place: () => (isList ? at(`${here}.data`, i) : `${here}.data`) })
      })
    })
    return [...groups.values()]
  }

  /** Refuses a value for a column that joins a row with a related one. It would be replaced. */
  private refuseDetermined(row: JsonObject, columns: readonly string[], name: string, place: () => string): void {
    const given = columns.find((column) => column in row)
    if (given === undefined) return
    const message = `the relationship "${name}" determines the value of "${given}"; leave it out`
    throw this.front.invalid(message, at(place(), given))
  }
}

/** Returns the path of a row, or of the related rows of a row. Only errors need it. */
type Place = (row: number) => string

interface Entry {
  readonly row: JsonObject
  /** Index of the outer row. */
  readonly of: number
  /** Returns its path. */
  readonly place: () => string
}
interface Group<Conflict> {
  readonly entries: Entry[]
  readonly conflict?: Conflict
}

/** Gives an error about a step the place of what it is about: a row, or the table or `on_conflict` of the relationship. */
async function withPlace<T>(running: Promise<T>, place: Place, isRelated: boolean): Promise<T> {
  try {
    return await running
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    const [, row, rest] = /^.*?\.args\.objects\[(\d+)\](.*)$/s.exec(error.path) ?? []
    if (row !== undefined) throw error.moved(place(Number(row)) + (rest as string))
    const [, argument] = (isRelated && /^.*?\.args\.((?:table|on_?[cC]onflict)\b.*)$/s.exec(error.path)) || []
    if (argument === undefined) throw error
    const relationship = place(0).replace(/\.data(\[\d+\])?$/, '')
    throw error.moved(argument === 'table' ? relationship : `${relationship}.${argument}`)
  }
}

const isGiven = (value: Json | undefined): value is Exclude<Json, null> => value !== undefined && value !== null

/** Where rows are written, and what of them is needed afterwards. See `level`. */
interface Target<Conflict> {
  readonly table: Table
  readonly link: readonly string[]
  readonly via: readonly string[]
  readonly path: string
  readonly place: Place
  readonly conflict?: Conflict
}

/** Returns whether a relationship of a row has rows: `{"data": [{...}]}`. */
const hasRows = (given: Json | undefined): boolean => {
  const data = isObject(given) ? given['data'] : undefined
  return isGiven(data) && !(Array.isArray(data) && data.length === 0)
}

const OTHERS = ' that other rows of the insert belong to'

/** Returns whether rows can be found again, to check them when the related ones are written. */
const isFound = (table: Table): boolean => rowKey(table, true).kind !== 'none'
