import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createServer as createTlsServer } from 'node:tls'
import t, { type Test } from 'tap'
import { selfSigned } from '../kit/certificate.js'
import { freshDatabase } from '../kit/database.js'
import { ADMIN_SECRET, type TestServer, testServer } from '../kit/server.js'
import { PROCESSES } from '../kit/several-processes.js'

/** Rows of all lengths: none of it, some that fill more than one block of memory, and most a little. */
const ROWS = 9_000
const lengthOf = (id: number): number => (id % 3000 === 7 ? 700_000 : id % 600 === 9 ? 70_000 : (id * 7919) % 900)
const textOf = (table: Table, id: number): string => `${table}${id % 10}`.repeat(lengthOf(id))
const TABLES = ['a', 'b', 'c'] as const
type Table = (typeof TABLES)[number]
const TABLES_SQL = TABLES.map(
  (table) => `
create table ${table} (id int primary key, text text not null);
insert into ${table} select i, repeat('${table}' || i % 10, case when i % 3000 = 7 then 700000
  when i % 600 = 9 then 70000 else (i::bigint * 7919) % 900 end::int) from generate_series(1, ${ROWS}) i;`,
).join('')

/** The lines of each form, by id. */
const FORMS: Readonly<Record<string, (text: string, id: number) => string>> = {
  'application/json': (text, id) => `${id === 1 ? '[' : ','}{"id":${id},"text":"${text}"}`,
  'application/x-ndjson': (text, id) => `{"id":${id},"text":"${text}"}\n`,
  'text/csv': (text, id) => `${id === 1 ? 'id,text\r\n' : ''}${id},${text === '' ? '""' : text}\r\n`,
}
const ADMIN = { 'x-service-admin-secret': ADMIN_SECRET }
const TAIL: Readonly<Record<string, string>> = { 'application/json': ']' }

t.test('streams at once, fast, slow and broken off, each have their own rows to the last byte', async (t) => {
  const server = await served(t, { config: { database: { streamPoolSize: 30 } } })
  const readers: Promise<unknown>[] = []
  for (const table of TABLES) {
    for (const [form, line] of Object.entries(FORMS)) {
      readers.push(reads(t, server, table, form, line, 0))
      readers.push(reads(t, server, table, form, line, 1))
    }
    readers.push(breaksOff(server, table))
  }
  await Promise.all(readers)
  // What they have used is used again.
  for (const [form, line] of Object.entries(FORMS)) await reads(t, server, 'b', form, line, 0)
})

const skip = PROCESSES > 1 && 'each process counts its own'
t.test('memory of chunks is used again when nobody else can have them', { skip }, async (t) => {
  const server = await reusing(t)
  const first = await whole(server)
  t.same(first, { right: true, told: CHUNKS })
  t.same(await whole(server, 5), first, 'whoever reads slowly')
})

t.test('memory that a middleware may keep is not used again, and the body comes whole', async (t) => {
  for (const [how, touch] of Object.entries(TOUCHES)) {
    const server = await reusing(t, touch)
    const { right, told } = await whole(server, 1)
    t.ok(right && (told === 0 || (how === LATE && told < CHUNKS)), `${how}: ${told} told`)
    const kept = await server.fetch('/kept').then(({ text }) => text)
    if (touch.includes('keep')) t.equal(kept, 'as it was', `${how}, as it was kept`)
  }
})

t.test('over TLS to the database it is the same', async (t) => {
  const { url } = await freshDatabase(t)
  const server = await served(t, { databaseUrl: await inTls(t, url) })

  for (const [form, line] of Object.entries(FORMS)) await reads(t, server, 'c', form, line, 0)
})

