import {
  type Data,
  ident,
  join,
  literal,
  type Sql,
  sql,
  tableSql,
  typeSql,
  type WatchedSource,
  type Way,
} from 'rowhouse'
import { tableKey } from 'rowhouse/plan'
import type { Change } from './notes.js'

/** With more values at the end of a way, all of its readers are woken. */
const MOST = 10_000

/** Readers by the values to which changed rows lead. */
interface Topic<Reader> {
  readonly way: Way
  readonly text: Sql
  readonly readers: Map<string, Set<Reader>>
}

/** Who has to read again after which change. */
export class Topics<Reader> {
  /** Those to which any row of a table matters. */
  private readonly whole = new Map<string, Set<Reader>>()
  private readonly topics = new Map<string, Map<string, Topic<Reader>>>()

  constructor(private readonly data: Pick<Data, 'query'>) {}

  add(reader: Reader, sources: readonly WatchedSource[]): void {
    for (const { table, way, values } of sources) {
      const key = tableKey(table)
      if (!way || !values) setIn(this.whole, key).add(reader)
      else for (const value of values) setIn(this.topic(key, way).readers, value).add(reader)
    }
  }

  delete(reader: Reader, sources: readonly WatchedSource[]): void {
    for (const { table, way, values } of sources) {
      const key = tableKey(table)
      if (!way || !values) {
        remove(this.whole, key, reader)
        continue
      }
      const topic = this.topic(key, way)
      for (const value of values) remove(topic.readers, value, reader)
      if (topic.readers.size > 0) continue
      const ofTable = this.topics.get(key)
      ofTable?.delete(nameOf(way))
      if (ofTable?.size === 0) this.topics.delete(key)
    }
  }

  /**
   * Returns those to whom a change may matter.
   *
   * None is missed. If an answer is another one than before, some row changed from which a way leads to a value of its reader. Take
   * the last such row on that way: what comes after it is as it was, so that its values, as they were or as they are, still lead
   * there now, and both are in the note. A condition on the way may have excluded the row: then the reader is woken for nothing.
   */
  async woken({ table, columns, rows }: Change): Promise<ReadonlySet<Reader>> {
    const key = tableKey(table)
    const woken = new Set(this.whole.get(key))
    const wake = (readers: Iterable<Reader> = []) => {
      for (const each of readers) woken.add(each)
    }
    for (const topic of this.topics.get(key)?.values() ?? []) {
      const at = columns.indexOf(topic.way.column)
      const values = rows && at >= 0 ? await this.follow(topic, new Set(rows.map((row) => row[at] ?? null))) : undefined
      if (values) for (const value of values) wake(topic.readers.get(value))
      else for (const readers of topic.readers.values()) wake(readers)
    }
    return woken
  }

  /** Returns the values at the end of a way; undefined when there are too many, or it cannot be followed in time. */
  private async follow(
    { way, text }: Topic<Reader>,
    from: ReadonlySet<string | null>,
  ): Promise<Iterable<string> | undefined> {
    const values = [...from].filter((value) => value !== null)
    if (way.joins.length === 0 || values.length === 0) return values
    try {
      const found = await this.data.query<{ value: string | null; is_cut: boolean }>(text, [values])
      return found[0]?.is_cut ? undefined : found.flatMap(({ value }) => value ?? [])
    } catch {
      return undefined
    }
  }

  private topic(key: string, way: Way): Topic<Reader> {
    const ofTable = this.topics.get(key) ?? new Map<string, Topic<Reader>>()
    this.topics.set(key, ofTable)
    const name = nameOf(way)
    const topic = ofTable.get(name) ?? { way, text: climbText(way), readers: new Map() }
    ofTable.set(name, topic)
    return topic
  }
}

const names = new WeakMap<Way, string>()
function nameOf(way: Way): string {
  const { column, type, joins } = way
  const name = names.get(way) ?? JSON.stringify([column, type.schema, type.name, joins])
  names.set(way, name)
  return name
}

/** Prints the statement that leads from values of the first column to those of the last one. */
function climbText({ type, joins }: Way): Sql {
  const row = (i: number) => ident(`t${i}`)
  const before = (i: number): Sql =>
    i === 0 ? sql`v.v::${typeSql(type)}` : sql`${row(i - 1)}.${ident(joins[i - 1]!.to)}`
  const tables = joins.map(
    ({ table, on }, i) =>
      sql`join ${tableSql(table)} ${row(i)} on ${row(i)}.${ident(on)} operator(pg_catalog.=) ${before(i)}`,
  )
  // Rows are counted before equal values are put together, so that the work has an end.
  return sql`with rows as (select ${before(joins.length)} as value from pg_catalog.unnest($1::text[]) v(v)
  ${join(tables, sql` `)} limit ${literal(String(MOST + 1))})
select value::text, (select pg_catalog.count(*) > ${literal(String(MOST))} from rows) as is_cut from rows group by value`
}

function setIn<Key, Value>(sets: Map<Key, Set<Value>>, key: Key): Set<Value> {
  const set = sets.get(key) ?? new Set()
  sets.set(key, set)
  return set
}

function remove<Key, Value>(sets: Map<Key, Set<Value>>, key: Key, value: Value): void {
  const set = sets.get(key)
  set?.delete(value)
  if (set?.size === 0) sets.delete(key)
}
