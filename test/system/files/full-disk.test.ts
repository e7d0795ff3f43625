import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chown, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { rowsOf } from '../../kit/database.js'
import { filestore } from '../../kit/files.js'
import { type Answered, testServer, type TestServer } from '../../kit/server.js'

const skip = process.getuid?.() === 0 ? false : 'needs root, to mount a small disk'
const USER = { role: 'user' } as const

t.test(
  'while the disk of PostgreSQL is full, reads go on and writes say so, and nothing is lost',
  { skip },
  async (t) => {
    const disk = await mountDisk(t, '6m')
    const server = await testServer(t, { config: { log: { level: 'info' } } })
    const [row] = await rowsOf<{ folder: string }>(
      server.databaseUrl,
      `select current_setting('data_directory') as folder`,
    )
    const { uid, gid } = await stat(row!.folder)
    await chown(disk.path, uid, gid)
    await rowsOf(server.databaseUrl, `create tablespace small location '${disk.path}'`)
    // A tablespace belongs to no database, so it outlives that of the test unless it is empty.
    t.teardown(async () => {
      await rowsOf(server.databaseUrl, 'drop table if exists note')
      await rowsOf(server.databaseUrl, 'drop tablespace small')
    })
    await server.sql(`
    create table note (id int primary key using index tablespace small, text text not null) tablespace small;
    alter table note alter text set storage external;
    create table other (id int primary key)`)
    for (const table of ['note', 'other']) {
      await server.must('track_table', table)
      await server.must('create_insert_permission', { table, role: 'user', permission: { check: {}, columns: '*' } })
      await server.must('create_select_permission', { table, role: 'user', permission: { columns: '*', filter: {} } })
    }
    await server.must('create_query_template', {
      name: 'add',
      template: { type: 'insert', args: { table: 'note', objects: { param: 'objects' } } },
    })
    const kept: number[] = []
    let id = 0
    const row64 = () => ({ id: ++id, text: randomBytes(24 * 1024).toString('hex') })
    const insert = (objects: object[]) => server.query('insert', { table: 'note', objects }, USER)
    let answer: Answered
    do {
      const row = row64()
      answer = await insert([row])
      if (answer.status === 200) kept.push(row.id)
    } while (answer.status === 200 && id < 1000)

    const FULL = 'the disk of the database is full'
    t.match(answer, { status: 503, body: { code: 'unavailable', error: FULL, path: '$' } })
    t.equal(answer.headers.get('retry-after'), '30')
    t.notMatch(answer.text, /internal|extend/, 'a role learns no more')
    const graphql = (row: object) =>
      server.fetch('/v1/graphql', {
        method: 'POST',
        body: JSON.stringify({
          query: 'mutation ($row: note_insert_input!) { insert_note_one(object: $row) { id } }',
          variables: { row },
        }),
      })
    t.match((await graphql(row64())).body, { errors: [{ message: FULL, extensions: { code: 'unavailable' } }] })
    const doors: Record<string, () => Promise<Answered>> = {
      admin: () => server.query('insert', { table: 'note', objects: [row64()] }),
      bulk: () => server.query('bulk', [{ type: 'insert', args: { table: 'note', objects: [row64()] } }]),
      template: () =>
        server.fetch('/v1/template/add', { method: 'POST', body: JSON.stringify({ objects: [row64()] }) }),
      many: () => insert([row64(), row64()]),
    }
    for (const [door, ask] of Object.entries(doors)) {
      const { status, headers, body } = await ask()
      t.match([status, headers.get('retry-after'), body.error], [503, '30', FULL], door)
      if (door !== 'many')
        t.match(body.internal, { status_code: '53100', message: /No space left|could not extend/ }, door)
    }

    t.match(await server.query('count', { table: 'note' }, USER), { status: 200, body: { count: kept.length } })
    t.equal((await server.query('select', { table: 'note', columns: ['id', 'text'] }, USER)).body.length, kept.length)
    t.equal(
      (await server.query('insert', { table: 'other', objects: [{ id: 1 }] }, USER)).status,
      200,
      'elsewhere is room',
    )
    t.equal((await server.fetch('/readyz')).status, 200)
    const metrics = (await server.fetch('/metrics')).text
    t.match(metrics, /^rowhouse_database_breaker_open 0$/m)
    t.match(metrics, /^rowhouse_errors_total\{route="\/v1\/graphql",code="unavailable"\} 1$/m)
    t.match(await linesOf(server, 'request failed'), [
      { level: 'warn', sqlstate: '53100', code: 'unavailable', error: FULL, route: '/v1/query', requestId: String },
    ])

    disk.grow('32m')
    const later = row64()
    t.equal((await insert([later])).status, 200, 'served again without a restart')
    const rows = (await server.query('select', { table: 'note', columns: ['id'], order_by: 'id' }, USER)).body
    t.same(
      rows.map((row: { id: number }) => row.id),
      [...kept, later.id],
      'all that was acknowledged, and nothing else',
    )
  },
)

t.test('while the disk of the files is full, downloads go on, uploads say so, and readyz too', { skip }, async (t) => {
  const disk = await mountDisk(t, '4m')
  const server = await filestore(t, {}, {}, undefined, {
    log: { level: 'info' },
    providers: { storage: { disk: { root: disk.path } } },
  })
  const store = async () => {
    const { status, body } = await server.fetch('/readyz')
    const { ok, detail } = body.probes.find(({ name }: { name: string }) => name === 'filestore.store')
    return { status, ok, detail }
  }
  t.equal((await server.put('old', 'old bytes')).status, 200)
  t.same(await store(), { status: 200, ok: true, detail: undefined })
  const large = randomBytes(3 * 2 ** 20)
  t.equal((await server.put('large', large)).status, 200)

  // Found without an upload, once nearly nothing is left.
  await writeFile(join(disk.path, 'ballast'), randomBytes(2 ** 20 - 300_000))
  t.match(await store(), {
    status: 200,
    ok: true,
    detail: /^degraded: storage\.disk: cannot write to .*: no space left/,
  })
  const refused = await server.put('new', large)
  t.match(refused, { status: 503, body: { code: 'storage_unavailable' } })
  t.equal(refused.headers.get('retry-after'), '30')
  t.equal((await server.get('old')).text, 'old bytes')
  t.equal((await server.get('new')).status, 404, 'nothing of it is left')
  t.match((await server.fetch('/metrics')).text, /rowhouse_errors_total\{route="[^"]*",code="storage_unavailable"\} 1/)

  disk.grow('16m')
  t.equal((await server.put('new', large)).status, 200)
  t.match(
    await store(),
    { status: 200, ok: true, detail: /^degraded: an upload failed \d+ s ago: ENOSPC/ },
    'for a while',
  )
})

const linesOf = async (server: TestServer, msg: string) => {
  const { lines } = await server.must('log_lines', { level: 'warn' })
  return lines
    .map(({ line }: { line: Record<string, unknown> }) => line)
    .filter((line: { msg: string }) => line.msg === msg)
}

/** Mounts a disk of a size. */
async function mountDisk(t: Test, size: string) {
  const path = await mkdtemp(join(tmpdir(), 'rowhouse-disk-'))
  const run = (command: string, ...args: string[]) => {
    const { status, stderr } = spawnSync(command, args, { encoding: 'utf8' })
    if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stderr}`)
  }
  run('mount', '-t', 'tmpfs', '-o', `size=${size}`, 'rowhouse-test', path)
  t.teardown(async () => {
    run('umount', '--lazy', path)
    await rm(path, { recursive: true, force: true })
  })
  return { path, grow: (to: string) => run('mount', '-o', `remount,size=${to}`, path) }
}
