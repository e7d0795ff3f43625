import t from 'tap'
import { BUILT_IN } from '../../core/plan/guard.js'
import { freshDatabase, rowsOf } from '../kit/database.js'

/** Types whose comparisons PostgreSQL does not mark, although there is no error that they could raise. */
const UNMARKED = /^(numeric|jsonb|tsvector|tsquery|(int4|int8|num|date|ts|tstz)(range|multirange))$/

t.test(
  'PostgreSQL calls the comparisons of nearly all types leakproof that are compared with hidden rows',
  async (t) => {
    const { url, drop } = await freshDatabase()
    t.teardown(drop)
    const rows = await rowsOf<{ name: string; unsafe: string | null }>(
      url,
      `select t.typname as name, string_agg(distinct p.proname, ' ') filter (where not p.proleakproof) as unsafe
     from pg_type t
     join pg_opclass c on c.opcdefault and c.opcintype = case
       when t.typname in ('varchar') then 'text'::regtype when t.typname = 'cidr' then 'inet'::regtype else t.oid end
     join pg_amop o on o.amopfamily = c.opcfamily and o.amoplefttype = c.opcintype and o.amoprighttype = c.opcintype
     join pg_am a on a.oid = c.opcmethod and a.amname in ('btree', 'hash')
     join pg_operator op on op.oid = o.amopopr
     join pg_proc p on p.oid = op.oprcode
     where t.typnamespace = 'pg_catalog'::regnamespace
     group by t.typname`,
    )
    const marked = new Map(rows.map(({ name, unsafe }) => [name, unsafe]))
    for (const name of BUILT_IN) {
      if (UNMARKED.test(name)) continue
      t.equal(marked.get(name), null, name)
    }
  },
)
