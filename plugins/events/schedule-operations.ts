import { type Call, type Data, type Host, isAdmin, jsonAnswer, serviceError, USER_ID } from 'rowhouse'
import { at, isObject, type Json, notExists, parseFailed, stringifyJson, unexpectedPayload } from 'rowhouse/plan'
import { readCron } from './cron.js'
import { readName, readRetry, readTarget, refuseUnknown, type Target, type Targets } from './definition.js'

const anything = {} as const
const text = { type: 'string' } as const
const MOST_SCHEDULES = 1000
/** Maximum number of events that a caller other than an admin has scheduled at the same time. */
const MOST_OF_CALLER = 1000
/** How far ahead. */
const MOST_YEARS = 10

interface Parts {
  readonly data: Data
  /** Roles other than admin that may schedule templates of their own. */
  readonly roles: readonly string[]
  readonly targetsFor: (call: Call) => Targets
}

/** Adds the operations of the JSON query API on schedules. */
export function addScheduleOperations(host: Host, { data, roles, targetsFor }: Parts): void {
  host.operation('create_schedule', {
    admin: true,
    undoable: true,
    args: {
      type: 'object',
      properties: {
        name: text,
        cron: text,
        time_zone: { type: 'string', default: 'UTC' },
        to: anything,
        catch_up: { type: 'boolean', default: false },
        retry: anything,
      },
      required: ['name', 'cron', 'to'],
    },
    async run({ name, cron, time_zone: zone, to, catch_up: catchesUp, retry }, call) {
      readName(name, '$.args.name')
      const next = readCron(cron, zone).next(new Date())
      if (!next) throw unexpectedPayload('this never occurs', '$.args.cron')
      const target = readTarget(to as Json, '$.args.to')
      refuseUnknown(target, targetsFor(call), '$.args.to')
      const { for_hours: hours = null } = readRetry(retry as Json | undefined, '$.args.retry')
      const [found] = await data.query<{ made: string; all: number }>(
        `with made as (insert into svc_catalog.svc_schedule (name, cron, time_zone, target, catch_up, for_hours, next_at)
           select $1, $2, $3, $4::jsonb, $5, $6, $7::timestamptz where (select count(*) from svc_catalog.svc_schedule) < ${MOST_SCHEDULES}
           on conflict do nothing returning 1)
         select (select count(*) from made)::int as made, (select count(*) from svc_catalog.svc_schedule)::int as all`,
        [name, cron, zone, stringifyJson(to as Json), catchesUp, hours, next.toISOString()],
        call.transaction,
      )
      if (!found!.made) {
        if (found!.all >= MOST_SCHEDULES)
          throw serviceError('not-supported', `there are ${MOST_SCHEDULES} schedules already`, '$.args')
        throw serviceError('already-exists', `schedule "${name}" already exists`, '$.args.name')
      }
      return jsonAnswer({ name, next_at: next.toISOString() })
    },
  })

  host.operation('drop_schedule', {
    admin: true,
    undoable: true,
    args: { type: 'object', properties: { name: text }, required: ['name'] },
    async run({ name }, call) {
      const dropped = await data.query(
        `delete from svc_catalog.svc_schedule where name = $1 returning 1`,
        [name],
        call.transaction,
      )
      if (dropped.length === 0) throw notExists(`schedule "${name}" does not exist`, '$.args.name')
      return jsonAnswer({ message: 'success' })
    },
  })

  host.operation('schedules', {
    admin: true,
    undoable: true,
    args: { type: 'object', properties: {} },
    async run(_args, call) {
      const [found] = await data.query<{ list: string }>(
        `select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('name', name, 'cron', cron, 'time_zone', time_zone, 'to', target,
           'catch_up', catch_up, 'next_at', next_at) order by name), '[]')::text as list from svc_catalog.svc_schedule`,
        [],
        call.transaction,
      )
      return { kind: 'text', text: found!.list }
    },
  })

  host.operation('schedule_once', {
    undoable: true,
    templatable: { name: 'text', at: 'value', to: { template: { args: { '*': 'value' } } } },
    answer: { type: 'object', properties: { id: text }, required: ['id'] },
    async run(args, call) {
      const { name, when, target, hours } = readOnce(args)
      const isOwn = !isAdmin(call.session)
      if (isOwn) refuseOthers(target, call, roles)
      refuseUnknown(target, targetsFor(call), '$.args.to')
      const { role, variables } = call.session
      // Somebody else's template has somebody else's rights: so those of a role are the caller's own, as they are now.
      const own = isOwn ? JSON.stringify(Object.fromEntries(variables)) : null
      const [made] = await data.query<{ id: string }>(
        `insert into svc_catalog.svc_event (trigger_name, operation, target, variables, for_hours, at, due_at, next_at, role, user_id, request_id)
         select $1, 'once', $2::jsonb, $3::jsonb, $4, $5::timestamptz, $5::timestamptz, $5::timestamptz, $6, $7, $8
         where $3::jsonb is null or (select count(*) from (select from svc_catalog.svc_event where operation = 'once' and state = 'queued'
           and role = $6 and variables = $3::jsonb limit ${MOST_OF_CALLER}) own) < ${MOST_OF_CALLER} returning id::text`,
        [
          name,
          stringifyJson(target as unknown as Json),
          own,
          hours,
          when,
          role,
          variables.get(USER_ID) ?? null,
          call.requestId ?? null,
        ],
        call.transaction,
      )
      if (!made) throw serviceError('not-supported', `you have scheduled ${MOST_OF_CALLER} events already`, '$.args')
      return jsonAnswer({ id: made.id })
    },
  })

  host.operation('cancel_schedule', {
    undoable: true,
    templatable: { name: 'text' },
    answer: { type: 'object', properties: { cancelled: { type: 'integer' } }, required: ['cancelled'] },
    async run(args, call) {
      const name = isObject(args) ? args['name'] : undefined
      if (typeof name !== 'string') throw parseFailed('expecting the name of what was scheduled', '$.args.name')
      const { role, variables } = call.session
      const own = isAdmin(call.session) ? null : JSON.stringify(Object.fromEntries(variables))
      const gone = await data.query(
        `delete from svc_catalog.svc_event where operation = 'once' and state = 'queued' and trigger_name = $1
           and ($2::jsonb is null or (role = $3 and variables = $2::jsonb)) returning 1`,
        [name, own, role],
        call.transaction,
      )
      return jsonAnswer({ cancelled: gone.length })
    },
  })
}

