import type { Test } from 'tap'
import { area, type Case, like, query, refused, takeAll } from '../kit/promises.js'
import { type As, type TestServer, testServer } from '../kit/server.js'
import { until } from '../kit/until.js'

/** What schedules promise. */
const PROMISES = {
  'cron.due': 'a schedule that is due makes one event, runs its target, and moves to its next time',
  'cron.missed': 'after a pause, the last occurrence that was missed makes an event, or with catch_up all of them',
  'cron.zone': 'a schedule follows the clock of its time zone',
  'cron.servers': 'two servers make one event of each occurrence',
  'cron.dropped': 'a schedule that was dropped makes no more events, and those that it made are delivered',
  'cron.refused': 'wrong expressions, time zones and targets are refused with their path',
  'once.due': 'what is scheduled once happens when it is due, and not before',
  'once.bulk': 'it exists if and only if the transaction does',
  'once.own': 'a role schedules its own templates with its own variables, if it may schedule',
  'once.template': 'it can be a step of a template, with parameters',
  'once.values': 'values in its arguments are no references',
  'once.cancelled': 'a caller cancels what it has scheduled itself, and an admin anything',
  'once.refused': 'wrong times, names and targets are refused with their path',
  'role.denied': 'only admins make and see schedules',
} as const

const SQL = `create table log (id int generated always as identity primary key, what text, data jsonb, owner text,
  role text default current_setting('service.role', true));
create table task (id int primary key, owner text);`

const ANA: As = { role: 'user', variables: { 'x-service-user-id': 'ana' } }
const BEN: As = { role: 'user', variables: { 'x-service-user-id': 'ben' } }
const GUEST: As = { role: 'guest' }
const PAST = '2020-01-01T00:00:00Z'
const LOG = (what: string, role = 'robot') => ({ template: { name: 'log', role, args: { what } } })

const logged = async (
  server: TestServer,
  what: string,
): Promise<{ owner: string | null; data: unknown; role: string }[]> => {
  const { result } = await server.sql(
    `select coalesce(jsonb_agg(to_jsonb(l) order by id), '[]') from log l where what = '${what}'`,
  )
  return JSON.parse(result[1]![0]!) as { owner: string | null; data: unknown; role: string }[]
}
const has = (server: TestServer, what: string, count = 1) =>
  until(`${what} is logged`, async () => (await logged(server, what)).length >= count)
/** Moves a schedule to the past. */
const move = (server: TestServer, name: string, next: string) =>
  server.sql(`update svc_catalog.svc_schedule set next_at = ${next} where name = '${name}'`)
