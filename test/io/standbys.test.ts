import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import t from 'tap'
import { connectionTo } from '../../core/db/hosts.js'
import { run } from '../kit/command.js'
import { freshDatabase } from '../kit/database.js'
import { startProxy } from '../kit/proxy.js'
import { type Node, startPair } from '../kit/standby.js'
import { type As, type TestServer, testServer } from '../kit/server.js'
import { patience } from '../kit/patience.js'
import { until } from '../kit/until.js'

const { primary, standby } = await startPair(t)

const NOTHING = 'nothing listens there: check the host and the port, and that PostgreSQL runs'

t.test('check and doctor examine each standby', async (t) => {
  const other = await freshDatabase(t)
  const down = 'postgresql://app:hush@127.0.0.1:1/postgres'
  const readUrls = [standby.url, standby.url.replace(/postgres$/, 'template1'), primary.url, other.url, down]
  const env = {
    DATABASE_URL: primary.url,
    ROWHOUSE_ADMIN_SECRET: 'a secret for the tests of standbys',
    ROWHOUSE_DATABASE__READ_URLS: JSON.stringify(readUrls),
  }
  for (const command of ['check', 'doctor']) {
    const { out } = await run(t.testdir({}), [command, '--json'], { env })

    const { ok, findings } = JSON.parse(out) as { ok: boolean; findings: { ok: boolean; text: string }[] }
    t.notOk(ok)
    t.strictSame(
      findings.filter(({ text }) => text.startsWith('standby ')),
      [
        { ok: true, text: `standby ${standby.place}: is a standby of the primary` },
        { ok: false, text: `standby ${standby.place}: the database is template1 instead of postgres` },
        { ok: true, text: `standby ${primary.place}: is the primary itself` },
        { ok: false, text: `standby ${new URL(other.url).host}: belongs to another system than database.url` },
        {
          ok: false,
          path: '$.database.readUrls[4]',
          hint: NOTHING,
          text: `standby 127.0.0.1:1: connect ECONNREFUSED 127.0.0.1:1: ${NOTHING}`,
        },
      ],
    )
    t.match(
      findings.find(({ text }) => text.startsWith('connections: a server opens up to 37')),
      { ok: true, text: /; as many on each standby, and up to 74 on one that is promoted$/ },
    )
    t.notMatch(out, 'hush')
  }
})