/** Reads `{name, at, to, retry?}`. @throws ServiceError 400 */
function readOnce(args: Json) {
  if (!isObject(args)) throw parseFailed('expecting an object', '$.args')
  for (const key of Object.keys(args)) {
    if (!['name', 'at', 'to', 'retry'].includes(key))
      throw unexpectedPayload(`unexpected key '${key}'`, at('$.args', key))
  }
  const { at: given } = args
  const time = typeof given === 'string' && ISO.test(given) ? Date.parse(given) : NaN
  if (Number.isNaN(time)) {
    throw parseFailed('expecting a time with its zone, such as "2026-12-01T09:00:00Z"', '$.args.at')
  }
  if (time > Date.now() + MOST_YEARS * 366 * 86_400_000) {
    throw unexpectedPayload(`at most ${MOST_YEARS} years ahead`, '$.args.at')
  }
  return {
    name: readName(args['name'], '$.args.name'),
    when: new Date(time).toISOString(),
    target: readTarget(args['to'], '$.args.to', false),
    hours: readRetry(args['retry'], '$.args.retry').for_hours ?? null,
  }
}
const ISO = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d)?)$/

/** Refuses what a role other than admin may not schedule. */
function refuseOthers(target: Target, { session }: Call, roles: readonly string[]): void {
  if (!roles.includes(session.role)) {
    throw serviceError('access-denied', 'only the role admin may do this, and those in plugins.events.scheduleRoles')
  }
  if (!('template' in target) || target.template.role !== session.role) {
    throw serviceError('access-denied', `role "${session.role}" may schedule templates as this role only`, '$.args.to')
  }
}
