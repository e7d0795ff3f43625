import type { Test } from 'tap'
import { createHmac } from 'node:crypto'
import { type Answer, faultyServer, type FaultyServer } from '../kit/fake-apis/faulty-server.js'
import { area, type Case, like, query, refused, type Step } from '../kit/promises.js'
import { type As, type TestServer, testServer } from '../kit/server.js'
import { until } from '../kit/until.js'

/** What row events promise. */
const PROMISES = {
  'made.writes': 'an insert, an update and a delete of the API are events with the rows and who made the change',
  'made.anybody': 'changes of SQL, of cascades, of partitions and of tables that inherit are events',
  'made.many': 'one statement on many rows makes an event of each, and a changed key is one update with both rows',
  'made.rolled-back': 'what is rolled back, or a dry run, makes no event',
  'made.digits': 'values keep their digits, in any time zone',
  'when.decides': 'a condition decides about the row as it is, or of a delete, as it was; unknown is no',
  'when.related': 'a condition may be about related rows',
  'when.values': 'values of conditions are constants of any type and any text',
  'when.columns': 'an update counts if one of the columns differs, of any type',
  'when.refused': 'session variables, unknown columns and values of the wrong type are refused with their path',
  'to.template': 'a template runs as its role with parts of the event',
  'to.once': 'a template and the end of its event commit together',
  'to.plugin': 'a plugin handles events under the name that it registered',
  'webhook.signed': 'a webhook gets the event as JSON, with the headers and signatures of Standard Webhooks',
  'webhook.again': 'a webhook that fails or redirects gets the same id again, and Retry-After is honoured',
  'webhook.gone': 'a receiver that answers 410 gets no more events until its trigger is resumed',
  'webhook.large': 'a receiver that finds an event too large does not get it again',
  'provider.unknown': 'a provider that is not configured is refused',
  'payload.row': 'the payload is read when the event is delivered, and null if the row is gone',
  'retry.later': 'an event that fails is delivered later, and says why meanwhile',
  'retry.over': 'after its time it has failed; retry_event delivers it again',
  'order.key': 'with order_by, an event waits for those before it with the same values, and not for others',
  'order.many': 'many events of one key do not delay those of others',
  'size.limit': 'an event that is too large fails, and the change does not',
  'servers.two': 'two servers deliver each event once',
  'role.denied': 'only admins make triggers and see events',
  'role.tracked': 'the table of events is tracked and permitted like any other',
  'ask.pages': 'events lists by state and trigger, the latest first, in pages',
  'set.refused': 'unknown tables, views, templates, payloads and names that are taken are refused',
  'set.metadata': 'triggers are part of the metadata: exported, replaced and cleared',
  'set.renamed': 'a column that a trigger uses cannot be renamed or get a type that its values do not fit',
  'set.dropped': 'events of a trigger that was dropped fail, and are not delivered',
} as const

const SQL = `
create table customer (id int primary key, email text, vip boolean);
create table orders (id int primary key, customer_id int references customer on delete cascade, text text, total numeric, at timestamptz);
create table part (id int primary key, text text) partition by range (id);
create table part_1 (text text, id int not null);
alter table part attach partition part_1 for values from (0) to (100);
create table base (id int primary key, text text); create table heir (more int) inherits (base);
create type mood as enum ('sad', 'o''k\\');
create table typed (id int primary key, j json, jb jsonb, a text[], m mood, d date, b bytea, text text);
create table work (id int primary key, key int, text text);
create table log (id int generated always as identity primary key, event text, what text, data jsonb, role text default current_setting('service.role', true));
create table caught (n int generated always as identity primary key, event jsonb);
create table failing (text text);
create view seen as select 1 as id;`

const ANA: As = { role: 'user', variables: { 'x-service-user-id': 'ana' } }
const ok: Step['expected'] = { status: 200 }
const sql = (text: string): Step => query('run_sql', { sql: text }, ok)
const CATCH = { plugin: 'catch' }
const trigger = (args: object): Step => query('create_event_trigger', { to: CATCH, ...args }, ok)

interface Event {
  readonly id: string
  readonly trigger: string
  readonly op: string
  readonly key: unknown
  readonly old: Record<string, unknown> | null
  readonly new: Record<string, unknown> | null
  readonly row?: unknown
  readonly session: object
}

/** A server, and the receiver of its webhook. */
interface HookedServer extends TestServer {
  readonly hook: FaultyServer
  /** What the receiver answers next, instead of 204. */
  readonly answers: Answer[]
}
const SECRETS = ['a', 'b'].map((letter) => `whsec_${Buffer.alloc(32, letter).toString('base64')}`)
const fail = (why: string): never => {
  throw new Error(why)
}

/** Returns what the plugin was told of a trigger, once all events of that have ended. */
async function caught(server: TestServer, name: string, order = `(event ->> 'id')::int`): Promise<Event[]> {
  await settled(server, name)
  const { result } = await server.sql(
    `select coalesce(jsonb_agg(event order by ${order}), '[]') from caught where event ->> 'trigger' = '${name}'`,
  )
  return JSON.parse(result[1]![0]!) as Event[]
}
const settled = (server: TestServer, name: string) =>
  until(`all events of ${name} have ended`, async () => {
    const { result } = await server.sql(
      `select count(*) from svc_catalog.svc_event where state = 'queued' and trigger_name = '${name}'`,
    )
    return result[1]![0] === '0'
  })
