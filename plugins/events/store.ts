import type { Data, Transaction } from 'rowhouse'

const TABLE = 'svc_catalog.svc_event'

/** An event that this server delivers, until its lease ends. */
export interface Claimed {
  readonly id: string
  readonly trigger: string
  /** Null for one that was scheduled. */
  readonly schema: string | null
  readonly table: string | null
  readonly operation: string
  /** JSON texts, for one that was scheduled. */
  readonly target: string | null
  readonly variables: string | null
  readonly for_hours: number | null
  readonly claims: number
  readonly losses: number
  readonly attempts: number
  /** Seconds since it was due. */
  readonly age: number
  /** As JSON text, if it is small. */
  readonly event: string | null
}

/** The triggers that have room for more events. */
export interface Slots {
  readonly trigger: string
  readonly isOrdered: boolean
  readonly free: number
}

/** The result of an attempt. */
export type Result =
  | { readonly state: 'done'; readonly detail: string | null }
  | { readonly state: 'failed'; readonly error: string; readonly code: string | null }
  /** @param retryIn seconds @param called whether it counts as an attempt */
  | {
      readonly state: 'queued'
      readonly error: string | null
      readonly code: string | null
      readonly retryIn: number
      readonly called: boolean
    }

/** Events up to this size come with their claim; others are read one by one, so that a claim is small. */
const INLINE_BYTES = 2000
/** How many waiting keys a claim passes over. */
const MOST_KEYS = 5000

/** An event as JSON, as targets get it. */
const EVENT = `pg_catalog.json_build_object('id', e.id::text, 'trigger', e.trigger_name, 'table',
  case when e.table_schema = 'public' then pg_catalog.to_json(e.table_name) when e.table_schema is not null
    then pg_catalog.json_build_object('schema', e.table_schema, 'name', e.table_name) end,
  'op', e.operation, 'key', e.key, 'old', e.old, 'new', e.new,
  'session', pg_catalog.json_build_object('role', e.role, 'user_id', e.user_id, 'request_id', e.request_id), 'at', e.at)::text`
const SIZE = 'coalesce(pg_catalog.pg_column_size(e.old), 0) + coalesce(pg_catalog.pg_column_size(e.new), 0)'

/** Takes what a CTE `due` names. $1 are the seconds of the lease. */
const TAKEN = `update ${TABLE} e set claims = e.claims + 1, losses = e.losses + 1,
    next_at = pg_catalog.now() + pg_catalog.make_interval(secs => $1) from due where e.id = due.id
  returning e.id::text, e.trigger_name as trigger, e.table_schema as schema, e.table_name as table, e.operation,
    e.target::text, e.variables::text, e.for_hours, e.claims, e.losses - 1 as losses,
    e.attempts, extract(epoch from pg_catalog.now() - e.due_at)::float8 as age, case when ${SIZE} <= ${INLINE_BYTES} then ${EVENT} end as event`

const TRIGGERS = `(select name, free from rows from (pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::int4[])) as t(name, free)
  where not exists (select from svc_catalog.svc_event_stop where trigger_name = name)) t`

/** $2 and $3: triggers, and how many events of each; $4: of all. The index svc_event_due serves it. */
const CLAIM = `with due as (
    select each.id from ${TRIGGERS} cross join lateral (
      select id from ${TABLE} where trigger_name = t.name and state = 'queued' and order_key is null and target is null and next_at <= pg_catalog.now()
      order by next_at limit t.free for update skip locked) each limit $4)
  ${TAKEN}`

const CLAIM_SCHEDULED = `with due as (
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
const CLAIM_ORDERED = `with first as (
    select each.id from ${TRIGGERS} cross join lateral (
      select id from ((${HEADS('$5::int8')}) union all (${HEADS(LEAST, 'order_key < $5::int8')})) heads limit t.free) each limit $4),
  due as (select id from ${TABLE} where id in (select id from first) and state = 'queued' and next_at <= pg_catalog.now()
    for update skip locked)
  ${TAKEN}`

const OWNED = `id = $1 and claims = $2 and state = 'queued'`

/** Triggers that have events which have not ended, by jumps through both indexes. */
const WAITING = (ordered: string) => `with recursive t(name) as (
    (select trigger_name from ${TABLE} where state = 'queued' and target is null and order_key is ${ordered} order by trigger_name limit 1)
    union all
    select (select trigger_name from ${TABLE} where state = 'queued' and target is null and order_key is ${ordered} and trigger_name > t.name
      order by trigger_name limit 1) from t where t.name is not null
  ) select name from t where name is not null`

export interface Listed {
  readonly state?: string | undefined
  readonly trigger?: string | undefined
  readonly limit: number
  /** `id` of an event; returns those before it. */
  readonly before?: string | undefined
}

const time = (column: string) => `pg_catalog.to_json(${column}) #>> '{}' as ${column}`
const RECORD = `id::text, trigger_name as trigger, table_schema, table_name, operation, key, state, ${time('at')}, ${time('next_at')},
  attempts, error, error_code, detail, ${time('ended_at')}, role, user_id, request_id, login`
/** An event as `events` lists it. */
interface EventRecord {
  readonly id: string
  readonly [column: string]: unknown
}

/** Stores, claims and ends the events in the database. */
export class Store {
  constructor(
    private readonly data: Data,
    private readonly options: { readonly leaseSeconds: number; readonly maxEventBytes: number },
  ) {}

