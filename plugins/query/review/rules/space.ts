import type { BoolExp, ColumnRef, SqlType, Table, TableRef } from 'rowhouse/plan'
import { scaleOf } from './constants.js'

/** Something that a rule asks about a row or a session: it has one of a few values. */
export interface Variable {
  /** Its values are the whole numbers below. */
  readonly size: number
  /** Returns whether it can have a value, given what has been decided. Absent: any. */
  readonly allows?: (value: number, decided: Decided) => boolean
  /** Returns whether a row with this value surely could exist. Absent: yes. */
  readonly isCertain?: (value: number) => boolean
}
export type Decided = ReadonlyMap<Variable, number>
/** Returns the value of a variable; undefined while it is undecided. */
export type Read = (variable: Variable) => number | undefined

/** What two rules ask. Equal questions are one variable, so that it has the same value in both rules. */
export class Space {
  private readonly named = new Map<string, Variable>()
  private readonly columns = new Map<string, ColumnSpace>()
  private readonly others = new Map<string, Map<string, unknown>>()

  /**
   * @param implies returns whether each row of a table that meets the first condition certainly meets the second one
   * @param table that has the rows. Absent: nothing is known of it
   */
  constructor(
    readonly implies: (before: BoolExp, after: BoolExp, table: TableRef) => boolean,
    readonly table?: Table,
  ) {}

  variable(key: string, make: () => Variable): Variable {
    let variable = this.named.get(key)
    if (!variable) this.named.set(key, (variable = make()))
    return variable
  }

  /** Returns a question of which nothing is known: true, false or unknown. */
  opaque(key: string): Variable {
    return this.variable(`opaque ${key}`, () => ({ size: 3, isCertain: () => false }))
  }

  /** Returns whether a column is null: 1, if it is. */
  isNull(of: ColumnRef): Variable {
    const { table } = this
    // PostgreSQL does not check what a foreign server says of its columns.
    const isSet =
      !of.computed && table?.columnsByName.get(of.column)?.nullable === false && table.kind !== 'foreign table'
    return this.variable(`null ${keyOf(of)}`, () => ({ size: isSet ? 1 : 2, isCertain: () => !of.computed }))
  }

  /** Returns the questions about rows of another table, by condition. @param rows a key for the table and how it is joined */
  related(rows: string): Map<string, unknown> {
    let found = this.others.get(rows)
    if (!found) this.others.set(rows, (found = new Map()))
    return found
  }

  /** @param of a column, or a computed field, whose function may return any value */
  column(of: Extract<BoolExp, { kind: 'compare' }>, type: SqlType): ColumnSpace {
    const key = JSON.stringify([keyOf(of), of.cast ?? null, type.schema, type.name])
    let found = this.columns.get(key)
    if (!found) this.columns.set(key, (found = new ColumnSpace(type, of.computed !== undefined)))
    return found
  }
}

const keyOf = ({ column, computed }: ColumnRef): string => JSON.stringify([column, computed ?? null])

/** What a column is compared with. */
export interface Point {
  /** Text that stands for the value, if something is known of it. */
  readonly known?: string
  /** Where the column's value is: 0 below, 1 at, 2 above. Not asked if the order of all known constants tells it. */
  readonly place: Variable
}

/**
 * The values of a column, as far as rules can tell them apart. Constants of a known order cut them into places: below the
 * first, at the first, between the first and the second, and so on. Every other operand is by itself.
 */
export class ColumnSpace {
  private readonly points = new Map<string, Point>()
  private readonly scale
  private cuts: readonly string[] | undefined
  private placeOf: ReadonlyMap<string, number> = new Map()
  /** The place of the value. */
  private readonly position: Variable

  constructor(
    private readonly type: SqlType,
    private readonly isComputed: boolean,
  ) {
    const scale = scaleOf(type)
    this.scale = scale
    const size = () => (scale.kind === 'ordered' ? 2 * this.sorted().length + 1 : this.sorted().length + 1)
    this.position = {
      get size() {
        return size()
      },
      allows: (place) => !this.isEmpty(place),
      isCertain: () => this.isAlone(),
    }
  }

  constant(text: string): Point {
    const known = this.scale.read(text)
    return this.point(known === undefined ? `text ${text}` : `known ${known}`, known)
  }
  session(name: string): Point {
    return this.point(`session ${name}`)
  }

  private point(key: string, known?: string): Point {
    let point = this.points.get(key)
    if (!point) {
      const allows = (place: number, decided: Decided) => known === undefined || this.agrees(known, place, decided)
      const isCertain = () => this.isAlone() && (known === undefined || this.points.size === 1)
      point = { ...(known === undefined ? {} : { known }), place: { size: 3, allows, isCertain } }
      this.points.set(key, point)
    }
    return point
  }

  /** Returns whether the value equals an operand; undefined while that is undecided. */
  equals(point: Point, read: Read): boolean | undefined {
    const place = read(point.known === undefined ? point.place : this.position)
    if (place === undefined) return undefined
    return point.known === undefined ? place === AT : place === this.place(point.known)
  }

  /** Returns whether the value is below, at or above an operand: -1, 0 or 1. */
  compare(point: Point, read: Read): number | undefined {
    if (point.known !== undefined && this.scale.kind === 'ordered') {
      const place = read(this.position)
      return place === undefined ? undefined : Math.sign(place - (this.place(point.known) as number))
    }
    const isAt = point.known === undefined ? false : this.equals(point, read)
    if (isAt !== false) return isAt ? 0 : undefined
    const place = read(point.place)
    return place === undefined ? undefined : place - AT
  }

  /** A text that is not ordered is above or below, unless the value is at it. */
  private agrees(known: string, place: number, decided: Decided): boolean {
    const position = decided.get(this.position)
    return position === undefined || (place === AT) === (position === this.place(known))
  }

  /** Returns whether no value is at a place: no whole number, or no other label. */
  private isEmpty(place: number): boolean {
    const { whole } = this.scale
    const { enum: isEnum, labels } = this.type
    if (isEnum) return place === 0 && labels?.every((label) => this.place(label) !== undefined) === true
    if (!whole) return false
    const cuts = this.sorted()
    const index = place >> 1
    const at = (cut: string | undefined) => (cut === undefined ? undefined : BigInt(cut))
    if (place % 2 === 1) {
      const value = at(cuts[index]) as bigint
      return value < whole.least || value > whole.most
    }
    const [after, before] = [at(cuts[index - 1]) ?? whole.least - 1n, at(cuts[index]) ?? whole.most + 1n]
    return before - after <= 1n
  }

  /** Returns whether the column is compared only with constants that are known, or only with one other operand. */
  private isAlone(): boolean {
    const loose = [...this.points.values()].filter(({ known }) => known === undefined).length
    return !this.isComputed && (loose === 0 || this.points.size === 1)
  }

  private place(known: string): number | undefined {
    this.sorted()
    return this.placeOf.get(known)
  }

  /** The known constants of both rules. Called only after all are there. */
  private sorted(): readonly string[] {
    if (!this.cuts) {
      const known = [...this.points.values()].flatMap((point) => point.known ?? [])
      this.cuts = known.sort(this.scale.compare)
      const step = this.scale.kind === 'ordered' ? (i: number) => 2 * i + 1 : (i: number) => i + 1
      this.placeOf = new Map(this.cuts.map((cut, i) => [cut, step(i)]))
    }
    return this.cuts
  }
}
const AT = 1