const forget = (server: TestServer) => server.sql('delete from caught; delete from failing')
const ops = (events: readonly Event[]) => events.map(({ op, old, new: now }) => [op, old, now])
const listed = async (server: TestServer, args: object) =>
  (await server.must('events', args)) as { id: string; state: string; error: string | null; attempts: number }[]

const CASES: Readonly<Record<keyof typeof PROMISES, Case<HookedServer>>> = {
  'made.writes': async (t, server) => {
    await server.must('create_event_trigger', {
      name: 'all',
      table: 'orders',
      on: { insert: {}, update: {}, delete: {} },
      to: CATCH,
    })
    const write = (type: string, args: object) => server.query(type, { table: 'orders', ...args }, ANA)
    t.match(await write('insert', { objects: [{ id: 1, text: 'a', total: 1.5 }] }), ok)
    t.match(await write('update', { where: { id: 1 }, $set: { text: 'b' } }), ok)
    t.match(await write('delete', { where: { id: 1 } }), ok)
    const events = await caught(server, 'all')
    const row = { id: 1, customer_id: null, text: 'a', total: 1.5, at: null }
    t.same(ops(events), [
      ['insert', null, row],
      ['update', row, { ...row, text: 'b' }],
      ['delete', { ...row, text: 'b' }, null],
    ])
    t.match(events, [
      {
        id: /^\d+$/,
        table: 'orders',
        key: { id: 1 },
        session: { role: 'user', user_id: 'ana', request_id: /./ },
        at: /^\d{4}-\d\d-\d\dT/,
      },
      {},
      {},
    ])
    t.notOk('row' in events[0]!)
    await server.must('drop_event_trigger', { name: 'all' })
    await server.sql(`insert into orders (id) values (2)`)
    t.equal((await caught(server, 'all')).length, 3)
    const { result } = await server.sql(`select count(*) from pg_trigger where tgname like 'svc\\_capture%'`)
    t.equal(result[1]![0], '0', 'no trigger is left')
  },
  'made.anybody': async (t, server) => {
    await forget(server)
    const on = { insert: {}, update: {}, delete: {} }
    for (const table of ['orders', 'part', 'base']) {
      await server.must('create_event_trigger', { name: `any_${table}`, table, on, to: CATCH })
    }
    await server.sql(
      `insert into customer values (1, 'c@example.com'); insert into orders (id, customer_id) values (10, 1), (11, 1)`,
    )
    await server.sql(`delete from customer`)
    t.same(
      (await caught(server, 'any_orders')).map(({ op, key, session }) => [op, key, session]),
      [
        ['insert', { id: 10 }],
        ['insert', { id: 11 }],
        ['delete', { id: 10 }],
        ['delete', { id: 11 }],
      ].map((each) => [...each, { role: null, user_id: null, request_id: null }]),
    )
    await server.sql(`insert into part values (1, 'a'); update part_1 set text = 'b'; delete from part_1`)
    t.same(ops(await caught(server, 'any_part')), [
      ['insert', null, { id: 1, text: 'a' }],
      ['update', { id: 1, text: 'a' }, { id: 1, text: 'b' }],
      ['delete', { id: 1, text: 'b' }, null],
    ])
    await server.sql(`insert into heir values (1, 'h', 2); update base set text = 'i'; delete from heir`)
    t.same(ops(await caught(server, 'any_base')), [
      ['insert', null, { id: 1, text: 'h', more: 2 }],
      ['update', { id: 1, text: 'h' }, { id: 1, text: 'i' }],
      ['delete', { id: 1, text: 'i', more: 2 }, null],
    ])
    for (const table of ['orders', 'part', 'base']) await server.must('drop_event_trigger', { name: `any_${table}` })
  },
  'made.many': async (t, server) => {
    await server.must('create_event_trigger', { name: 'many', table: 'work', on: { update: {} }, to: CATCH })
    await server.sql('insert into work (id, key) select g, g from generate_series(1, 500) g')
    await server.sql(`update work set id = id + 1000, text = 'moved'`)
    const events = await caught(server, 'many')
    t.equal(events.length, 500)
    t.ok(
      events.every(
        ({ old, new: now, key }) =>
          now!['id'] === Number(old!['id']) + 1000 &&
          now!['key'] === old!['key'] &&
          (key as { id: number }).id === now!['id'],
      ),
    )
    await server.must('drop_event_trigger', { name: 'many' })
    await server.sql('delete from work')
  },
  'made.rolled-back': async (t, server) => {
    await server.must('create_event_trigger', { name: 'rolled', table: 'work', on: { insert: {} }, to: CATCH })
    const insert = { type: 'insert', args: { table: 'work', objects: [{ id: 1 }] } }
    t.match(await server.query('bulk', [insert, insert]), { status: 400 })
    t.match(await server.raw(JSON.stringify(insert), {}, { prefer: 'tx=rollback' }), { status: 200 })
    await server.sql(`begin; insert into work values (2); rollback`)
    t.same(await listed(server, { trigger: 'rolled' }), [])
    t.match(
      await server.raw(
        JSON.stringify({
          type: 'create_event_trigger',
          args: { name: 'dry', table: 'work', on: { insert: {} }, to: CATCH },
        }),
        {},
        { prefer: 'tx=rollback' },
      ),
      { status: 200 },
    )
    t.match(await server.query('drop_event_trigger', { name: 'dry' }), { status: 400, body: { code: 'not-exists' } })
    await server.must('drop_event_trigger', { name: 'rolled' })
  },
  'made.digits': async (t, server) => {
    await server.must('create_event_trigger', {
      name: 'digits',
      table: 'orders',
      on: { insert: {} },
      to: { template: { name: 'log', role: 'robot', args: { data: { $event: 'new' } } } },
    })
    await server.sql(`set timezone = 'America/New_York'; set intervalstyle = 'iso_8601';
      insert into orders (id, total, at) values (20, 12345678901234567890.10, '2026-01-02 03:04:05.123456+00')`)
    await settled(server, 'digits')
    const { result } = await server.sql(`select data::text from log order by id desc limit 1`)
    t.equal(
      result[1]![0],
      '{"at": "2026-01-02T03:04:05.123456+00:00", "id": 20, "text": null, "total": 12345678901234567890.10, "customer_id": null}',
    )
    await server.must('drop_event_trigger', { name: 'digits' })
  },
  'when.decides': async (t, server) => {
    await server.must('create_event_trigger', {
      name: 'paid',
      table: 'orders',
      on: {
        insert: { when: { text: 'paid' } },
        update: { when: { text: 'paid' } },
        delete: { when: { total: { $gt: 5 } } },
      },
      to: CATCH,
    })
    await server.sql(`insert into orders (id, text, total) values (30, 'open', 1), (31, 'paid', 9), (32, null, null)`)
    await server.sql(
      `update orders set text = 'paid' where id = 30; update orders set text = 'sent' where id in (30, 31)`,
    )
    await server.sql(`delete from orders where id in (30, 31, 32)`)
    t.same(
      (await caught(server, 'paid')).map(({ op, key }) => [op, key]),
      [
        ['insert', { id: 31 }],
        ['update', { id: 30 }],
        ['delete', { id: 31 }],
      ],
    )
    await server.must('drop_event_trigger', { name: 'paid' })
  },
  'when.related': async (t, server) => {
    await server.must('create_event_trigger', {
      name: 'vip',
      table: 'orders',
      on: { insert: { when: { customer: { vip: true } } } },
      to: CATCH,
    })
    await server.sql(`insert into customer values (41, 'a', true), (42, 'b', false)`)
    await server.sql(`insert into orders (id, customer_id) values (41, 41), (42, 42), (43, null)`)
    t.same(
      (await caught(server, 'vip')).map(({ key }) => key),
      [{ id: 41 }],
    )
    t.match(await server.query('drop_relationship', { table: 'orders', relationship: 'customer' }), {
      status: 400,
      body: { code: 'dependency-error', error: /capture orders.events/ },
    })
    await server.must('drop_event_trigger', { name: 'vip' })
  },
  'when.values': async (t, server) => {
    await server.must('create_event_trigger', {
      name: 'values',
      table: 'typed',
      on: {
        insert: {
          when: {
            $and: [
              { text: { $in: [`o'k\\`, `');--`, 'é'] } },
              { m: `o'k\\` },
              { jb: { $contains: { a: `'` } } },
              { a: { $contains: ['x'] } },
              { d: { $gte: '2026-01-01' } },
            ],
          },
        },
      },
      to: CATCH,
    })
    await server.sql(`insert into typed (id, text, m, jb, a, d) values (1, E'o''k\\\\', E'o''k\\\\', '{"a": "''"}', '{x}', '2026-02-01'),
      (2, 'other', 'sad', '{}', '{}', '2026-02-01')`)
    t.same(
      (await caught(server, 'values')).map(({ key }) => key),
      [{ id: 1 }],
    )
    await server.must('drop_event_trigger', { name: 'values' })
  },
  'when.columns': async (t, server) => {
    await server.must('create_event_trigger', {
      name: 'changed',
      table: 'typed',
      on: { update: { columns: ['j', 'jb', 'a', 'm', 'd', 'b'] } },
      to: CATCH,
    })
    await server.sql(`update typed set text = 'x' where id = 1`)
    const changes = [`j = '{"a": 1}'`, `jb = null`, `a = '{y}'`, `m = 'sad'`, `d = null`, `b = '\\x00'`]
    for (const change of changes)
      await server.sql(`update typed set ${change} where id = 1; update typed set ${change} where id = 1`)
    t.equal((await caught(server, 'changed')).length, changes.length)
    await server.must('drop_event_trigger', { name: 'changed' })
  },
  'when.refused': [
    ...(
      [
        [
          { insert: { when: { text: 'X-Service-User-Id' } } },
          'unexpected-payload',
          '$.args.on.insert.when.text',
          /session variable/,
        ],
        [{ insert: { when: { nothing: 1 } } }, 'not-exists', '$.args.on.insert.when.nothing', /nothing/],
        [{ update: { columns: ['nothing'] } }, 'not-exists', '$.args.on.update.columns[0]', /nothing/],
        [{ delete: { when: { id: { $gt: 'x' } } } }, 'unexpected-payload', '$.args.on.delete.when.id.$gt', /integer/],
        [
          { insert: { when: { id: { $in: [1, 'x'] } } } },
          'unexpected-payload',
          '$.args.on.insert.when.id.$in',
          /integer/,
        ],
        [{ insert: { columns: ['id'] } }, 'unexpected-payload', '$.args.on.insert.columns', /columns/],
        [{ upsert: {} }, 'unexpected-payload', '$.args.on.upsert', /upsert/],
        [{}, 'parse-failed', '$.args.on', /insert, update or delete/],
      ] as const
    ).map(([on, code, path, error]) =>
      query('create_event_trigger', { name: 'wrong', table: 'orders', on, to: CATCH }, refused(code, error, path)),
    ),
    query(
      'create_event_trigger',
      { name: 'wrong', table: 'typed', on: { insert: { when: { m: 'glad' } } }, to: CATCH },
      refused('unexpected-payload', /mood/, '$.args.on.insert.when.m'),
    ),
  ],
  'to.template': async (t, server) => {
    await server.must('create_event_trigger', {
      name: 'logged',
      table: 'work',
      on: { insert: {} },
      to: {
        template: {
          name: 'log',
          role: 'robot',
          args: {
            event: { $event: 'id' },
            what: { $event: ['new', 'text'] },
            data: [{ $event: 'op' }, { $event: 'old.x' }, 1.5],
          },
        },
      },
    })
    await server.sql(`insert into work (id, text) values (50, 'hello')`)
    await settled(server, 'logged')
    const [event] = await listed(server, { trigger: 'logged' })
    const { result } = await server.sql(`select event, what, data::text, role from log order by id desc limit 1`)
    t.same(result[1], [event!.id, 'hello', '["insert", null, 1.5]', 'robot'])
    await server.must('drop_event_trigger', { name: 'logged' })
  },
  'to.once': async (t, server) => {
    await server.must('create_event_trigger', {
      name: 'once',
      table: 'work',
      on: { insert: {} },
      to: {
        template: { name: 'log_or_fail', role: 'robot', args: { event: { $event: 'id' }, id: { $event: 'new.id' } } },
      },
    })
    // The second step fails until there is a row to find.
    await server.sql(`insert into work (id, text) values (60, 'hello')`)
    await until('it has failed twice', async () => (await listed(server, { trigger: 'once' }))[0]!.attempts >= 2)
    const [event] = await listed(server, { trigger: 'once' })
    t.match(event, { state: 'queued', error: /expect/ })
    const logged = async () => (await server.sql(`select count(*) from log where event = '${event!.id}'`)).result[1]![0]
    t.equal(await logged(), '0')
    await server.sql(`insert into customer values (60)`)
    await settled(server, 'once')
    t.equal(await logged(), '1')
    t.match(await listed(server, { trigger: 'once' }), [{ state: 'done', error: null }])
    await server.must('drop_event_trigger', { name: 'once' })
    // The end cannot be stored: then nothing has happened.
    await server.sql(`create function refuse() returns trigger language plpgsql as $$ begin
        if new.state = 'done' then raise exception 'not yet'; end if; return new; end $$;
      create trigger refuse before update on svc_catalog.svc_event for each row execute function refuse()`)
    await server.must('create_event_trigger', {
      name: 'whole',
      table: 'work',
      on: { insert: {} },
      to: { template: { name: 'log', role: 'robot', args: { what: { $event: 'trigger' } } } },
    })
    await server.sql(`insert into work (id) values (65)`)
    await until('it has failed twice', async () => (await listed(server, { trigger: 'whole' }))[0]!.attempts >= 2)
    await server.sql(`drop function refuse cascade`)
    await settled(server, 'whole')
    t.equal((await server.sql(`select count(*) from log where what = 'whole'`)).result[1]![0], '1')
    await server.must('drop_event_trigger', { name: 'whole' })
  },
  'to.plugin': [
    trigger({
      name: 'unhandled',
      table: 'work',
      on: { insert: {} },
      to: { plugin: 'nobody' },
      retry: { for_hours: 0 },
    }),
    sql('insert into work (id) values (70)'),
  ],
  'webhook.signed': async (t, server) => {
    await server.must('create_event_trigger', {
      name: 'hooked',
      table: 'orders',
      on: { insert: {} },
      payload: ['total', { name: 'customer', columns: ['email'] }],
      to: { provider: 'hook' },
    })
    server.hook.asked.length = 0
    await server.sql(`insert into orders (id, customer_id, total) values (75, 41, 12345678901234567890.10)`)
    await settled(server, 'hooked')
    const [{ method, url, headers, body } = fail('nothing was asked'), ...more] = server.hook.asked
    t.same([method, url.pathname, more.length], ['POST', '/in', 0])
    t.match(headers, { 'content-type': 'application/json', authorization: 'Bearer key' })
    const [event] = await listed(server, { trigger: 'hooked' })
    t.match(event, { state: 'done', detail: /^204/ })
    t.equal(headers['webhook-id'], event!.id)
    const signed = SECRETS.map((secret) => {
      const key = Buffer.from(secret.slice(6), 'base64')
      const text = `${event!.id}.${String(headers['webhook-timestamp'])}.${body}`
      return `v1,${createHmac('sha256', key).update(text).digest('base64')}`
    })
    t.equal(headers['webhook-signature'], signed.join(' '))
    t.match(JSON.parse(body), {
      id: event!.id,
      table: 'orders',
      op: 'insert',
      new: { id: 75 },
      row: { customer: { email: 'a' } },
    })
    t.match(body, /"row" : .*"total":12345678901234567890.10/)
    await server.must('drop_event_trigger', { name: 'hooked' })
  },
  'webhook.again': async (t, server) => {
    await server.must('create_event_trigger', {
      name: 'again',
      table: 'work',
      on: { insert: {} },
      to: { provider: 'hook' },
    })
    server.hook.asked.length = 0
    const answers = [
      { status: 500, body: 'not now' },
      { status: 302, headers: { location: '/elsewhere' } },
    ]
    server.answers.push(...answers)
    await server.sql(`insert into work (id) values (7500)`)
    await settled(server, 'again')
    const ids = server.hook.asked.map(({ headers }) => headers['webhook-id'])
    t.same([ids.length, new Set(ids).size], [3, 1])
    t.ok(server.hook.asked.every(({ url }) => url.pathname === '/in'))
    server.answers.push({ status: 503, headers: { 'retry-after': '1800' }, body: 'resting' })
    await server.sql(`insert into work (id) values (7501)`)
    await until('it has failed once', async () => (await listed(server, { trigger: 'again' }))[0]!.attempts === 1)
    t.match(await listed(server, { trigger: 'again', limit: 1 }), [{ state: 'queued', error: /: 503 resting/ }])
    const { result } = await server.sql(
      `select next_at > now() + interval '25 minutes' from svc_catalog.svc_event where trigger_name = 'again' and state = 'queued'`,
    )
    t.equal(result[1]![0], 't')
    await server.must('drop_event_trigger', { name: 'again' })
  },
  'webhook.gone': async (t, server) => {
    await server.must('create_event_trigger', {
      name: 'leaver',
      table: 'work',
      on: { insert: {} },
      to: { provider: 'hook' },
    })
    server.answers.push({ status: 410 })
    await server.sql(`insert into work (id) values (7510)`)
    await until('it is stopped', async () =>
      /stopped by their receiver: leaver/.test((await server.fetch('/readyz')).text),
    )
    server.hook.asked.length = 0
    await server.sql(`insert into work (id) values (7511)`)
    // Another trigger is served meanwhile.
    await server.must('create_event_trigger', { name: 'stayer', table: 'work', on: { insert: {} }, to: CATCH })
    await server.sql(`insert into work (id) values (7512)`)
    t.equal((await caught(server, 'stayer')).length, 1)
    t.equal(server.hook.asked.length, 0)
    t.match(await server.query('resume_event_trigger', { name: 'stayer' }), {
      status: 400,
      body: { code: 'not-exists' },
    })
    await server.must('resume_event_trigger', { name: 'leaver' })
    await settled(server, 'leaver')
    t.equal(server.hook.asked.length, 3)
    for (const name of ['leaver', 'stayer']) await server.must('drop_event_trigger', { name })
  },
  'webhook.large': async (t, server) => {
    await server.must('create_event_trigger', {
      name: 'heavy',
      table: 'work',
      on: { insert: {} },
      to: { provider: 'hook' },
    })
    server.answers.push({ status: 413 })
    await server.sql(`insert into work (id) values (7520)`)
    await settled(server, 'heavy')
    t.match(await listed(server, { trigger: 'heavy' }), [{ state: 'failed', attempts: 1, error: /413/ }])
    await server.must('drop_event_trigger', { name: 'heavy' })
  },
  'provider.unknown': [
    query(
      'create_event_trigger',
      { name: 'wrong', table: 'orders', on: { insert: {} }, to: { provider: 'nobody' } },
      refused('not-exists', /no event provider "nobody" is configured \(configured: hook\)/, '$.args.to.provider'),
    ),
  ],
  'payload.row': async (t, server) => {
    await settled(server, 'unhandled')
    t.match(await listed(server, { trigger: 'unhandled' }), [{ state: 'failed', error: /no plugin handles "nobody"/ }])
    await server.must('drop_event_trigger', { name: 'unhandled' })
    await server.must('create_event_trigger', {
      name: 'payload',
      table: 'orders',
      on: { insert: {}, delete: {} },
      payload: ['total', { name: 'customer', columns: ['email'] }],
      to: CATCH,
    })
    await server.sql(`insert into orders (id, customer_id, total) values (80, 41, 1.5)`)
    await settled(server, 'payload')
    await server.sql(`delete from orders where id = 80`)
    t.same(
      (await caught(server, 'payload')).map(({ op, row }) => [op, row]),
      [
        ['insert', { total: 1.5, customer: { email: 'a' } }],
        ['delete', null],
      ],
    )
    await server.must('drop_event_trigger', { name: 'payload' })
  },
  'retry.later': async (t, server) => {
    await server.sql(`insert into failing values ('bad')`)
    await server.must('create_event_trigger', { name: 'later', table: 'work', on: { insert: {} }, to: CATCH })
    await server.sql(`insert into work (id, text) values (90, 'bad'), (91, 'good')`)
    await until(
      'the good one is delivered',
      async () => (await listed(server, { trigger: 'later', state: 'done' })).length === 1,
    )
    await until('the bad one has failed twice', async () => {
      const [bad] = await listed(server, { trigger: 'later', state: 'queued' })
      return bad!.attempts >= 2 && /does not want "bad"/.test(bad!.error ?? '')
    })
    await server.sql('delete from failing')
    t.same(
      (await caught(server, 'later', 'n')).map(({ new: now }) => now!['id']),
      [91, 90],
    )
    await server.must('drop_event_trigger', { name: 'later' })
  },
  'retry.over': async (t, server) => {
    await server.sql(`insert into failing values ('bad')`)
    await server.must('create_event_trigger', {
      name: 'over',
      table: 'work',
      on: { insert: {} },
      to: CATCH,
      retry: { for_hours: 0 },
    })
    await server.sql(`insert into work (id, text) values (100, 'bad')`)
    await settled(server, 'over')
    const [event] = await listed(server, { trigger: 'over' })
    t.match(event, { state: 'failed', error: 'the test does not want "bad"', attempts: 1 })
    await server.sql('delete from failing')
    await server.must('retry_event', { id: event!.id })
    t.equal((await caught(server, 'over')).length, 1)
    t.match(await server.query('retry_event', { id: '999999999' }), {
      status: 400,
      body: { code: 'not-exists', path: '$.args.id' },
    })
    await server.must('drop_event_trigger', { name: 'over' })
  },
  'order.key': async (t, server) => {
    await server.sql(`insert into failing values ('bad')`)
    await server.must('create_event_trigger', {
      name: 'ordered',
      table: 'work',
      on: { insert: {}, update: {} },
      order_by: ['key'],
      to: CATCH,
    })
    await server.sql(`insert into work (id, key, text) values (110, 1, 'bad')`)
    await server.sql(`update work set text = 'second' where id = 110; update work set text = 'third' where id = 110`)
    await server.sql(`insert into work (id, key, text) values (111, 2, 'other'), (112, null, 'none')`)
    const texts = async () =>
      ((await listed(server, { trigger: 'ordered', state: 'done' })) as { key?: { id: number } }[]).map(
        ({ key }) => key!.id,
      )
    await until('the others are delivered', async () => (await texts()).length === 2)
    t.same((await texts()).sort(), [111, 112])
    await server.sql('delete from failing')
    t.same(
      (await caught(server, 'ordered', 'n'))
        .map(({ new: now }) => now!['text'])
        .filter((text) => text !== 'other' && text !== 'none'),
      ['bad', 'second', 'third'],
    )
    await server.must('drop_event_trigger', { name: 'ordered' })
  },
  'order.many': async (t, server) => {
    await server.sql(`delete from work; insert into failing values ('bad')`)
    await server.must('create_event_trigger', {
      name: 'hot',
      table: 'work',
      on: { insert: {} },
      order_by: ['key'],
      to: CATCH,
    })
    await server.sql(`insert into work (id, key, text) values (1, 1, 'bad');
      insert into work (id, key, text) select g, 1, 'hot' from generate_series(2, 20000) g`)
    await server.sql(`insert into work (id, key, text) select g, g, 'cold' from generate_series(20001, 20050) g`)
    await until(
      'the cold ones are delivered',
      async () => (await listed(server, { trigger: 'hot', state: 'done', limit: 1000 })).length === 50,
    )
    t.equal((await listed(server, { trigger: 'hot', state: 'queued', limit: 1000 })).length, 1000)
    await server.must('drop_event_trigger', { name: 'hot' })
    await server.sql(
      `delete from svc_catalog.svc_event where trigger_name = 'hot'; delete from work; delete from failing`,
    )
  },
  'size.limit': async (t, server) => {
    await server.must('create_event_trigger', { name: 'large', table: 'work', on: { insert: {} }, to: CATCH })
    await server.sql(`insert into work (id, text) values (1, repeat('x', 200000)), (2, repeat('x', 50000))`)
    t.same(
      (await caught(server, 'large')).map(({ new: now }) => now!['id']),
      [2],
    )
    t.match(await listed(server, { trigger: 'large', state: 'failed' }), [{ error: /larger than 100000 bytes/ }])
    await server.must('drop_event_trigger', { name: 'large' })
  },
  'servers.two': async (t, server) => {
    await server.sql('delete from work')
    const other = await testServer(t, { databaseUrl: server.databaseUrl, ...OPTIONS })
    await server.must('create_event_trigger', {
      name: 'shared',
      table: 'work',
      on: { insert: {} },
      to: {
        template: { name: 'log', role: 'robot', args: { what: { $event: 'trigger' }, event: { $event: 'id' } } },
      },
    })
    await Promise.all(
      [server, other].map((each, n) =>
        each.must('insert', {
          table: 'work',
          objects: Array.from({ length: 100 }, (_, i) => ({ id: n * 1000 + i })),
        }),
      ),
    )
    await settled(server, 'shared')
    const { result } = await server.sql(`select count(*), count(distinct event) from log where what = 'shared'`)
    t.same(result[1], ['200', '200'])
    await other.close()
    await server.must('drop_event_trigger', { name: 'shared' })
  },
  'role.denied': [
    query(
      'create_event_trigger',
      { name: 'x', table: 'orders', on: { insert: {} }, to: CATCH },
      refused('access-denied', /./),
      ANA,
    ),
    query('drop_event_trigger', { name: 'x' }, refused('access-denied', /./), ANA),
    query('events', {}, refused('access-denied', /./), ANA),
    query('retry_event', { id: '1' }, refused('access-denied', /./), ANA),
    query(
      'select',
      { table: { schema: 'svc_catalog', name: 'svc_event' }, columns: ['id'] },
      refused('permission-denied', /./, '$.args.table'),
      ANA,
    ),
  ],
  'role.tracked': [
    query('track_table', { schema: 'svc_catalog', name: 'svc_event' }, ok),
    query(
      'create_select_permission',
      {
        table: { schema: 'svc_catalog', name: 'svc_event' },
        role: 'user',
        permission: { columns: ['id', 'state'], filter: { user_id: 'X-Service-User-Id' } },
      },
      ok,
    ),
    query(
      'select',
      { table: { schema: 'svc_catalog', name: 'svc_event' }, columns: ['id', 'state'], limit: 1 },
      like([{ state: 'done' }]),
      ANA,
    ),
    query('untrack_table', { table: { schema: 'svc_catalog', name: 'svc_event' }, cascade: true }, ok),
  ],
  'ask.pages': async (t, server) => {
    const [first, second] = await listed(server, { trigger: 'shared', limit: 2 })
    t.match(first, {
      id: /^\d+$/,
      trigger: 'shared',
      table_schema: 'public',
      table_name: 'work',
      operation: 'insert',
      state: 'done',
      attempts: 1,
    })
    t.same(await listed(server, { trigger: 'shared', limit: 1, before: first!.id }), [second])
    t.same(await listed(server, { trigger: 'shared', state: 'failed' }), [])
    t.match(await server.query('events', { limit: 0 }), { status: 400, body: { path: '$.args.limit' } })
    t.match(await server.query('events', { before: 'x' }), { status: 400, body: { path: '$.args.before' } })
  },
  'set.refused': [
    trigger({ name: 'taken', table: 'orders', on: { insert: {} } }),
    ...(
      [
        [{ name: 'taken', table: 'work' }, 'already-exists', '$.args.name'],
        [{ name: 'a b' }, 'parse-failed', '$.args.name'],
        [{ table: 'nothing' }, 'not-exists', '$.args.table'],
        [{ table: 'seen' }, 'unexpected-payload', '$'],
        [{ order_by: ['nothing'] }, 'not-exists', '$.args.order_by[0]'],
        [{ order_by: [] }, 'parse-failed', '$.args.order_by'],
        [{ payload: ['nothing'] }, 'not-exists', '$.args.payload[0]'],
        [{ payload: 'id' }, 'parse-failed', '$.args.payload'],
        [{ retry: { for_hours: -1 } }, 'parse-failed', '$.args.retry.for_hours'],
        [{ to: {} }, 'parse-failed', '$.args.to'],
        [{ to: { plugin: 'a', template: { name: 'log', role: 'r' } } }, 'parse-failed', '$.args.to'],
        [{ to: { template: { name: 'nothing', role: 'r' } } }, 'not-exists', '$.args.to.template.name'],
        [
          { to: { template: { name: 'log', role: 'r', args: { x: { $event: 'now.id' } } } } },
          'parse-failed',
          '$.args.to.template.args.x.$event',
        ],
        [{ to: { template: { name: 'log' } } }, 'parse-failed', '$.args.to.template.role'],
      ] as const
    ).map(([args, code, path]) =>
      query(
        'create_event_trigger',
        { name: 'wrong', table: 'orders', on: { insert: {} }, to: CATCH, ...args },
        refused(code, /./, path),
      ),
    ),
    query('drop_event_trigger', { name: 'nothing' }, refused('not-exists', /nothing/, '$.args.name')),
  ],
  'set.metadata': async (t, server) => {
    await server.must('create_event_trigger', {
      name: 'second',
      table: 'orders',
      on: { update: { columns: ['text'], when: { total: 1.1 } } },
      to: CATCH,
    })
    const { body: exported, text } = await server.query('export_metadata', {})
    const { tables } = exported as { tables: { table: unknown; captures?: object }[] }
    t.same(tables.find(({ table }) => table === 'orders')?.captures, {
      events: {
        taken: { on: { insert: {} }, to: CATCH },
        second: { on: { update: { columns: ['text'], when: { total: 1.1 } } }, to: CATCH },
      },
    })
    await server.must('clear_metadata', {})
    const triggers = async () =>
      (await server.sql(`select count(*)::int as n from pg_trigger where tgname like 'svc\\_capture%'`)).result[1]?.[0]
    t.equal(await triggers(), '0')
    const replaced = await server.raw(`{"type": "replace_metadata", "args": ${text}}`)
    t.match(replaced, { status: 200 })
    t.equal(await triggers(), '2')
    t.equal((await server.query('export_metadata', {})).text, text)
    const broken = text.replace('"total":1.1', '"total":"x"')
    t.match(await server.raw(`{"type": "replace_metadata", "args": ${broken}}`), {
      status: 400,
      body: {
        code: 'unexpected-payload',
        path: /^\$\.args\.tables\[\d\]\.captures\.events\.second\.on\.update\.when\.total$/,
      },
    })
    await server.must('drop_event_trigger', { name: 'second' })
  },
  'set.renamed': async (t, server) => {
    const depends = { status: 400, body: { code: 'dependency-error' } }
    await server.must('create_event_trigger', {
      name: 'uses',
      table: 'work',
      on: { insert: { when: { text: 'a' } } },
      order_by: ['key'],
      to: CATCH,
    })
    const run = (text: string) => server.query('run_sql', { sql: text })
    t.match(await run('alter table work drop column key'), depends)
    t.match(await run('alter table work alter column text type int using 1'), { status: 400 })
    t.match(await run('alter table work rename column key to other'), { status: 400 })
    await server.must('run_sql', { sql: 'alter table work add column more int' })
    await server.sql(`insert into work (id, text, more) values (50001, 'a', 7)`)
    t.match(await caught(server, 'uses'), [{ new: { more: 7 } }])
    t.match(await server.query('run_sql', { sql: 'alter table work drop column key', cascade: true }), { status: 200 })
    t.match(await server.query('drop_event_trigger', { name: 'uses' }), { status: 400, body: { code: 'not-exists' } })
  },
  'set.dropped': async (t, server) => {
    await server.sql(`insert into failing values ('bad')`)
    await server.must('create_event_trigger', { name: 'gone', table: 'work', on: { insert: {} }, to: CATCH })
    await server.sql(`insert into work (id, text) values (50002, 'bad')`)
    await until('it has failed once', async () => (await listed(server, { trigger: 'gone' }))[0]!.attempts > 0)
    await server.must('untrack_table', { table: 'work' })
    await server.sql(`delete from failing`)
    await settled(server, 'gone')
    t.match(await listed(server, { trigger: 'gone' }), [{ state: 'failed', error: 'there is no trigger "gone"' }])
    t.same(await caught(server, 'gone'), [])
  },
}

