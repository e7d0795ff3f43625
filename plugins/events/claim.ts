export const TABLE = 'svc_catalog.svc_event'

/** Events up to this size come with their claim; others are read one by one, so that a claim is small. */
const INLINE_BYTES = 2000
/** How many waiting keys a claim passes over. */
const MOST_KEYS = 5000

/** An event as JSON, as targets get it. */
export const EVENT = `pg_catalog.json_build_object('id', e.id::text, 'trigger', e.trigger_name, 'table',
  case when e.table_schema = 'public' then pg_catalog.to_json(e.table_name) when e.table_schema is not null
    then pg_catalog.json_build_object('schema', e.table_schema, 'name', e.table_name) end,
  'op', e.operation, 'key', e.key, 'old', e.old, 'new', e.new,
  'session', pg_catalog.json_build_object('role', e.role, 'user_id', e.user_id, 'request_id', e.request_id), 'at', e.at)::text`
export const SIZE = 'coalesce(pg_catalog.pg_column_size(e.old), 0) + coalesce(pg_catalog.pg_column_size(e.new), 0)'

/** Takes what a CTE `due` names. $1 are the seconds of the lease. */
const TAKEN = `update ${TABLE} e set claims = e.claims + 1, losses = e.losses + 1,
    next_at = pg_catalog.now() + pg_catalog.make_interval(secs => $1) from due where e.id = due.id
  returning e.id::text, e.trigger_name as trigger, e.table_schema as schema, e.table_name as table, e.operation,
    e.target::text, e.variables::text, e.for_hours, e.claims, e.losses - 1 as losses,
    e.attempts, extract(epoch from pg_catalog.now() - e.due_at)::float8 as age, case when ${SIZE} <= ${INLINE_BYTES} then ${EVENT} end as event`

const TRIGGERS = `(select name, free from rows from (pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::int4[])) as t(name, free)
  where not exists (select from svc_catalog.svc_event_stop where trigger_name = name)) t`

/** $2 and $3: triggers, and how many events of each; $4: of all. The index svc_event_due serves it. */
export const CLAIM = `with due as (
    select each.id from ${TRIGGERS} cross join lateral (
      select id from ${TABLE} where trigger_name = t.name and state = 'queued' and order_key is null and target is null and next_at <= pg_catalog.now()
      order by next_at limit t.free for update skip locked) each limit $4)
  ${TAKEN}`

export const CLAIM_SCHEDULED = `with due as (
    select id from ${TABLE} where state = 'queued' and target is not null and next_at <= pg_catalog.now()
    order by next_at limit $2 for update skip locked)
  ${TAKEN}`

/**
 * Of each key, only the first event that has not ended. $5 is the key to begin with, so that none has to wait for those before
 * it. The index svc_event_order serves it.
 */
const HEADS = (from: string, before = 'true') => `with recursive head as (
      (select order_key, id, next_at, 1 as n from ${TABLE} where trigger_name = t.name and state = 'queued'
       and order_key >= ${from} and ${before} order by order_key, id limit 1)
      union all
      select more.order_key, more.id, more.next_at, head.n + 1 from head cross join lateral (
        select order_key, id, next_at from ${TABLE} where trigger_name = t.name and state = 'queued'
        and order_key > head.order_key and ${before} order by order_key, id limit 1) more where head.n < ${MOST_KEYS}
    ) select id from head where next_at <= pg_catalog.now() limit t.free`
const LEAST = `'-9223372036854775808'::int8`
export const CLAIM_ORDERED = `with first as (
    select each.id from ${TRIGGERS} cross join lateral (
      select id from ((${HEADS('$5::int8')}) union all (${HEADS(LEAST, 'order_key < $5::int8')})) heads limit t.free) each limit $4),
  due as (select id from ${TABLE} where id in (select id from first) and state = 'queued' and next_at <= pg_catalog.now()
    for update skip locked)
  ${TAKEN}`

/** Triggers that have events which have not ended, by jumps through both indexes. */
export const WAITING = (ordered: string) => `with recursive t(name) as (
    (select trigger_name from ${TABLE} where state = 'queued' and target is null and order_key is ${ordered} order by trigger_name limit 1)
    union all
    select (select trigger_name from ${TABLE} where state = 'queued' and target is null and order_key is ${ordered} and trigger_name > t.name
      order by trigger_name limit 1) from t where t.name is not null
  ) select name from t where name is not null`