  /** Claims up to `limit` events that are due: no other server gets them until the lease ends. */
  async claim(slots: readonly Slots[], limit: number, isScheduled: boolean): Promise<readonly Claimed[]> {
    const { leaseSeconds } = this.options
    const claimed = isScheduled ? [...(await this.data.query<Claimed>(CLAIM_SCHEDULED, [leaseSeconds, limit]))] : []
    for (const isOrdered of [false, true]) {
      const those = slots.filter((each) => each.isOrdered === isOrdered)
      const left = limit - claimed.length
      if (those.length === 0 || left <= 0) continue
      const values = [leaseSeconds, those.map(({ trigger }) => trigger), those.map(({ free }) => free), left]
      const start = BigInt.asIntN(64, BigInt(Math.floor(Math.random() * 2 ** 52)) << 12n).toString()
      claimed.push(
        ...(isOrdered
          ? await this.data.query<Claimed>(CLAIM_ORDERED, [...values, start])
          : await this.data.query<Claimed>(CLAIM, values)),
      )
    }
    return claimed
  }

  /**
   * Reads a claimed event as JSON text.
   * @param transaction locks it, too: then no other server can take it before the transaction ends
   * @returns undefined when another server has claimed it since; null when it is too large
   */
  async load({ id, claims }: Claimed, transaction?: Transaction): Promise<string | null | undefined> {
    const text = `case when ${SIZE} <= $3 and pg_catalog.octet_length(${EVENT}) <= $3 then ${EVENT} end`
    const [found] = await this.data.query<{ event: string | null }>(
      `select ${text} as event from ${TABLE} e where ${OWNED}${transaction ? ' for update' : ''}`,
      [id, claims, this.options.maxEventBytes],
      transaction,
    )
    return found && found.event
  }

  /** Stores a result. @returns false when another server has claimed the event since */
  async end({ id, claims }: Claimed, result: Result, transaction?: Transaction): Promise<boolean> {
    const values = [id, claims]
    const change =
      result.state === 'queued'
        ? {
            text: `next_at = pg_catalog.now() + pg_catalog.make_interval(secs => $3), error = coalesce($4, error), error_code = coalesce($5, error_code),
              attempts = attempts + $6::bool::int, losses = 0`,
            values: [...values, result.retryIn, result.error, result.code, result.called],
          }
        : result.state === 'done'
          ? {
              text: `state = 'done', ended_at = pg_catalog.now(), attempts = attempts + 1, losses = 0, error = null, error_code = null, detail = $3`,
              values: [...values, result.detail],
            }
          : {
              text: `state = 'failed', ended_at = pg_catalog.now(), attempts = attempts + 1, losses = 0, error = $3, error_code = $4`,
              values: [...values, result.error, result.code],
            }
    const rows = await this.data.query(
      `update ${TABLE} set ${change.text} where ${OWNED} returning 1`,
      change.values,
      transaction,
    )
    return rows.length > 0
  }

  /** Lists events without their rows, the latest first. */
  async list({ state, trigger, limit, before }: Listed, transaction?: Transaction): Promise<readonly EventRecord[]> {
    return this.data.query<EventRecord>(
      `select ${RECORD} from ${TABLE} where ($1::text is null or state = $1) and ($2::text is null or trigger_name = $2)
         and ($3::bigint is null or id < $3::bigint) order by id desc limit $4`,
      [state ?? null, trigger ?? null, before ?? null, limit],
      transaction,
    )
  }

  /** Queues an event again that has failed, or was done. @returns false if there is none */
  async retry(id: string, transaction?: Transaction): Promise<boolean> {
    const rows = await this.data.query(
      `update ${TABLE} set state = 'queued', due_at = pg_catalog.now(), next_at = pg_catalog.now(), claims = claims + 1, losses = 0,
         attempts = 0, ended_at = null where id = $1 returning 1`,
      [id],
      transaction,
    )
    return rows.length > 0
  }

  /** Keeps the events of a trigger until it is resumed. */
  async stop(trigger: string, reason: string): Promise<void> {
    await this.data.query(
      `insert into svc_catalog.svc_event_stop (trigger_name, reason) values ($1, $2) on conflict do nothing`,
      [trigger, reason],
    )
  }

  /** @returns false if it was not stopped */
  async resume(trigger: string, transaction?: Transaction): Promise<boolean> {
    const rows = await this.data.query(
      `delete from svc_catalog.svc_event_stop where trigger_name = $1 returning 1`,
      [trigger],
      transaction,
    )
    return rows.length > 0
  }

  async stopped(): Promise<readonly string[]> {
    const rows = await this.data.query<{ name: string }>(
      `select trigger_name as name from svc_catalog.svc_event_stop order by 1 limit 100`,
    )
    return rows.map(({ name }) => name)
  }

  /** Returns the names of triggers that have queued events. */
  async waiting(): Promise<readonly string[]> {
    const rows = await this.data.query<{ name: string }>(`(${WAITING('null')}) union (${WAITING('not null')})`)
    return rows.map(({ name }) => name)
  }

  /** Gives up to 1,000 queued events of a trigger up. @returns whether there may be more */
  async giveUp(trigger: string, error: string): Promise<boolean> {
    const ended = await this.data.query(
      `update ${TABLE} set state = 'failed', ended_at = pg_catalog.now(), error = $2, error_code = 'not-exists', claims = claims + 1
       where id in (select id from ${TABLE} where trigger_name = $1 and state = 'queued' and target is null limit 1000 for update skip locked) returning 1`,
      [trigger, error],
    )
    return ended.length === 1000
  }

  /** Deletes up to 1,000 old events. @returns whether there may be more */
  async prune(state: 'done' | 'failed', keepDays: number): Promise<boolean> {
    const deleted = await this.data.query(
      `delete from ${TABLE} where id in (select id from ${TABLE} where state = $1
         and ended_at < pg_catalog.now() - pg_catalog.make_interval(days => $2) order by ended_at limit 1000) returning 1`,
      [state, keepDays],
    )
    return deleted.length === 1000
  }
}
