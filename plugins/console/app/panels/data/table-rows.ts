import { signal } from '@preact/signals'
import { query } from '../../api.js'
import { follow } from '../../live.js'
import type { Table } from '../../catalog.js'
import type { JsonObject } from '../../json.js'
import type { GridRow } from '../../ui/grid.js'
import { choicesOf, flatten, keyColumns, selectArgs, sortedBy, type View } from './view.js'

interface Page {
  count: number
  /** Where the page begins: after these values, or after this number of rows if the rows have no key. */
  readonly after: JsonObject | number
  isKept: boolean
}

const PAGE = 500
/** Rows that are shown live. */
export const LIVE_ROWS = PAGE
/** Rows that are read before they come into view. */
const AHEAD = 2000
/** Rows that are kept. Others are read again when they come into view. */
const KEPT = 10_000
/** Browsers do not scroll a table that is much higher. */
export const MOST_ROWS = 500_000

/** The rows of a view. It reads pages around those that are seen, and forgets those that are far away. */
export class TableRows {
  readonly rows = signal<readonly (GridRow | undefined)[]>([])
  readonly isComplete = signal(false)
  readonly failure = signal<unknown>(undefined)
  /** When the page that is read now was asked for, on the clock of `performance`. */
  readonly waiting = signal<number | undefined>(undefined)
  /** How long the last page took. */
  readonly timing = signal<{ readonly ms: number; readonly rows: number } | undefined>(undefined)
  readonly #table: Table
  readonly #view: View
  readonly #pages: Page[] = []
  #seen = { first: 0, last: 0 }
  #reading: AbortController | undefined
  #isFollowing = false
  #isHeld = false
  /** The newest rows, which came while those of before were held. */
  #newest: readonly JsonObject[] | undefined

  constructor(table: Table, view: View) {
    this.#table = table
    this.#view = view
  }

  /** Reads what belongs to these rows. */
  readonly see = (first: number, last: number): void => {
    this.#seen = { first, last }
    if (!this.#isFollowing && !this.#reading && this.failure.peek() === undefined) void this.#read()
  }

  /** Shows the first rows as they are in the database, from now on. */
  follow(): void {
    this.#isFollowing = true
    this.#reading?.abort()
    this.waiting.value = undefined
    const reading = (this.#reading = new AbortController())
    const args = { ...selectArgs(this.#table, this.#view), limit: Math.min(PAGE, this.#table.limit ?? PAGE) }
    const tell = (rows: readonly JsonObject[]): void => {
      this.#newest = rows
      this.#showNewest()
    }
    follow<readonly JsonObject[]>('select', args, tell, reading.signal).catch((error: unknown) => {
      if (!reading.signal.aborted) this.failure.value = error
    })
  }

  /** Keeps the rows as they are while something depends on their places. */
  hold(isHeld: boolean): void {
    this.#isHeld = isHeld
    this.#showNewest()
  }

  #showNewest(): void {
    if (this.#isHeld || !this.#newest) return
    this.rows.value = this.#newest.map((row) => this.#flat(row))
    this.isComplete.value = true
    this.#newest = undefined
  }

  retry(): void {
    this.failure.value = undefined
    if (this.#isFollowing) this.follow()
    else void this.#read()
  }

  stop(): void {
    this.close()
    this.failure.value = new Error('You stopped waiting for the rows.')
  }

  close(): void {
    this.#reading?.abort()
  }

  replace(index: number, row: JsonObject): void {
    this.rows.value = this.rows.peek().map((each, i) => (i === index ? this.#flat(row) : each))
  }

  remove(indexes: ReadonlySet<number>): void {
    let first = 0
    for (const page of this.#pages) {
      const { count } = page
      for (let i = first; i < first + count; i++) if (indexes.has(i)) page.count--
      first += count
    }
    this.rows.value = this.rows.peek().filter((_, i) => !indexes.has(i))
  }

  async #read(): Promise<void> {
    const reading = (this.#reading = new AbortController())
    try {
      for (let next = this.#next(); next !== undefined && !reading.signal.aborted; next = this.#next()) {
        await this.#readPage(next, reading.signal)
      }
    } catch (error) {
      if (!reading.signal.aborted) this.failure.value = error
    } finally {
      if (this.#reading === reading) this.#reading = this.waiting.value = undefined
    }
  }

  /** Returns the number of the page to read next; undefined if all rows around those in view are there. */
  #next(): number | undefined {
    const { first, last } = this.#seen
    let start = 0
    let near: number | undefined
    for (const [i, { count, isKept }] of this.#pages.entries()) {
      const end = start + count
      if (!isKept && end > first - AHEAD && start < last + AHEAD) {
        if (end > first && start <= last) return i
        near ??= i
      }
      start = end
    }
    if (near !== undefined) return near
    const isEnough = this.isComplete.peek() || start > last + AHEAD || start >= MOST_ROWS
    return isEnough ? undefined : this.#pages.length
  }

  async #readPage(index: number, signal: AbortSignal): Promise<void> {
    const known = this.#pages[index]
    const after = known?.after ?? this.#after()
    const limit = known?.count ?? Math.min(PAGE, this.#table.limit ?? PAGE)
    const started = (this.waiting.value = performance.now())
    const found = await query<readonly JsonObject[]>('select', { ...this.#args(after), limit }, { signal })
    this.timing.value = { ms: performance.now() - started, rows: found.length }
    const page = found.map((row) => this.#flat(row))
    const rows = this.rows.peek()
    if (known) {
      known.isKept = true
      const start = this.#startOf(index)
      const filled = [...rows]
      for (const [i, row] of page.entries()) filled[start + i] = row
      this.rows.value = filled
    } else {
      this.#pages.push({ count: page.length, after, isKept: true })
      this.isComplete.value = page.length < limit
      this.rows.value = [...rows, ...page]
    }
    this.#forget()
  }

  #args(after: JsonObject | number): JsonObject {
    const args = selectArgs(this.#table, this.#view)
    return typeof after === 'number' ? { ...args, offset: after } : { ...args, after }
  }

  /** Returns where the page after the last one begins. */
  #after(): JsonObject | number {
    const rows = this.rows.peek()
    const key = keyColumns(this.#table)
    const sorted = this.#view.sort.map((each) => sortedBy(this.#table, each).path)
    if (key.length === 0 || sorted.some(({ length }) => length > 1)) return rows.length
    const last = rows.at(-1)
    return last ? Object.fromEntries([...sorted.flat(), ...key].map((name) => [name, last[name]])) : {}
  }

  #startOf(index: number): number {
    return this.#pages.slice(0, index).reduce((sum, { count }) => sum + count, 0)
  }

  #flat(row: JsonObject): GridRow {
    return flatten(this.#table, choicesOf(this.#table, this.#view), row)
  }

  /** Forgets the pages that are farthest from the rows in view. The last one stays, because the next begins behind it. */
  #forget(): void {
    const kept = this.#pages.flatMap((page, i) => (page.isKept ? [{ page, start: this.#startOf(i) }] : []))
    let count = kept.reduce((sum, { page }) => sum + page.count, 0)
    if (count <= KEPT) return
    const distance = (start: number) => Math.abs(start - this.#seen.first)
    const rows = [...this.rows.peek()]
    for (const { page, start } of kept.slice(0, -1).sort((a, b) => distance(b.start) - distance(a.start))) {
      if (count <= KEPT) break
      page.isKept = false
      rows.fill(undefined, start, start + page.count)
      count -= page.count
    }
    this.rows.value = rows
  }
}