/** Its promises, with a case for each. */
export const rowEvents = area('events', { promises: PROMISES, cases: CASES, start })

const module = (path: string) => new URL(`../../${path}`, import.meta.url)
const OPTIONS = {
  builtins: { events: module('plugins/events/index.js'), catcher: module('test/kit/event-catcher.js') },
  providers: { event: { hook: module('providers/event/webhook.js') } },
  config: { plugins: { events: { retrySeconds: 0.05, pollMs: 50, maxEventBytes: 100_000, orphanSeconds: 1 } } },
}

async function start(t: Test): Promise<HookedServer> {
  const answers: Answer[] = []
  const hook = await faultyServer(t, () => answers.shift() ?? { status: 204 })
  const webhook = { url: `${hook.url}/in`, headers: { authorization: 'Bearer key' }, secrets: SECRETS }
  const config = { ...OPTIONS.config, providers: { event: { hook: webhook } } }
  const server = await testServer(t, { ...OPTIONS, config })
  await server.sql(SQL)
  const param = (name: string) => ({ param: name, default: null })
  const insert = {
    type: 'insert',
    args: { table: 'log', objects: [{ event: param('event'), what: param('what'), data: param('data') }] },
  }
  await server.must('bulk', [
    ...['customer', 'orders', 'part', 'base', 'typed', 'work', 'log', 'seen'].map((args) => ({
      type: 'track_table',
      args,
    })),
    {
      type: 'create_object_relationship',
      args: { table: 'orders', name: 'customer', using: { foreign_key_constraint_on: 'customer_id' } },
    },
    { type: 'create_query_template', args: { name: 'log', template: insert } },
    {
      type: 'create_query_template',
      args: {
        name: 'log_or_fail',
        template: {
          type: 'bulk',
          args: [
            { type: 'insert', args: { table: 'log', objects: [{ event: param('event') }] } },
            {
              type: 'select',
              args: { table: 'customer', columns: ['id'], where: { id: param('id') } },
              expect: { rows: 1 },
            },
          ],
        },
      },
    },
    ...(['insert', 'select'] as const).map((type) => ({
      type: `create_${type}_permission`,
      args: {
        table: 'log',
        role: 'robot',
        permission:
          type === 'insert' ? { columns: ['event', 'what', 'data'], check: {} } : { columns: ['id'], filter: {} },
      },
    })),
    {
      type: 'create_select_permission',
      args: { table: 'customer', role: 'robot', permission: { columns: ['id'], filter: {} } },
    },
    ...(
      [
        ['insert', { columns: '*', check: {} }],
        ['update', { columns: '*', filter: {} }],
        ['delete', { filter: {} }],
        ['select', { columns: '*', filter: {} }],
      ] as const
    ).map(([type, permission]) => ({
      type: `create_${type}_permission`,
      args: { table: 'orders', role: 'user', permission },
    })),
  ])
  return { ...server, hook, answers }
}