const nextOf = async (server: TestServer, name: string) =>
  Date.parse(
    ((await server.must('schedules', {})) as { name: string; next_at: string }[]).find((each) => each.name === name)!
      .next_at,
  )

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'cron.due': async (t, server) => {
    const to = {
      template: { name: 'log', role: 'robot', args: { what: { $event: 'trigger' }, data: { $event: 'at' } } },
    }
    const made = (await server.must('create_schedule', { name: 'nightly', cron: '15 3 * * *', to })) as {
      next_at: string
    }
    t.match(made.next_at, /T03:15:00/)
    await move(server, 'nightly', `now() - interval '1 second'`)
    await has(server, 'nightly')
    t.equal((await logged(server, 'nightly')).length, 1)
    t.equal(await nextOf(server, 'nightly'), Date.parse(made.next_at))
    t.match(await server.must('events', { trigger: 'nightly' }), [
      { operation: 'schedule', state: 'done', table_name: null, role: null, attempts: 1 },
    ])
  },
  'cron.missed': async (t, server) => {
    for (const catches of [false, true]) {
      const name = `missed-${catches}`
      await server.must('create_schedule', { name, cron: '0 * * * *', to: LOG(name), catch_up: catches })
      await move(server, name, `date_trunc('hour', now()) - interval '5 hours'`)
      await has(server, name, catches ? 6 : 1)
      t.equal((await logged(server, name)).length, catches ? 6 : 1)
      const { result } = await server.sql(
        `select bool_and(at <= now() and at = date_trunc('hour', at)), max(at) > now() - interval '1 hour 1 minute', count(distinct at)
         from svc_catalog.svc_event where trigger_name = '${name}'`,
      )
      t.same(result[1], ['t', 't', catches ? '6' : '1'])
      t.ok((await nextOf(server, name)) > Date.now())
    }
  },
  'cron.zone': async (t, server) => {
    for (const zone of ['Europe/Berlin', 'America/St_Johns', 'Pacific/Auckland']) {
      await server.must('create_schedule', {
        name: `in-${zone.slice(-5)}`,
        cron: '15 3 * * *',
        time_zone: zone,
        to: LOG('zone'),
      })
      const next = new Date(await nextOf(server, `in-${zone.slice(-5)}`))
      const local = next.toLocaleTimeString('en-GB', { timeZone: zone, hour: '2-digit', minute: '2-digit' })
      t.equal(local, '03:15', zone)
      t.ok(next.getTime() - Date.now() <= 25 * 3_600_000, zone)
    }
  },
  'cron.servers': async (t, server) => {
    const other = await testServer(t, { databaseUrl: server.databaseUrl, ...OPTIONS })
    await server.must('create_schedule', { name: 'shared', cron: '0 0 * * *', to: LOG('shared'), catch_up: true })
    await move(server, 'shared', `date_trunc('day', now()) - interval '40 days'`)
    await has(server, 'shared', 41)
    await until('it has moved', async () => (await nextOf(server, 'shared')) > Date.now())
    t.equal((await logged(server, 'shared')).length, 41)
    await other.close()
  },
  'cron.dropped': async (t, server) => {
    await server.must('create_schedule', { name: 'dropped', cron: '0 0 * * *', to: LOG('dropped') })
    await server.must('drop_schedule', { name: 'dropped' })
    t.match(await server.query('drop_schedule', { name: 'dropped' }), {
      status: 400,
      body: { code: 'not-exists', path: '$.args.name' },
    })
    const names = ((await server.must('schedules', {})) as { name: string }[]).map(({ name }) => name)
    t.ok(names.includes('nightly') && !names.includes('dropped'))
  },
  'cron.refused': (
    [
      [{ name: 'nightly' }, 'already-exists', '$.args.name', /nightly/],
      [{ name: 'a b' }, 'parse-failed', '$.args.name', /name/],
      [{ cron: '* * * *' }, 'parse-failed', '$.args.cron', /five fields/],
      [{ cron: '* * * * * *' }, 'parse-failed', '$.args.cron', /five fields/],
      [{ cron: '2026-12-01T00:00:00' }, 'parse-failed', '$.args.cron', /five fields/],
      [{ cron: '61 * * * *' }, 'parse-failed', '$.args.cron', /minute/],
      [{ cron: '0 0 30 2 *' }, 'unexpected-payload', '$.args.cron', /never/],
      [{ time_zone: 'Europe/Nowhere' }, 'unexpected-payload', '$.args.time_zone', /Nowhere/],
      [{ to: { template: { name: 'nothing', role: 'robot' } } }, 'not-exists', '$.args.to.template.name', /nothing/],
      [{ to: { provider: 'nothing' } }, 'not-exists', '$.args.to.provider', /nothing/],
      [
        { to: { template: { name: 'log', role: 'robot', args: { what: { $event: 'now' } } } } },
        'parse-failed',
        '$.args.to.template.args.what.$event',
        /part of an event/,
      ],
      [{ retry: { hours: 1 } }, 'unexpected-payload', '$.args.retry.hours', /hours/],
      [{ catch_up: 1 }, 'parse-failed', '$.args.catch_up', /./],
    ] as const
  ).map(([args, code, path, error]) =>
    query(
      'create_schedule',
      { name: 'wrong', cron: '0 0 * * *', to: LOG('wrong'), ...args },
      refused(code, error, path),
    ),
  ),
  'once.due': async (t, server) => {
    await server.must('schedule_once', { name: 'later', at: '2035-01-01T00:00:00+02:00', to: LOG('later') })
    await server.must('schedule_once', { name: 'now', at: PAST, to: LOG('now') })
    await has(server, 'now')
    t.match(await server.must('events', { trigger: 'now' }), [{ operation: 'once', state: 'done', role: 'admin' }])
    t.match(await server.must('events', { trigger: 'later' }), [
      { state: 'queued', attempts: 0, at: '2034-12-31T22:00:00+00:00', next_at: '2034-12-31T22:00:00+00:00' },
    ])
    await server.sql(`update svc_catalog.svc_event set next_at = now() where trigger_name = 'later'`)
    await has(server, 'later')
  },
  'once.bulk': async (t, server) => {
    const step = { type: 'schedule_once', args: { name: 'bulk', at: PAST, to: LOG('bulk') } }
    const task = (id: number) => ({ type: 'insert', args: { table: 'task', objects: [{ id }] } })
    t.match(await server.query('bulk', [task(1), step, task(1)]), { status: 400 })
    t.match(await server.raw(JSON.stringify({ type: 'bulk', args: [task(2), step] }), {}, { prefer: 'tx=rollback' }), {
      status: 200,
    })
    t.same(await server.must('events', { trigger: 'bulk' }), [])
    await server.must('bulk', [task(3), step])
    await has(server, 'bulk')
    t.equal((await logged(server, 'bulk')).length, 1)
  },
  'once.own': async (t, server) => {
    const args = (role: string) => ({
      name: 'own',
      at: PAST,
      to: { template: { name: 'own', role, args: { what: 'own' } } },
    })
    await takeAll(t, server, [
      query('schedule_once', args('user'), like({ id: /^\d+$/ }), ANA),
      query('schedule_once', args('robot'), refused('access-denied', /as this role only/, '$.args.to'), ANA),
      query('schedule_once', args('guest'), refused('access-denied', /scheduleRoles/), GUEST),
      query(
        'schedule_once',
        { ...args('user'), to: { plugin: 'x' } },
        refused('access-denied', /as this role only/, '$.args.to'),
        ANA,
      ),
    ])
    await has(server, 'own')
    t.match(await logged(server, 'own'), [{ owner: 'ana', role: 'user' }])
    t.match(await server.must('events', { trigger: 'own' }), [{ role: 'user', user_id: 'ana' }])
  },
  'once.template': async (t, server) => {
    const answer = await server.query(
      'execute_query_template',
      { name: 'take', args: { id: 7, at: PAST, note: 'é' } },
      ANA,
    )
    t.match(answer, { status: 200, body: [{ affected_rows: 1 }, { id: /^\d+$/ }] })
    await has(server, 'taken')
    t.match(await logged(server, 'taken'), [{ owner: 'ana', data: 'é' }])
    t.match(
      await server.query('execute_query_template', { name: 'take', args: { id: 8, at: 'soon', note: 'x' } }, ANA),
      {
        status: 400,
        body: { path: '$.args.args.at' },
      },
    )
    t.same((await server.must('select', { table: 'task', columns: ['id'], where: { id: 8 } })) as [], [])
  },
  'once.values': async (t, server) => {
    const data = { $event: 'id' }
    await server.must('schedule_once', {
      name: 'v',
      at: PAST,
      to: { template: { name: 'log', role: 'robot', args: { what: 'v', data } } },
    })
    await has(server, 'v')
    t.match(await logged(server, 'v'), [{ data }])
  },
  'once.cancelled': async (t, server) => {
    const args = {
      name: 'mine',
      at: '2035-01-01T00:00:00Z',
      to: { template: { name: 'own', role: 'user', args: { what: 'x' } } },
    }
    const cancel = async (as?: As) => (await server.query('cancel_schedule', { name: 'mine' }, as)).body as unknown
    for (const as of [ANA, ANA, BEN]) t.match(await server.query('schedule_once', args, as), { status: 200 })
    t.same(await cancel(GUEST), { cancelled: 0 })
    t.same(await cancel(ANA), { cancelled: 2 })
    t.same(await cancel(ANA), { cancelled: 0 })
    t.same(await cancel(), { cancelled: 1 })
    t.same(await server.must('events', { trigger: 'mine' }), [])
  },
  'once.refused': (
    [
      [{ at: 'tomorrow' }, 'parse-failed', '$.args.at'],
      [{ at: '2026-12-01T09:00:00' }, 'parse-failed', '$.args.at'],
      [{ at: '2026-13-01T09:00:00Z' }, 'parse-failed', '$.args.at'],
      [{ at: '2099-01-01T00:00:00Z' }, 'unexpected-payload', '$.args.at'],
      [{ at: 5 }, 'parse-failed', '$.args.at'],
      [{ name: '' }, 'parse-failed', '$.args.name'],
      [{ to: null }, 'parse-failed', '$.args.to'],
      [{ to: { template: { name: 'nothing', role: 'robot' } } }, 'not-exists', '$.args.to.template.name'],
      [{ more: 1 }, 'unexpected-payload', '$.args.more'],
    ] as const
  ).map(([args, code, path]) =>
    query('schedule_once', { name: 'wrong', at: PAST, to: LOG('wrong'), ...args }, refused(code, /./, path)),
  ),
  'role.denied': [
    query(
      'create_schedule',
      { name: 'x', cron: '0 0 * * *', to: LOG('x', 'user') },
      refused('access-denied', /./),
      ANA,
    ),
    query('drop_schedule', { name: 'nightly' }, refused('access-denied', /./), ANA),
    query('schedules', {}, refused('access-denied', /./), ANA),
  ],
}