t.test('reads on a standby', async (t) => {
  await primary.query(`
    create table note (id int primary key, text text);
    create view place as select inet_server_port() as port;
    create view slow_place as select inet_server_port() as port from pg_sleep(0.2);
    create unlogged table cache (id int primary key);
    insert into cache values (1);
    insert into note values (1, 'old')`)
  const server = await testServer(t, {
    databaseUrl: primary.url,
    config: { database: { readUrls: [standby.url], maxLagMs: patience(2000) }, log: { level: 'info' } },
  })
  const logged = async (): Promise<readonly string[]> => {
    const { lines } = await server.must('log_lines', {})
    const texts = lines.map(({ line }: { line: { msg: string; error?: string } }) => `${line.msg}: ${line.error ?? ''}`)
    return texts.filter((text: string) => text.startsWith('the standby'))
  }
  const gauge = async (name: string): Promise<number> => {
    const { text } = await server.fetch('/metrics')
    return Number(new RegExp(`^rowhouse_${name}\\{standby="${standby.place}"\\} (.*)$`, 'm').exec(text)?.[1])
  }
  await server.must('track_table', 'note')
  await server.must('track_table', 'place')
  await server.must('track_table', 'slow_place')
  await server.must('track_table', 'cache')
  const ports = { primary: portOf(primary), standby: portOf(standby) }
  const place = async (headers = {}) => {
    const { status, body } = await read(server, { table: 'place', columns: ['port'] }, headers)
    if (status !== 200) throw new Error(JSON.stringify(body))
    return body[0].port as number
  }
  const usable = () => until('the standby is used', async () => (await place()) === ports.standby)
  const probe = async () => {
    const { status, body } = await server.fetch('/readyz')
    const { detail } = body.probes.find(({ name }: { name: string }) => name === `standby ${standby.place}`)
    return { status, detail: detail as string }
  }
  await usable()
  t.same(await logged(), ['the standby can be used: '], 'no false warning at the start')

  await t.test('run there in every API, and operations of the admin do not', async (t) => {
    t.equal((await server.query('count', { table: 'note' })).text, '{"count":1}')
    const query = JSON.stringify({ query: '{ place { port } }' })
    for (const path of ['/v1/graphql', '/v1alpha1/graphql']) {
      const { body } = await server.fetch(path, { method: 'POST', body: query, headers: JSON_TYPE })
      t.equal(body.data.place[0].port, ports.standby, path)
    }
    await server.must('create_query_template', {
      name: 'where',
      template: { type: 'select', args: { table: 'place', columns: ['port'] } },
    })
    await until('the standby knows the template', async () => {
      const { body } = await server.fetch('/v1/template/where')
      return body[0].port === ports.standby
    })
    const { result } = await server.must('run_sql', { sql: 'select inet_server_port()' })
    t.same(result[1], [String(ports.primary)])
    const bulk = await server.must('bulk', [{ type: 'select', args: { table: 'place', columns: ['port'] } }])
    t.equal(bulk[0][0].port, ports.primary)
    const { pools, standbys } = await server.must('server_status', {})
    t.ok(pools.some(({ name }: { name: string }) => name === `standby ${standby.place} main`))
    t.match(standbys, [{ name: standby.place, lag_ms: Number, lag_bytes: Number, problem: undefined }])
    const { status, detail } = await probe()
    t.equal(status, 200)
    t.match(detail, /^at most \d+ ms and \d+ bytes behind$/)
    const metrics = (await server.fetch('/metrics')).text
    t.match(metrics, new RegExp(`rowhouse_standby_lag_seconds\\{standby="${standby.place}"\\} \\d`))
    t.match(metrics, new RegExp(`database_connections\\{pool="standby ${standby.place} main",state="idle"\\} [1-9]`))
  })

  await t.test('leave a line when they are slow, which names the server where they ran', async (t) => {
    await usable()
    const limits = { 'a row': { limit: 1 }, 'many rows': {} }
    for (const [lane, limit] of Object.entries(limits)) {
      for (const from of ['standby', 'primary']) {
        const id = `slow-${lane.slice(0, 1)}-${from}`
        const headers = { 'rowhouse-read-from': from, 'x-request-id': id }
        await read(server, { table: 'slow_place', columns: ['port'], ...limit }, headers)
        const { lines } = await server.must('log_lines', { level: 'warn' })
        const found = lines.filter(({ line }: { line: { requestId?: string } }) => line.requestId === id)
        const ran = from === 'standby' ? `standby ${standby.place}` : 'primary'
        t.match(found, [{ line: { msg: 'slow query', table: 'slow_place', server: ran } }], `${lane}, ${from}`)
      }
    }
  })

  await t.test('run on the primary when a header says so', async (t) => {
    t.equal(await place({ 'rowhouse-read-from': 'primary' }), ports.primary)
    t.match(await read(server, NOTES, { 'rowhouse-read-from': 'moon' }), {
      status: 400,
      body: { path: '$', code: 'unexpected-payload' },
    })
    t.match(await read(server, NOTES, { 'rowhouse-position': 'then' }), {
      status: 400,
      body: { path: '$', code: 'unexpected-payload' },
    })
  })

  await t.test('of an unlogged table run on the primary', async (t) => {
    await usable()
    t.match(await read(server, { table: 'cache', columns: ['id'] }), { status: 200, body: [{ id: 1 }] })
    t.match(await server.query('count', { table: 'cache' }), { status: 200, body: { count: 1 } })
  })

  await t.test('a write does not wait for SQL of the admin', async (t) => {
    await primary.query(`create table gate (id int primary key)`)
    const opening = primary.query(`begin; lock gate; select pg_sleep(${patience(2000) / 1000}); commit`)
    await until('the gate is closed', async () => (await locks()) === 1)
    const waiting = Array.from({ length: 4 }, () =>
      server.query('run_sql', { sql: 'select * from gate', read_only: true }),
    )
    await until('all connections for it are busy', async () => (await locks()) === 5)

    const { headers } = await server.query('update', { table: 'note', where: { id: 1 }, $set: { text: 'old' } })

    t.equal(await locks(), 5, 'they still are')
    t.not(headers.get('rowhouse-position'), 'FFFFFFFF/FFFFFFFF')
    await opening
    for (const { status } of await Promise.all(waiting)) t.equal(status, 200)
  })

  await t.test('see what the caller wrote if it sends the position of its write', async (t) => {
    await usable()
    await standby.query('select pg_wal_replay_pause()')
    const update = (text: string) => server.query('update', { table: 'note', where: { id: 1 }, $set: { text } })
    const position = (await update('new')).headers.get('rowhouse-position')!

    t.match(position, /^[0-9A-F]+\/[0-9A-F]+$/)
    t.same((await read(server, NOTES)).body, [{ id: 1, text: 'old' }], 'the standby is behind')
    t.same((await read(server, NOTES, { 'rowhouse-position': position })).body, [{ id: 1, text: 'new' }])
    t.notOk((await read(server, NOTES)).headers.has('rowhouse-position'), 'a read has none')
    await standby.query('select pg_wal_replay_resume()')
    await until('the standby has it', async () => (await read(server, NOTES)).text === '[{"id":1,"text":"new"}]')
    const writes: (() => Promise<{ headers: Headers }>)[] = [
      () => server.query('insert', { table: 'note', objects: [{ id: 2, text: 'two' }] }),
      () => server.query('bulk', [{ type: 'delete', args: { table: 'note', where: { id: 2 } } }]),
      () => server.query('run_sql', { sql: `insert into note values (3, 'three')` }),
      () => mutate(server, 'mutation { delete_note(where: {id: {_eq: 3}}) { affected_rows } }'),
    ]
    for (const write of writes) {
      const { headers } = await write()
      const after = headers.get('rowhouse-position')
      t.ok(after)
      const own = await read(server, { table: 'place', columns: ['port'] }, { 'rowhouse-position': after! })
      t.equal(own.status, 200)
    }
    const seen = new Set<number>()
    for (let i = 0; i < 50 && !seen.has(ports.standby); i++) {
      const { headers } = await update(`again ${i}`)
      seen.add(await place({ 'rowhouse-position': headers.get('rowhouse-position')! }))
    }
    t.ok(seen.has(ports.standby), 'a read waits a moment for a standby')
  })

  await t.test('never run with metadata that the standby has not replayed', async (t) => {
    await usable()
    await standby.query('select pg_wal_replay_pause()')
    await server.must('run_sql', { sql: `alter table note add column tag text default 'x'` })

    const tagged = await read(server, { table: 'note', columns: ['id', 'tag'] })

    t.same(tagged.body, [{ id: 1, tag: 'x' }])
    t.equal(await place(), ports.primary)
    await standby.query('select pg_wal_replay_resume()')
    await usable()
    t.same((await read(server, { table: 'note', columns: ['id', 'tag'] })).body, [{ id: 1, tag: 'x' }])
  })

  await t.test('run on the primary while the standby is too far behind', async (t) => {
    await usable()
    await standby.query('select pg_wal_replay_pause()')
    await server.must('update', { table: 'note', where: { id: 1 }, $set: { text: 'late' } })

    await until('the lag counts', async () => (await place()) === ports.primary)

    t.equal((await read(server, NOTES)).body[0].text, 'late')
    const { status, detail } = await probe()
    t.equal(status, 200)
    t.match(detail, /^degraded: it is \d+ ms behind \(database\.maxLagMs\); at most \d+ ms and \d+ bytes behind$/)
    t.equal(await gauge('standby_usable'), 0)
    t.ok((await gauge('standby_lag_seconds')) > 1, 'the lag is known all the time')
    const isLag = (text?: string) =>
      /^the standby cannot be used: it is \d+ ms behind \(database\.maxLagMs\)$/.test(text ?? '')
    await until('the log says so', async () => isLag((await logged()).at(-1)))
    await standby.query('select pg_wal_replay_resume()')
    await usable()
    await until('the log says that it can be used', async () => (await logged()).at(-1) === 'the standby can be used: ')
    t.equal(await gauge('standby_usable'), 1)
  })

  await t.test('go on when the standby stops, and return to it', async (t) => {
    const reading = { stopped: false, failed: [] as string[] }
    const reads = (async () => {
      while (!reading.stopped) {
        const { status, text } = await read(server, NOTES)
        if (status !== 200) reading.failed.push(text)
      }
    })()
    await standby.stop()
    await until('the probe says so', async () => (await probe()).detail.startsWith('degraded: it does not answer'))
    await standby.start()
    await usable()
    reading.stopped = true
    await reads

    t.same(reading.failed, [])
  })
})

