import { type Data, tableSql, type Watched, type WatchedSource } from 'rowhouse'
import { tableKey, type TableRef } from 'rowhouse/plan'

/** What a view reads. */
interface Below {
  readonly tables: readonly TableRef[]
  /** Whether its rows depend on nothing else. */
  readonly isComplete: boolean
}

interface Found {
  readonly schema: string
  readonly name: string
  readonly kind: string
  readonly is_complete: boolean
}

/**
 * The relations below a view, and whether the query of each depends on its rows alone: a function that is not immutable may ask for
 * the time or read something else. Its number is in the text of the query: `:funcid 1299`.
 */
const BELOW = `
with recursive below(oid) as (
  select $1::text::pg_catalog.regclass::oid
  union select d.refobjid from below join pg_catalog.pg_class v on v.oid = below.oid and v.relkind = 'v'
    join pg_catalog.pg_rewrite r on r.ev_class = v.oid
    join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_rewrite'::regclass and d.objid = r.oid
      and d.refclassid = 'pg_catalog.pg_class'::regclass and d.refobjid <> v.oid
)
select n.nspname as schema, c.relname as name, c.relkind as kind, not exists (
    select from pg_catalog.pg_rewrite r where r.ev_class = c.oid and c.relkind = 'v' and (
      r.ev_action::text like '%{SQLVALUEFUNCTION%' or exists (
        select from pg_catalog.regexp_matches(r.ev_action::text, ':(?:funcid|opfuncid|winfnoid|aggfnoid) ([0-9]+)', 'g') m
        join pg_catalog.pg_proc p on p.oid = m[1]::oid where p.provolatile <> 'i'))) as is_complete
from below join pg_catalog.pg_class c using (oid) join pg_catalog.pg_namespace n on n.oid = c.relnamespace`

/** Puts the tables below views in their place. */
export class Views {
  private catalog: unknown
  private readonly known = new Map<string, Promise<Below>>()

  constructor(private readonly data: Data) {}

  async resolve(watched: Watched): Promise<Watched> {
    const { tables } = this.data.catalog
    const isView = ({ table }: WatchedSource) => tables.get(tableKey(table))?.kind === 'view'
    const views = watched.sources.filter(isView)
    if (views.length === 0) return watched
    const below = await Promise.all(views.map(({ table }) => this.below(table)))
    return {
      ...watched,
      sources: [
        ...watched.sources.filter((source) => !isView(source)),
        ...below.flatMap((each) => each.tables.map((table) => ({ table }))),
      ],
      isComplete: watched.isComplete && below.every(({ isComplete }) => isComplete),
    }
  }

  private below(view: TableRef): Promise<Below> {
    if (this.catalog !== this.data.catalog) this.known.clear()
    this.catalog = this.data.catalog
    const key = tableKey(view)
    const known = this.known.get(key) ?? this.read(view)
    this.known.set(key, known)
    known.catch(() => this.known.delete(key))
    return known
  }

  private async read(view: TableRef): Promise<Below> {
    const found = await this.data.query<Found>(BELOW, [tableSql(view)])
    return {
      tables: found.filter(({ kind }) => kind !== 'v').map(({ schema, name }) => ({ schema, name })),
      isComplete: found.length > 0 && found.every(({ is_complete }) => is_complete),
    }
  }
}
