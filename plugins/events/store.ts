import type { Data, Transaction } from 'rowhouse'
import { CLAIM, CLAIM_ORDERED, CLAIM_SCHEDULED, EVENT, SIZE, TABLE, WAITING } from './claim.js'

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

const OWNED = `id = $1 and claims = $2 and state = 'queued'`

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