t.test('a read on a standby that falls silent runs again on the primary', async (t) => {
  await primary.query(`create view slept as select 1 as id, pg_sleep(0.5)::text as text`)
  const proxy = await startProxy(t, standby.url)
  const server = await testServer(t, {
    databaseUrl: primary.url,
    config: { database: { readUrls: [proxy.url], maxLagMs: patience(2000) } },
  })
  await server.must('track_table', 'slept')
  const place = { table: 'place', columns: ['port'] }
  await until('the standby is used', async () => (await read(server, place)).body[0].port === portOf(standby))
  proxy.when('"slept"', { kind: 'hang' })

  const answer = await read(server, { table: 'slept', columns: ['id'] })
  t.match(answer, { status: 200, text: '[{"id":1}]' })
  t.equal(proxy.sentTimes('"slept"'), 1, 'it began on the standby')
  proxy.killAll()
  proxy.set({ kind: 'pass' })
})

t.test('a URL of several hosts finds the primary', async (t) => {
  const both = `postgresql://postgres@${standby.place},${primary.place}/postgres?target_session_attrs`
  const server = await testServer(t, { databaseUrl: `${both}=read-write` })

  t.match(await port(server), [String(portOf(primary))])
  const other = await testServer(t, { databaseUrl: `${both}=standby` })
  t.match(await port(other), [String(portOf(standby))])
  await t.rejects(testServer(t, { databaseUrl: `${both}=best` }), /must be a PostgreSQL URL/)
  const readUrls = [`${both}=standby`]
  await t.rejects(testServer(t, { databaseUrl: primary.url, config: { database: { readUrls } } }), /several hosts/)
})