t.test('a read that PostgreSQL refuses, at once or after many rows, keeps its connection', async (t) => {
  for (const kind of ['fast', 'plain', 'pooled']) {
    const { url } = await freshDatabase(t)
    const config = { fast: kind === 'fast', ...(kind === 'pooled' ? { database: { directUrl: url } } : {}) }
    const server = await served(t, { databaseUrl: url, config })
    await server.must('run_sql', { sql: 'create view late as select id, text, 1 / (8000 - id) as n from a' })
    await server.must('track_table', 'late')
    const connections = async () =>
      (await server.sql(`select pid from pg_stat_activity where application_name = 'rowhouse stream'`)).result.slice(1)
    const read = (args: object) =>
      server.query('select', { table: 'late', columns: ['id', 'text'], order_by: 'id', ...args })
    const found = async () => {
      const { status, body } = await read({ where: { id: { $lt: 4000 } } })
      return [status, body.length]
    }
    t.same(await found(), [200, 3999], kind)
    let isKept = false
    // A busy machine closes connections for other reasons.
    for (let i = 0; i < 6 && !isKept; i++) {
      const before = await connections()
      t.equal((await read({ where: { id: 'x' } })).status, 400, 'a value')
      t.same(await found(), [200, 3999])
      await t.rejects(read({ columns: ['id', 'text', 'n'] }), 'after many rows')
      t.same(await found(), [200, 3999])
      const after = new Set((await connections()).flat())
      isKept = before.length > 0 && before.flat().every((pid) => after.has(pid))
    }
    t.ok(isKept, kind)
  }
})

async function served(t: Test, options: Parameters<typeof testServer>[1] = {}): Promise<TestServer> {
  const server = await testServer(t, options)
  await server.must('run_sql', { sql: TABLES_SQL })
  await server.must(
    'bulk',
    TABLES.map((name) => ({ type: 'track_table', args: name })),
  )
  return server
}

/** Reads a whole table and compares every line. */
async function reads(
  t: Test,
  server: TestServer,
  table: Table,
  form: string,
  line: (text: string, id: number) => string,
  pauseMs: number,
): Promise<void> {
  let id = 1
  let rest = ''
  let wrong = 0
  for await (const chunk of await opened(server, table, form)) {
    rest += (chunk as Buffer).toString('latin1')
    for (let expected = line(textOf(table, id), id); id <= ROWS && rest.length >= expected.length;) {
      if (!rest.startsWith(expected)) wrong++
      rest = rest.slice(expected.length)
      expected = line(textOf(table, ++id), id)
    }
    if (pauseMs > 0) await sleep(pauseMs)
  }
  t.same({ rows: id - 1, wrong, rest }, { rows: ROWS, wrong: 0, rest: TAIL[form] ?? '' }, `${table} as ${form}`)
}

async function breaksOff(server: TestServer, table: Table): Promise<void> {
  for (let times = 0; times < 10; times++) {
    const answer = await opened(server, table, 'application/x-ndjson')
    await once(answer, 'data')
    answer.destroy()
  }
}

async function opened(server: TestServer, table: Table, accept: string): Promise<IncomingMessage> {
  const headers = { ...ADMIN, accept }
  const body = JSON.stringify({ type: 'select', args: { table, columns: ['id', 'text'], order_by: 'id' } })
  const asked = request(`${server.url}/v1/query`, { method: 'POST', headers, agent: false }).end(body)
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  return answer
}

const CHUNKS = 200
const CHUNK_BYTES = 50_000
const letterOf = (i: number): string => String.fromCharCode(97 + (i % 26))

const LATE = 'a listener that comes late'

/** What a middleware does with the body of `ctx` and with `keep`, which takes chunks. */
const TOUCHES: Readonly<Record<string, string>> = {
  'a stream between': `
    const transform = (chunk, _encoding, done) => (keep(chunk), done(null, chunk))
    ctx.body = ctx.body.pipe(new Transform({ transform, readableHighWaterMark: 64 * 1024 * 1024 }))`,
  'a listener': `ctx.body.on('data', keep)`,
  'a listener for once': `ctx.body.once('data', keep)`,
  'a listener that goes': `
    const { body } = ctx
    let left = 3
    const listener = (chunk) => (keep(chunk), --left === 0 && body.off('data', listener))
    body.on('data', listener)`,
  [LATE]: `
    const { body, res } = ctx
    res.once('drain', () => body.on('data', keep))`,
  'a look at the beginning': `
    const { body } = ctx
    await once(body, 'readable')
    body.unshift(body.read(20_000))`,
  'a pause': `
    const { body } = ctx
    await once(body, 'readable')
    body.pause()`,
  'a second reader': `ctx.body.pipe(new Writable({ write: (chunk, _encoding, done) => (keep(chunk), done()) }))`,
  'a function in place of write': `
    const { write } = ctx.res
    ctx.res.write = (chunk, ...rest) => (keep(chunk), write.call(ctx.res, chunk, ...rest))`,
}