/** Its promises, with a case for each. */
export const schedules = area('schedules', { promises: PROMISES, cases: CASES, start })

const OPTIONS = {
  builtins: { events: new URL('../../plugins/events/index.js', import.meta.url) },
  config: { plugins: { events: { pollMs: 50, scheduleRoles: ['user'] } } },
}

async function start(t: Test) {
  const server = await testServer(t, OPTIONS)
  await server.sql(SQL)
  const param = (name: string) => ({ param: name, default: null })
  const log = (columns: object) => ({ type: 'insert', args: { table: 'log', objects: [columns] } })
  const own = { columns: ['what', 'data'], set: { owner: 'X-Service-User-Id' }, check: {} }
  await server.must('bulk', [
    { type: 'track_table', args: 'log' },
    { type: 'track_table', args: 'task' },
    {
      type: 'create_insert_permission',
      args: { table: 'log', role: 'robot', permission: { columns: ['what', 'data'], check: {} } },
    },
    { type: 'create_insert_permission', args: { table: 'log', role: 'user', permission: own } },
    {
      type: 'create_insert_permission',
      args: { table: 'task', role: 'user', permission: { columns: ['id'], check: {} } },
    },
    {
      type: 'create_query_template',
      args: { name: 'log', template: log({ what: param('what'), data: param('data') }) },
    },
    {
      type: 'create_query_template',
      args: { name: 'own', template: log({ what: param('what'), data: param('data') }) },
    },
    {
      type: 'create_query_template',
      args: {
        name: 'take',
        template: {
          type: 'bulk',
          args: [
            { type: 'insert', args: { table: 'task', objects: [{ id: { param: 'id' } }] } },
            {
              type: 'schedule_once',
              args: {
                name: 'taken',
                at: { param: 'at' },
                to: {
                  template: {
                    name: 'own',
                    role: 'user',
                    args: { what: 'taken', data: { param: 'note' } },
                  },
                },
              },
            },
          ],
        },
      },
    },
  ])
  return server
}