t.test('a server on a standby alone', async (t) => {
  const options = { files: true, notify: true }
  const config = { database: { readUrls: [standby.url] } }
  const before = await testServer(t, { ...options, databaseUrl: primary.url, config })
  await before.must('update', { table: 'note', where: {}, $set: { text: 'a' } })
  await until('the standby has it', async () => {
    const [row] = await standby.query<{ text: string }>('select text from note')
    return row?.text === 'a'
  })
  const server = await testServer(t, { ...options, databaseUrl: standby.url })

  await t.test('reads, and refuses to write', async (t) => {
    t.same((await read(server, NOTES)).body, [{ id: 1, text: 'a' }])
    const insert = { table: 'note', objects: [{ id: 2, text: 'b' }] }
    for (const [type, args] of [
      ['insert', insert],
      ['bulk', [{ type: 'insert', args: insert }]],
      ['untrack_table', { table: 'note' }],
      ['run_sql', { sql: `insert into note values (2, 'b')` }],
    ] as const) {
      const { status, body, headers } = await server.query(type, args)
      t.match({ type, status, body }, { type, status: 503, body: { code: 'read-only' } })
      t.equal(headers.get('retry-after'), '1')
    }
    const { status, body } = await server.fetch('/readyz')
    t.equal(status, 200)
    const found = body.probes.find(({ name }: { name: string }) => name === 'database')
    t.equal(found.detail, 'read-only: the database is a standby')
    t.equal((await server.must('server_status', {})).database.standby, true)
  })

  await t.test('follows metadata, and leaves no connections behind', async (t) => {
    await before.must('create_select_permission', {
      table: 'note',
      role: 'user',
      permission: { columns: ['id'], filter: {} },
    })

    await until('it holds', async () => (await read(server, NOTE_IDS, {}, { role: 'user' })).status === 200)

    const [row] = await standby.query<{ count: number }>(
      `select count(*)::int from pg_stat_activity where application_name = 'rowhouse listen'`,
    )
    t.equal(row!.count, 0)
  })

  await t.test('writes once it is promoted', async (t) => {
    await standby.query('select pg_promote()')

    await until('it writes', async () => {
      const { status } = await server.query('insert', { table: 'note', objects: [{ id: 3, text: 'c' }] })
      return status === 200
    })
    const url = `postgresql://postgres@${primary.place},${standby.place}/postgres?target_session_attrs=read-write`
    await until('the other server notices', async () => {
      const { body } = await before.fetch('/readyz')
      return body.probes.some(({ detail }: any) => detail?.startsWith('degraded: it does not follow the primary'))
    })
    t.equal((await read(before, NOTES)).text, '[{"id":1,"text":"a"}]', 'it reads on the primary')
    await before.close()
    const [folder] = await primary.query<{ data_directory: string }>('show data_directory')
    await primary.query(`
      update note set text = 'lost';
      create table filler as select generate_series(1, 50000)`)
    await primary.stop()
    const either = await testServer(t, { databaseUrl: url })
    t.match(await either.query('delete', { table: 'note', where: { id: 3 } }), { status: 200 })
    await either.close()

    await writeFile(join(folder!.data_directory, 'standby.signal'), '')
    await primary.start()
    t.match(await primary.query('select text from note'), [{ text: 'lost' }], 'it was ahead, and is a standby now')
    const after = await testServer(t, { databaseUrl: standby.url, config: { database: { readUrls: [primary.url] } } })
    await until('the commits that were lost are noticed', async () => {
      const { body } = await after.fetch('/readyz')
      return body.probes.some(({ detail }: any) => detail?.startsWith('degraded: it has commits that the primary lost'))
    })
    t.equal((await read(after, NOTES)).text, '[{"id":1,"text":"a"}]', 'it reads on the primary')
    await after.close()

    await primary.stop()
    const late = await testServer(t, {
      databaseUrl: standby.url,
      config: { database: { readUrls: [primary.url], maxLagMs: patience(60_000) } },
    })
    await standby.query('create table more as select generate_series(1, 200000)')
    await primary.start()
    await until('it was checked', async () => {
      const { body } = await late.fetch('/readyz')
      const { detail } = body.probes.find(({ name }: any) => name === `standby ${primary.place}`)
      return !/it does not answer|it was not checked/.test(detail)
    })
    for (let i = 0; i < 3; i++)
      t.equal((await read(late, NOTES)).text, '[{"id":1,"text":"a"}]', 'the primary has overtaken it, and is read')
    await late.close()
  })
})