/** A server whose `/chunks` answers each chunk in one of few pieces of memory, which it spoils when it is told to use it again. */
async function reusing(t: Test, touch?: string): Promise<TestServer> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-streams-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const plugin = join(folder, 'plugin.mjs')
  await writeFile(
    plugin,
    `
import { once } from 'node:events'
import { Transform, Writable } from 'node:stream'
const bytes = ${CHUNK_BYTES}
export default {
  name: 'reuser',
  setup(host) {
    const free = []
    let told = 0
    let kept = []
    async function* chunks() {
      for (let i = 0; i < ${CHUNKS}; i++) yield (free.pop() ?? Buffer.alloc(bytes)).fill(97 + (i % 26))
    }
    const sent = (chunk) => {
      told++
      free.push(chunk.fill('X'))
    }
    host.route('get', '/chunks', async () => {
      told = 0
      kept = []
      return { kind: 'stream', contentType: 'text/plain', chunks: chunks(), sent }
    })
    host.route('get', '/told', async () => ({ kind: 'text', text: String(told) }))
    host.route('get', '/kept', async () => {
      const isWhole = Buffer.concat(kept).every((byte, i) => byte === 97 + ((kept[0][0] - 97 + Math.floor(i / bytes)) % 26))
      return { kind: 'text', text: isWhole && kept.length > 0 ? 'as it was' : 'something else' }
    })
    ${touch === undefined ? '' : 'host.middleware(touch)'}
    async function touch(ctx, next) {
      await next()
      if (ctx.path !== '/chunks') return
      const keep = (chunk) => kept.push(chunk)
      ${touch ?? ''}
    }
  },
}`,
  )
  return testServer(t, { config: { plugins: { reuser: JSON.stringify({ use: plugin }) } } })
}

/** Reads all that `/chunks` answers. */
async function whole(server: TestServer, pauseMs = 0): Promise<{ readonly right: boolean; readonly told: number }> {
  const asked = request(`${server.url}/chunks`, { headers: ADMIN, agent: false }).end()
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  let text = ''
  for await (const chunk of answer) {
    text += (chunk as Buffer).toString('latin1')
    if (pauseMs > 0) await sleep(pauseMs)
  }
  const right = text === Array.from({ length: CHUNKS }, (_, i) => letterOf(i).repeat(CHUNK_BYTES)).join('')
  return { right, told: Number((await server.fetch('/told')).text) }
}

/** @returns where a PostgreSQL is reached by TLS, which ends in front of it */
async function inTls(t: Test, url: string): Promise<string> {
  const { key, cert } = selfSigned('localhost')
  const target = new URL(url)
  const { hostname, port } = target
  const sockets = new Set<Socket>()
  const inside = createTlsServer({ key, cert }, (plain) => {
    const upstream = connect({ host: hostname, port: Number(port) })
    plain.on('error', () => upstream.destroy()).pipe(upstream)
    upstream.on('error', () => plain.destroy()).pipe(plain)
  })
  const server = createServer((socket) => {
    sockets.add(socket)
    socket
      .on('error', () => {})
      .once('readable', () => {
        // A request for TLS, which is granted.
        socket.read(8)
        socket.write('S')
        inside.emit('connection', socket)
      })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  target.host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  target.searchParams.set('sslmode', 'no-verify')
  return target.href
}
