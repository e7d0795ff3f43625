import { type Call, type Data, INTERNAL, type Services, type Transaction } from 'rowhouse'
import { readCron } from './cron.js'

/** A schedule as it is stored. */
interface Due {
  readonly name: string
  readonly cron: string
  readonly time_zone: string
  readonly catch_up: boolean
  /** Milliseconds since 1970. */
  readonly next: number
  readonly now: number
}

/** How many schedules, and occurrences of one, become events in one transaction. */
const BATCH = 100

const DUE = `select name, cron, time_zone, catch_up, extract(epoch from next_at)::float8 * 1000 as next,
    extract(epoch from pg_catalog.now())::float8 * 1000 as now
  from svc_catalog.svc_schedule where next_at <= pg_catalog.now() order by next_at limit ${BATCH} for update skip locked`

/** $2 are the times of the occurrences. */
const MAKE = `insert into svc_catalog.svc_event (trigger_name, operation, target, for_hours, at, role, user_id, request_id)
  select s.name, 'schedule', s.target, s.for_hours, t.at, null, null, null
  from svc_catalog.svc_schedule s cross join pg_catalog.unnest($2::timestamptz[]) t(at) where s.name = $1`

const STATE = `select exists (select from svc_catalog.svc_schedule where next_at <= pg_catalog.now()) as due,
  exists (select from svc_catalog.svc_event where state = 'queued' and target is not null) as active`

/** Makes events of schedules: each occurrence one, by the transaction that moves the schedule to the next. */
export class Schedules {
  /** Whether there may be events without a trigger. */
  isActive = true

  constructor(
    private readonly data: Data,
    private readonly log: Services['log'],
  ) {}

  /** Makes the events that are due. @returns whether there are any */
  async tick(signal: AbortSignal): Promise<boolean> {
    const [found] = await this.data.query<{ due: boolean; active: boolean }>(STATE)
    this.isActive = found!.active || found!.due
    if (!found!.due) return false
    const call: Call = { session: INTERNAL, signal, format: 'json' }
    for (let more = true; more && !signal.aborted;) {
      more = (await this.data.transaction(call, ({ transaction }) => this.makeDue(transaction))) > 0
    }
    return true
  }

  private async makeDue(transaction: Transaction): Promise<number> {
    const due = await this.data.query<Due>(DUE, [], transaction)
    for (const schedule of due) {
      const { times, next } = this.occurrences(schedule)
      await this.data.query(MAKE, [schedule.name, times], transaction)
      await this.data.query(
        `update svc_catalog.svc_schedule set next_at = coalesce($2::timestamptz, 'infinity') where name = $1`,
        [schedule.name, next ?? null],
        transaction,
      )
    }
    return due.length
  }

  /** Returns the occurrences that are due, and the next one. */
  private occurrences(schedule: Due): { times: readonly string[]; next: string | undefined } {
    const { name, cron, time_zone: zone, catch_up: catchesUp, next, now } = schedule
    const first = new Date(next)
    try {
      const { next: after, last } = readCron(cron, zone)
      if (!catchesUp) {
        // After a pause, only the last one that was missed.
        const latest = last(new Date(now + 1)) ?? first
        const time = latest < first ? first : latest
        return { times: [time.toISOString()], next: after(new Date(now))?.toISOString() }
      }
      const times = [first]
      let following = after(first)
      for (; following && following.getTime() <= now && times.length < BATCH; following = after(following)) {
        times.push(following)
      }
      return { times: times.map((time) => time.toISOString()), next: following?.toISOString() }
    } catch (error) {
      // A newer Node.js may not know a time zone any more.
      this.log.error({ err: error, schedule: name }, 'a schedule cannot be read and has ended')
      return { times: [], next: undefined }
    }
  }
}