t.test('a server of PostgreSQL that falls silent while its role is checked costs one connection', async (t) => {
  const { url } = await freshDatabase(t)
  const proxy = await startProxy(t, url)
  const pool = new pg.Pool({
    ...connectionTo(`${proxy.url}?target_session_attrs=read-write`),
    connectionTimeoutMillis: patience(1000),
  })
  const first = await pool.connect()
  proxy.when('pg_is_in_recovery', { kind: 'hang' })

  await t.rejects(pool.connect())
  first.release(true)
  proxy.killAll()
  proxy.set({ kind: 'pass' })
  t.match(await pool.query('select 1 as n'), { rows: [{ n: 1 }] })
  await pool.end()
})

const NOTES = { table: 'note', columns: ['id', 'text'] }
const NOTE_IDS = { table: 'note', columns: ['id'] }
const JSON_TYPE = { 'content-type': 'application/json' }

const portOf = ({ url }: Node): number => Number(new URL(url).port)
const read = (server: TestServer, args: object, headers: Record<string, string> = {}, as?: As) =>
  server.raw(JSON.stringify({ type: 'select', args }), as, headers)
const mutate = (server: TestServer, query: string) =>
  server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }), headers: JSON_TYPE })
/** Returns how many sessions have or want a lock of the table. */
async function locks(): Promise<number> {
  const [row] = await primary.query<{ count: number }>(
    `select count(*)::int from pg_locks where relation = 'gate'::regclass`,
  )
  return row!.count
}
async function port(server: TestServer): Promise<string[]> {
  const { result } = await server.must('run_sql', { sql: 'select inet_server_port()', read_only: true })
  return result[1]
}
