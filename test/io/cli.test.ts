import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { loadedCommands } from '../../core/cli/plugin-command.js'
import { builtins } from '../../core/cli/builtins.js'
import { Unreachable } from '../../core/db/unreachable.js'
import { inspectEmbedded } from '../../providers/database/embedded/index.js'
import { run, start } from '../kit/command.js'
import { selfSigned } from '../kit/certificate.js'
import { freshDatabase, rowsOf } from '../kit/database.js'
import { unheard } from '../kit/fsck.js'
import { refusingPostgres } from '../kit/refusing-postgres.js'
import { until } from '../kit/until.js'

const SECRET = 'a secret for the tests of the command line'
const ADMIN = { 'x-service-admin-secret': SECRET }

t.test('init writes the files of a project, and keeps those that exist', async (t) => {
  const folder = await newFolder(t)
  const read = (name: string) => readFile(join(folder, name), 'utf8')
  t.match(await run(folder, ['init']), { code: 1, err: /no package\.json.*npm init -y/ })
  await writeFile(join(folder, 'package.json'), '{"scripts": 1}')
  t.match(await run(folder, ['init']), { code: 1, err: /package\.json must be/ })
  const scripts = { test: 'true', start: 'node server.js' }
  const manifest = { name: 'shop', type: 'commonjs', scripts, license: 'MIT' }
  await writeFile(join(folder, 'package.json'), JSON.stringify(manifest, null, '\t'))

  const written = [
    'wrote rowhouse.config.mjs',
    'wrote .gitignore',
    'added scripts to package.json: dev, check, migrate, metadata:export, metadata:apply',
    'kept scripts of package.json: start',
  ]
  t.match(await run(folder, ['init']), { code: 0, out: `${written.join('\n')}\n` })
  t.match(JSON.parse(await read('package.json')), { ...manifest, scripts: { ...scripts, dev: 'rowhouse dev' } })
  t.match(await read('package.json'), '\n\t"name": "shop",\n')

  const { url } = await freshDatabase(t)
  const env = { DATABASE_URL: url, ROWHOUSE_ADMIN_SECRET: SECRET }
  t.match(await run(folder, ['migrate', 'up'], { env }), { code: 1, err: /rowhouse migrate new NAME/ })
  t.match(
    await run(folder, ['check'], { env }),
    { code: 0, out: /\d+ pending migrations/ },
    'an empty database is no mistake',
  )
  t.match(await run(folder, ['upgrade'], { env }), { code: 0 })
  t.match(await run(folder, ['check'], { env }), { code: 0, out: /configuration: .*rowhouse\.config\.mjs\n/ })
  const commented = await read('rowhouse.config.mjs')
  const other = await newFolder(t)
  await writeFile(join(other, 'rowhouse.config.mjs'), commented.replaceAll(/^( +)\/\/ (?=\w+: \{ )/gm, '$1'))
  await writeFile(join(other, 'hello.mjs'), HELLO)
  t.match(await run(other, ['check'], { env }), { code: 0 }, 'all that it proposes is valid')

  await writeFile(join(folder, '.gitignore'), 'node_modules\r\n')
  const kept = ['kept rowhouse.config.mjs', 'kept .gitignore; add .rowhouse/, .env', 'kept scripts']
  t.match(await run(folder, ['init']), { code: 0, out: new RegExp(kept.join('\n')) })
  t.equal(await read('.gitignore'), 'node_modules\r\n')
})

t.test('the scripts of init export metadata to where they migrate from', async (t) => {
  const folder = await newFolder(t)
  await writeFile(join(folder, 'package.json'), '{}')
  await run(folder, ['init'])
  const { scripts } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
  const [from, to] = [await freshDatabase(t), await freshDatabase(t)]
  const script = (name: string, { url }: { readonly url: string }) =>
    run(folder, scripts[name].split(' ').slice(1), { env: { DATABASE_URL: url } })
  await mkdir(join(folder, 'migrations'))
  await writeFile(join(folder, 'migrations/20260101000000_note.up.sql'), 'create table note (id int primary key)')
  const told = 'no migrations/metadata.json: the metadata stays as it is\n'

  t.match(await script('migrate', from), { code: 0, out: new RegExp(`applied 20260101000000_note\n${told}$`) })
  t.match(await run(folder, ['track', 'note'], { env: { DATABASE_URL: from.url } }), { code: 0 })
  t.match(await script('metadata:export', from), { code: 0, out: /wrote migrations\/metadata\.json\n$/ })
  t.match(await script('migrate', to), {
    code: 0,
    out: /applying metadata.json\n\+ table note\n {4}wider: role admin can use note\n[^]*applied\n/,
  })
  t.match(await script('metadata:apply', to), { code: 0, out: 'no differences\n' })
})

t.test('metadata travels between databases', async (t) => {
  const folder = await newFolder(t)
  const [from, to] = [await freshDatabase(t), await freshDatabase(t)]
  const [a, b] = [{ DATABASE_URL: from.url }, { DATABASE_URL: to.url }]
  t.match(await run(folder, ['upgrade', '--dry-run'], { env: a }), { code: 0, out: /would run core 001-metadata/ })
  t.match(await run(folder, ['upgrade'], { env: a }), { code: 0, out: /^migrating core 001-metadata\n/, err: '' })
  t.match(await run(folder, ['upgrade'], { env: a }), { code: 0, out: /svc_catalog is up to date/ })
  const server = await start(t, folder, ['start', '--port', '0'], { env: { ...a, ROWHOUSE_ADMIN_SECRET: SECRET } })
  const ask = (query: object) => post(server.url, query)
  await ask({ type: 'run_sql', args: { sql: 'create table note (id int primary key, text text, code bigint)' } })
  await ask({ type: 'track_table', args: 'note' })
  const length = 'create function length_of(n note) returns int language sql stable as $$ select length(n.text) $$'
  const all = 'create function all_notes() returns setof note language sql stable as $$ select * from note $$'
  await ask({ type: 'run_sql', args: { sql: `${length}; ${all}` } })
  await ask({ type: 'track_function', args: 'all_notes' })
  const field = { table: 'note', name: 'length', definition: { function: 'length_of' } }
  await ask({ type: 'add_computed_field', args: field })
  await ask({ type: 'set_table_customization', args: { table: 'note', configuration: { custom_name: 'memo' } } })
  const response = await fetch(`${server.url}/v1/query`, {
    method: 'POST',
    headers: { 'X-Service-Admin-Secret': SECRET },
    body: `{"type": "create_select_permission", "args": {"table": "note", "role": "user",
      "permission": {"columns": "*", "filter": {"code": {"$gt": 9007199254740993}}}}}`,
  })
  t.equal(response.status, 200)
  t.equal(await server.stop(), 0)

  t.match(await run(folder, ['metadata', 'export', 'all.json'], { env: a }), { code: 0 })
  const exported = await readFile(join(folder, 'all.json'), 'utf8')
  t.match(exported, /"\$gt": 9007199254740993\n/, 'numbers keep their digits')
  await writeFile(join(folder, 'other.json'), exported.replace('9007199254740993', '9007199254740992'))
  const text =
    'role user can read more rows of note: rows where code is greater than 9007199254740992 (was: rows where code is greater than 9007199254740993)'
  const changes = `~ permission note.user.select\n    wider: ${text}\n`
  t.match(await run(folder, ['metadata', 'diff', 'other.json'], { env: a }), { code: 1, out: changes })
  t.match(await run(folder, ['metadata', 'apply', 'other.json', '--dry-run'], { env: a }), {
    code: 0,
    out: `${changes}dry run: nothing was changed\n`,
  })
  t.match(
    await run(folder, ['metadata', 'diff', 'all.json'], { env: a }),
    { code: 0, out: /no difference/ },
    'a dry run leaves nothing',
  )
  const json = await run(folder, ['metadata', 'diff', 'other.json', '--json'], { env: a })
  t.match(json, { code: 1, out: /"\$gt": 9007199254740992\n/ })
  t.match(JSON.parse(json.out), {
    changes: [{ object: 'permission note.user.select', effects: [{ role: 'user', effect: 'wider', text }] }],
    refused: null,
  })
  t.match(await run(folder, ['metadata', 'diff', 'all.json'], { env: a }), { code: 0, out: /no difference/ })
  const missing = await run(folder, ['metadata', 'apply', 'all.json'], { env: b })
  t.match(missing, { code: 2, err: /table or view "note" does not exist in the database/ })
  t.strictSame(await run(folder, ['metadata', 'apply', 'all.json', '--dry-run'], { env: b }), missing)
  t.match(await run(folder, ['metadata', 'diff', 'all.json'], { env: b }), {
    code: 1,
    out: /\+ table note\n[^]*\napply would fail: table or view "note" does not exist in the database \(\$\.tables\[0\]\.table\)\n$/,
  })
  const other = await start(t, folder, ['start', '--port', '0'], { env: { ...b, ROWHOUSE_ADMIN_SECRET: SECRET } })
  await post(other.url, {
    type: 'run_sql',
    args: { sql: `create table note (id int primary key, text text, code bigint); ${length}; ${all}` },
  })
  t.equal(await other.stop(), 0)
  t.match(await run(folder, ['metadata', 'diff', 'all.json'], { env: b }), {
    code: 1,
    out: [
      '+ table note',
      '    wider: role admin can use note',
      '+ customization note',
      '+ permission note.user.select',
      '    wider: role user can read 3 columns of note: id, text, code (rows where code is greater than 9007199254740993)',
      '+ computed-field note.length',
      '+ function all_notes',
      '    wider: role admin can call all_notes\n',
    ].join('\n'),
  })
  t.match(await run(folder, ['metadata', 'apply', 'all.json'], { env: b }), {
    code: 0,
    out: /\+ table note[^]*\napplied\n$/,
  })
  t.match(await run(folder, ['metadata', 'diff', 'all.json'], { env: b }), { code: 0, out: /no difference/ })
  const secured = { ...b, ROWHOUSE_ADMIN_SECRET: SECRET }
  t.match(await run(folder, ['check'], { env: secured }), { code: 0, out: /1 table tracked/ })
  t.match(await run(folder, ['check'], { env: b }), { code: 1, out: /no way to authenticate/ })
  t.match(await run(folder, ['doctor'], { env: secured }), { code: 0, out: /superuser/ })
})

t.test('a login of few rights serves what doctor --grants grants, and check finds what start would find', async (t) => {
  const folder = await newFolder(t)
  const { url } = await freshDatabase(t)
  const name = new URL(url).pathname.slice(1)
  const [owner, few] = [`owner_${name}`, `few_${name}`]
  const as = (role: string) => Object.assign(new URL(url), { username: role, password: 'secret' }).href
  await rowsOf(url, `create role ${owner} login password 'secret'; create role ${few} login password 'secret'`)
  await rowsOf(url, `alter database ${name} owner to ${owner}`)
  t.teardown(async () => {
    await rowsOf(url, `drop owned by ${few}`)
    await rowsOf(url, `reassign owned by ${owner} to current_user; drop owned by ${owner}; drop role ${few}, ${owner}`)
  })
  const env = { DATABASE_URL: as(few), ROWHOUSE_ADMIN_SECRET: SECRET }
  const check = async () => JSON.parse((await run(folder, ['check', '--json'], { env })).out)

  const pending = /the login "few_\w+" may not run the \d+ pending migrations: run rowhouse upgrade with the login that/
  t.match(await run(folder, ['start', '--port', '0'], { env }), { code: 1, err: pending })
  t.match(await run(folder, ['upgrade'], { env }), { code: 1, err: pending })
  t.match(await run(folder, ['check'], { env }), { code: 1, out: new RegExp(`BAD +${pending.source}`) })
  const migrated = await run(folder, ['upgrade', '--json'], { env: { ...env, DATABASE_URL: as(owner) } })
  t.match(JSON.parse(migrated.out), {
    dry_run: false,
    settings: [],
    migrations: [{ owner: 'core', id: '001-metadata' }],
  })
  await rowsOf(as(owner), 'create table note (id serial primary key, text text)')
  t.match(await run(folder, ['track', 'note'], { env: { ...env, DATABASE_URL: as(owner) } }), { code: 0 })
  await rowsOf(
    as(owner),
    `insert into svc_catalog.svc_permission (table_schema, table_name, role_name, perm_type, perm_def)
     values ('public', 'note', 'user', 'insert', '{"columns": ["text"], "check": {}}')`,
  )
  t.match(await run(folder, ['check'], { env }), { code: 1, out: /BAD .*misses usage on schema svc_catalog/ })
  const unseen = { code: 1, err: /misses usage on schema svc_catalog: rowhouse doctor --grants prints/ }
  t.match(await run(folder, ['start', '--port', '0'], { env }), unseen)
  t.match(await run(folder, ['upgrade'], { env }), unseen)
  t.match(await check(), { ok: false })

  const grants = await run(folder, ['doctor', '--grants'], { env })
  t.equal(grants.code, 0, grants.err)
  await rowsOf(as(owner), grants.out)
  t.match(await run(folder, ['check'], { env }), { code: 0, out: /ok +rights: the login "few_\w+" has all/ })
  const { code, out } = await run(folder, ['doctor'], { env })
  t.equal(code, 0)
  t.match(
    out,
    /connections: a server opens up to 36 of (\d+) for this login: enough for \d+ servers?; with --processes, up to 80: enough for 1 server\n/,
  )
  t.match(out, /data directory: .*\.rowhouse\n/)
  t.notMatch(out, /embedded|no database yet|left over/, 'the database is that of DATABASE_URL')
  t.match(
    (await run(folder, ['check', '--processes', '4'], { env })).out,
    /a server of 4 processes opens up to 80 of \d+ for/,
  )
  t.match(await run(folder, ['check', '--processes', '12'], { env }), {
    code: 1,
    err: /maxConnections is 80, but 12 proc/,
  })
  t.match(JSON.parse((await run(folder, ['doctor', '--json'], { env })).out), {
    ok: true,
    version: String,
    findings: [],
  })

  const server = await start(t, folder, ['start', '--port', '0'], { env })
  const ask = async (type: string, args: unknown) => {
    const body = JSON.stringify({ type, args })
    const answer = await fetch(`${server.url}/v1/query`, { method: 'POST', headers: ADMIN, body })
    return { status: answer.status, body: (await answer.json()) as unknown }
  }
  t.match(await ask('insert', { table: 'note', objects: [{ text: 'one' }] }), { status: 200 })
  t.match(await ask('select', { table: 'note', columns: ['id', 'text'] }), {
    status: 200,
    body: [{ id: 1, text: 'one' }],
  })
  const permission = { table: 'note', role: 'user', permission: { columns: ['id'], filter: {} } }
  t.match(await ask('create_select_permission', permission), { status: 200 }, 'metadata may change')
  t.match(await ask('run_sql', { sql: 'create table other ()' }), { status: 400 }, 'and the schema may not')
  const file = await fetch(`${server.url}/v1/file/one`, {
    method: 'PUT',
    headers: { ...ADMIN, 'x-service-user-id': '1' },
    body: 'one',
  })
  t.equal(file.status, 200, await file.text())
  t.equal(await server.stop(), 0)

  await rowsOf(as(owner), `revoke insert on note from ${few}`)
  t.match(await check(), { ok: false, findings: [] })
  t.match(await run(folder, ['check'], { env }), {
    code: 1,
    out: /BAD .*misses insert on note: rowhouse doctor --grants/,
  })
  await rowsOf(as(owner), `grant insert on note to ${few}`)
  await rowsOf(url, `alter role ${few} set default_transaction_read_only = on`)
  t.match(await run(folder, ['check'], { env }), { code: 1, out: /BAD +the database is read-only/ })
  await rowsOf(url, `alter role ${few} reset default_transaction_read_only`)

  const broken = `export default { kind: 'sms', name: 'broken', create() { throw new Error('no such modem') } }`
  await writeFile(join(folder, 'broken.mjs'), broken)
  await writeFile(join(folder, 'rowhouse.config.json'), '{"providers": {"sms": {"main": {"use": "./broken.mjs"}}}}')
  t.match(await run(folder, ['check'], { env }), { code: 1, out: /BAD .*sms\.main.*no such modem/ })
  await writeFile(join(folder, 'rowhouse.config.json'), '{"http": {"prot": 1}}')
  const mistakes = { ok: false, findings: [{ ok: false, text: /^\$\.http\.prot: unknown key/ }] }
  t.match(await check(), mistakes)
  t.match(JSON.parse((await run(folder, ['doctor', '--json'], { env })).out), mistakes)
})

t.test('whatever keeps a connection from being opened is a finding with its setting and what to do', async (t) => {
  const folder = await newFolder(t)
  const { url } = await freshDatabase(t)
  await writeFile(
    join(folder, 'rowhouse.config.json'),
    JSON.stringify({ plugins: { filestore: false, notify: false } }),
  )
  await writeFile(join(folder, 'broken.pem'), 'no certificate')
  const local = selfSigned('localhost')
  await writeFile(join(folder, 'local.pem'), local.cert)
  const login = new URL(url)
  const at = (change: (place: URL) => void): string => {
    const place = new URL(url)
    change(place)
    return place.href
  }
  const refusing = (code: string, message: string, more: object = {}) => refusingPostgres(t, { code, message, ...more })
  const expired = selfSigned('localhost', -1)
  const verified = `sslmode=verify-full&sslrootcert=${join(folder, 'local.pem')}`
  const cases: Readonly<Record<string, readonly [url: string, reason: RegExp, hint: RegExp]>> = {
    refused: ['postgresql://a:marker@127.0.0.1:1/x', /ECONNREFUSED 127\.0\.0\.1:1/, /nothing listens/],
    'unknown host': ['postgresql://a:marker@nowhere.invalid/x', /nowhere\.invalid/, /name of the host is unknown/],
    'no socket': [`postgresql://a:marker@localhost/x?host=${folder}`, /ENOENT/, /nothing listens/],
    'unknown database': [at((place) => (place.pathname = '/nope')), /"nope" does not exist/, /create the database/],
    'unknown login': [at((place) => (place.username = 'nobody')), /nobody/, /check the user and the password/],
    'wrong password': [
      await refusing('28P01', 'password authentication failed'),
      /password/,
      /check the user and the pass/,
    ],
    'no line in pg_hba.conf': [
      await refusing('28000', 'no pg_hba.conf entry for x, no encryption'),
      /pg_hba/,
      /sslmode=ver/,
    ],
    'no right': [await refusing('42501', 'permission denied for database "x"'), /permission/, /grant connect/],
    'too many connections': [await refusing('53300', 'sorry, too many clients already'), /too many/, /max_connections/],
    'not started': [await refusing('57P03', 'the database system is starting up'), /starting up/, /has started/],
    'a connection pooler': [
      await refusing('08P01', 'unsupported startup parameter: statement_timeout', { only: 'statement_timeout' }),
      /unsupported startup parameter/,
      /connection pooler: set database\.directUrl/,
    ],
    'no such authority': [
      `${login.href}?sslmode=verify-full&sslrootcert=/nowhere/ca.crt`,
      /ENOENT/,
      /sslrootcert of the URL/,
    ],
    'no such key': [`${login.href}?sslmode=require&sslkey=/nowhere/me.key`, /ENOENT/, /sslkey of the URL/],
    'no certificate in the file': [
      `${await refusing('', '', { tls: local })}?sslmode=verify-full&sslrootcert=${join(folder, 'broken.pem')}`,
      /./,
      /sslrootcert|the other side/,
    ],
    'no TLS': [`${await refusing('28000', 'no')}?sslmode=verify-full`, /does not support SSL/, /switch on ssl/],
    'unknown authority': [
      `${await refusing('', '', { tls: local })}?sslmode=verify-full`,
      /self.signed/,
      /sslrootcert/,
    ],
    'another name': [
      `${(await refusing('', '', { tls: local })).replace('localhost', '127.0.0.1')}?${verified}`,
      /altnames|IP: 127/,
      /a name that the certificate/,
    ],
    'expired certificate': [
      `${await refusing('', '', { tls: expired })}?${verified.replace('local.pem', 'expired.pem')}`,
      /expired/,
      /renew the certificate/,
    ],
    'no PostgreSQL': [await refusing('', '', { closes: true }), /terminated|ECONNRESET/, /the other side closed/],
  }
  await writeFile(join(folder, 'expired.pem'), expired.cert)

  for (const [what, [wrong, reason, hint]] of Object.entries(cases)) {
    const env = { DATABASE_URL: wrong, ROWHOUSE_ADMIN_SECRET: SECRET }
    const { code, out, err } = await run(folder, ['check', '--json'], { env })
    t.equal(code, 1, what)
    t.equal(err, '', what)
    const found = JSON.parse(out).findings.find(({ path }: { path?: string }) => path === '$.database.url')
    t.match(found, { ok: false, text: reason, hint }, what)
    t.match(found?.text, hint, what)
    t.notMatch(out, /marker/, what)
  }
  for (const what of ['refused', 'a connection pooler', 'no such authority', 'unknown authority', 'unknown database']) {
    const [wrong, reason, hint] = cases[what]!
    const env = { DATABASE_URL: wrong, ROWHOUSE_ADMIN_SECRET: SECRET }
    for (const command of ['doctor', 'start', 'upgrade']) {
      if (command === 'upgrade' && what === 'a connection pooler') continue
      const { code, out, err } = await run(folder, [command], { env })
      t.equal(code, 1, `${command}: ${what}`)
      t.match(out + err, new RegExp(`database\\.url.*${reason.source}.*${hint.source}`), `${command}: ${what}`)
    }
  }
  const pooled = { DATABASE_URL: url, ROWHOUSE_DATABASE__DIRECT_URL: 'postgresql://127.0.0.1:1/x' }
  const readUrls = JSON.stringify([`${login.href}?sslmode=verify-full&sslrootcert=/nowhere/ca.crt`])
  const env = { ...pooled, ROWHOUSE_DATABASE__READ_URLS: readUrls, ROWHOUSE_ADMIN_SECRET: SECRET }
  const { findings } = JSON.parse((await run(folder, ['check', '--json'], { env })).out)
  const pathsOf = (list: { ok: boolean; path?: string }[]) =>
    list.flatMap(({ ok, path }) => (!ok && path ? [path] : []))
  t.same(pathsOf(findings), ['$.database.directUrl', '$.database.readUrls[0]'])
  t.match(new Unreachable('database.url', url, new Error('timeout expired')).hint, /nothing answers there in time/)
})

t.test('a store that cannot be written is found by check, start and readyz, and uploads fail with 503', async (t) => {
  const folder = await newFolder(t)
  const { url } = await freshDatabase(t)
  const env = { DATABASE_URL: url, ROWHOUSE_ADMIN_SECRET: SECRET }
  const found = /storage\.disk: cannot write to \S+\.rowhouse: not a directory/
  t.match(await run(folder, ['check'], { env }), { code: 0, out: /ok +provider: storage\.disk\n/ })
  t.same(await readdir(folder), [], 'check leaves nothing')
  await writeFile(join(folder, '.rowhouse'), '')

  t.match(await run(folder, ['check'], { env }), { code: 1, out: new RegExp(`BAD +${found.source}\n`) })
  const server = await start(t, folder, ['start', '--port', '0'], { env })
  const warned = new RegExp(`"level":"warn"[^\n]*${found.source}; uploads fail with 503`)
  await until('the start warns', () => warned.test(server.output()))
  const readyz = await fetch(`${server.url}/readyz`, { headers: ADMIN })
  t.equal(readyz.status, 200, 'what needs no files still works')
  t.match(await readyz.json(), { probes: [{ name: 'database' }, { name: 'filestore.store', ok: true, detail: found }] })
  const upload = { method: 'PUT', headers: { ...ADMIN, 'x-service-user-id': '1' }, body: 'one' }
  const refused = await fetch(`${server.url}/v1/file/one`, upload)
  t.equal(refused.status, 503)
  t.match(await refused.json(), { code: 'storage_unavailable', message: 'the store cannot accept files at the moment' })

  await rm(join(folder, '.rowhouse'))
  t.equal((await fetch(`${server.url}/v1/file/one`, upload)).status, 200)
  await rm(join(folder, '.rowhouse'), { recursive: true })
  t.equal((await fetch(`${server.url}/v1/file/two`, upload)).status, 503, 'its folder is gone')
  const after = await fetch(`${server.url}/readyz`, { headers: ADMIN })
  t.equal(after.status, 200)
  t.match(await after.json(), {
    probes: [{}, { name: 'filestore.store', ok: true, detail: /^degraded: an upload failed \d+ s ago: ENOENT/ }],
  })
  await writeFile(join(folder, 'rowhouse.config.json'), '{"plugins": {"filestore": false}, "dataDir": "/dev/null"}')
  t.match(await run(folder, ['check'], { env }), { code: 0 }, 'without the plugin nothing is stored')
})

t.test('an existing database is tracked by one command, and the server says so when it starts', async (t) => {
  const folder = await newFolder(t)
  const { url } = await freshDatabase(t)
  const env = { DATABASE_URL: url, ROWHOUSE_ADMIN_SECRET: SECRET }
  await rowsOf(
    url,
    `create table company (id int primary key); create table person (id int primary key, company_id int references company);
     create schema other; create table other.note (id int)`,
  )
  const hint = '3 tables found, 0 tracked: rowhouse track --all'
  const before = await start(t, folder, ['start', '--port', '0'], { env })
  await until('it says so', () => before.output().includes(hint))
  await before.stop()

  const shown = await run(folder, ['track'], { env })
  t.match(shown, { code: 0, out: /^would track 3 tables, 2 relationships, 0 functions\n/ })
  t.match(shown.out, /  other\.note\n[^]*  person\.company -> company\n  company\.people -> many person\n/)
  t.match(shown.out, /To track them: rowhouse track --all\n$/)
  const one = await run(folder, ['track', '--schema', 'other', '--dry-run', '--json'], { env })
  t.match(JSON.parse(one.out), { dry_run: true, tables: [{ schema: 'other', name: 'note' }] })
  t.match(await run(folder, ['track', 'other.note', 'company'], { env }), {
    code: 0,
    out: /^tracked 2 tables, 0 relation/,
  })
  t.match(await run(folder, ['track', '--all'], { env }), { code: 0, out: /^tracked 1 table, 2 relationships/ })
  t.same(await run(folder, ['track', '--all'], { env }), { code: 0, out: 'nothing new to track\n', err: '' })
  t.match(await run(folder, ['track', 'nope'], { env }), {
    code: 1,
    err: /does not exist in the database.*\(\$\.tables\[0\]\)/,
  })
  t.match(await run(folder, ['track', '--all', 'company'], { env }), { code: 1, err: /expected one of/ })
  const after = await start(t, folder, ['start', '--port', '0'], { env })
  t.match(await post(after.url, { type: 'count', args: { table: 'person' } }, SECRET), { count: 0 })
  t.notMatch(after.output(), /tables found/)

  const filter = { $not: { company: { id: 'X-Service-User-Id' } } }
  const permission = { table: 'person', role: 'user', permission: { columns: ['id'], filter } }
  await post(after.url, { type: 'create_select_permission', args: permission }, SECRET)
  await rowsOf(url, 'insert into company values (1); insert into person values (1, 1), (2, null)')
  t.same(await run(folder, ['why', 'user', 'select', 'person', 'id=1', '--user', '1'], { env }), {
    code: 1,
    out: `user may not select: the filter of the permission does not accept the row

filter:
  false  not
    true   some row of company: 1 found
      {"id":1}
        true   id: "X-Service-User-Id"   (id is 1)

session:
  x-service-user-id = 1

columns that user may not select:
  company_id
`,
    err: '',
  })
  t.match(await run(folder, ['why', 'user', 'select', 'person', 'id=2', '--user', '1'], { env }), {
    code: 0,
    out: /^user may select: the permission allows it\n\nfilter:\n {2}true {3}not\n/,
  })
  t.match(await run(folder, ['why', 'usr', 'select', 'person', 'id=2'], { env }), {
    code: 1,
    out: /^usr may not select: .* is not allowed\.\n[^]*no permission names the role "usr", did you mean "user"\?\n$/,
  })
  t.match(await run(folder, ['why', 'user', 'delete', 'person', 'id=2'], { env }), {
    code: 1,
    err: '',
    out: /is not allowed\.\n$/,
  })
  t.match(await run(folder, ['why', 'user', 'read', 'person'], { env }), {
    code: 2,
    err: /expected a role, one of select/,
  })
  t.match(await run(folder, ['why', 'user', 'select', 'person'], { env }), {
    code: 2,
    err: /select needs the key of a row/,
  })
  t.match(await run(folder, ['why', 'user', 'insert', 'person'], { env }), { code: 2, err: /insert needs --object/ })
  const variable = ['why', 'user', 'select', 'person', 'id=2', '--user', '1', '--session']
  t.match(await run(folder, [...variable, 'org=1'], { env }), { code: 2, err: /expected a session variable such as/ })
  t.match(await run(folder, [...variable, 'X-Service-Beta=true'], { env }), { code: 0, err: '' })
})

t.test('a database that dies under dev is started again, once', async (t) => {
  const folder = await newFolder(t)
  const server = await start(t, folder, ['dev', '--port', '0', '--no-sample'])
  const key = await readFile(join(folder, '.rowhouse/admin-secret'), 'utf8')
  const postmaster = async () => (await inspectEmbedded(join(folder, '.rowhouse'))).server?.pid ?? 0
  const sql = (text: string) => post(server.url, { type: 'run_sql', args: { sql: text } }, key)
  t.same(await sql('create table kept (id int)'), { result_type: 'CommandOk' })
  const first = await postmaster()

  process.kill(first, 'SIGKILL')
  await until('it runs again', () => server.output().includes('PostgreSQL is running again'))
  await until('the server uses it', async () => 'result' in ((await sql('select id from kept')) as object))
  const second = await postmaster()

  t.match(server.output(), /PostgreSQL ended unexpectedly; restarting it/)
  t.not(second, first)
  process.kill(second, 'SIGKILL')
  t.equal(await server.ended, 1)
  t.match(server.output(), /PostgreSQL ended unexpectedly again, within a minute/)
  t.equal(await postmaster(), 0, 'and nothing is left running')
})

t.test('where no plugin needs a database, none is started, asked for or opened', async (t) => {
  const folder = await newFolder(t)
  await writeFile(join(folder, 'package.json'), '{"type": "module"}')
  await writeFile(join(folder, 'hello.js'), HELLO)
  const off = { query: false, template: false, graphql: false, filestore: false, notify: false }
  const configure = (use: string) =>
    writeFile(join(folder, 'rowhouse.config.json'), JSON.stringify({ plugins: { ...off, hello: { use } } }))
  await configure('./hello.js')

  const dev = await start(t, folder, ['dev', '--port', '0'])
  t.match(dev.output(), /without a database/)
  t.notOk((await readdir(join(folder, '.rowhouse'))).some((name) => name !== 'admin-secret'))
  t.same(await (await fetch(`${dev.url}/readyz`)).json(), {
    status: 'ready',
    probes: [{ name: 'hello.mood', ok: true, detail: 'a little tired' }],
  })
  t.equal((await fetch(`${dev.url}/metrics`)).status, 200)
  const home = await fetch(dev.url, { headers: { accept: 'application/json' } })
  t.match(await home.json(), { database: 'none' })
  t.equal(await dev.stop(), 0)
  const server = await start(t, folder, ['start', '--port', '0'], { env: { ROWHOUSE_ADMIN_SECRET: SECRET } })
  t.equal(await (await fetch(`${server.url}/v1/hello`)).text(), 'hi')
  const secret = { headers: { 'X-Service-Admin-Secret': SECRET } }
  t.same(await (await fetch(`${server.url}/readyz`)).json(), { status: 'ready' }, 'start names nothing to strangers')
  t.match(await (await fetch(`${server.url}/readyz`, secret)).json(), { probes: [{ name: 'hello.mood' }] })
  t.equal((await fetch(`${server.url}/metrics`)).status, 401)
  t.equal((await fetch(`${server.url}/metrics`, secret)).status, 200)
  t.equal(await server.stop(), 0)
  t.match(await run(folder, ['check'], { env: { ROWHOUSE_ADMIN_SECRET: SECRET } }), {
    code: 0,
    out: /no plugin needs one/,
  })
  t.notMatch((await run(folder, ['check'], { env: { ROWHOUSE_ADMIN_SECRET: SECRET } })).out, 'listener')

  await writeFile(join(folder, 'needy.js'), HELLO.replace('setup(host) {', "setup(host) {\n    host.use('data')"))
  await configure('./needy.js')
  const wrong = await run(folder, ['start', '--port', '0'], { env: { ROWHOUSE_ADMIN_SECRET: SECRET } })
  t.match(wrong, {
    code: 1,
    err: /plugin "hello" uses "data", which does not exist because no plugin needs a database/,
  })
})

t.test('a plugin has a listener of its own, of which every command knows', async (t) => {
  const folder = await newFolder(t)
  await writeFile(join(folder, 'package.json'), '{"type": "module"}')
  await writeFile(join(folder, 'hello.js'), HELLO)
  const configure = (http: object) => {
    const off = {
      query: false,
      graphql: false,
      filestore: false,
      notify: false,
      sql: false,
      events: false,
      history: false,
      live: false,
    }
    const config = { http: { port: 0, ...http }, plugins: { ...off, hello: { use: './hello.js' } } }
    return writeFile(join(folder, 'rowhouse.config.json'), JSON.stringify(config))
  }
  const env = { ROWHOUSE_ADMIN_SECRET: SECRET }
  const hello = async (url = '') => (await fetch(`${url}/v1/hello`)).status

  await configure({ listeners: { plugins: ['hello'], port: 0 } })
  t.match(await run(folder, ['check'], { env }), {
    code: 0,
    out: /listener: 127\.0\.0\.1:0 for no plugin\n.*listener: 127\.0\.0\.1:0 for hello\n/,
  })
  const dev = await start(t, folder, ['dev'])
  const shown = /At (http:\S+): hello\./.exec(dev.output())?.[1]
  t.same([await hello(shown), await hello(dev.url)], [200, 404])
  t.equal(await dev.stop(), 0)

  const server = await start(t, folder, ['start'], { env })
  const logged = () => [...server.output().matchAll(/"url":"(\S+?)","plugins":(\[.*?\])/g)]
  await until('both are logged', () => logged().length === 2)
  t.same(
    logged().map(([, , plugins]) => plugins),
    ['[]', '["hello"]'],
  )
  t.same([await hello(logged()[0]?.[1]), await hello(logged()[1]?.[1])], [404, 200])
  t.equal(await server.stop(), 0)

  await configure({ listeners: [{ plugins: ['helo'], port: 0 }] })
  const path = '\\$\\.http\\.listeners\\[0\\]\\.plugins\\[0\\]'
  for (const command of ['check', 'start', 'dev']) {
    const wrong = await run(folder, [command], { env })
    t.match(
      wrong,
      { code: 1, err: new RegExp(`${path}: no plugin "helo" is loaded, did you mean "hello"\\?`) },
      command,
    )
  }
  await configure({ listeners: [{ plugins: ['hello'], socket: { path: join(folder, 'http') } }] })
  t.match(await run(folder, ['dev'], { env }), { code: 1, err: /http\.listeners\[0\]\.socket is for rowhouse start/ })
  const gateway = await run(folder, ['check'], { env: { ...env, ROWHOUSE_AUTH__MODE: 'gateway' } })
  t.match(gateway, { code: 1, out: /BAD  auth\.gatewaySecret is required .* http\.socket is not set/ })
})

t.test('a plugin brings a command of its own', async (t) => {
  const folder = await newFolder(t)
  const { url } = await freshDatabase(t)
  await writeFile(join(folder, 'package.json'), '{"type": "module"}')
  await writeFile(join(folder, 'counter.js'), COUNTER)
  const counter = { use: './counter.js', first: 3 }
  await writeFile(
    join(folder, 'on.json'),
    JSON.stringify({ plugins: { counter }, providers: { email: { memory: {} } } }),
  )
  const env = { DATABASE_URL: url }

  const on = (databaseUrl: string) =>
    loadedCommands({
      cwd: folder,
      file: 'on.json',
      env: databaseUrl === '' ? {} : { DATABASE_URL: databaseUrl },
      builtins: builtins(),
    })
  const counted = async (databaseUrl: string) => {
    const count = (await on(databaseUrl)).find(({ command }) => command.name === 'count')
    return count?.run({ ...unheard(), cwd: folder, flags: { up: true } })
  }

  await t.rejects(counted(''), /no database: set DATABASE_URL/)
  await t.rejects(counted('postgresql://127.0.0.1:1/x'), /cannot be reached.*127\.0\.0\.1:1/)
  await t.rejects(counted(url), /not up to date \(core \S+ has not run\).*rowhouse upgrade/)
  t.match(await run(folder, ['upgrade', '--config', 'on.json'], { env }), { code: 0 })
  t.equal(await counted(url), 4)

  const [help, ownHelp, hint, done] = await Promise.all([
    run(folder, ['--help', '--config', 'on.json']),
    run(folder, ['count', '--help', '--config', 'on.json']),
    run(folder, ['cont', '--config', 'on.json']),
    run(folder, ['count', '--up', '--config', 'on.json'], { env }),
  ])
  t.match(help, { code: 0, out: /start .*\n[^]* count +counts up\n/ })
  t.match(ownHelp, { code: 0, out: /rowhouse count \[--up\]\n\nCounts\.\n\n +--config FILE/ })
  t.match(hint, { code: 2, err: /did you mean count\?/ })
  t.same(done, { code: 4, out: '4 memory\n', err: 'counting\n' })
})

t.test('commands leave no listener on the process and its streams', async (t) => {
  const folder = await newFolder(t)
  await writeFile(join(folder, 'hello.mjs'), HELLO)
  const off = { query: false, template: false, graphql: false, filestore: false, notify: false }
  const config = { http: { port: 0 }, plugins: { ...off, hello: { use: './hello.mjs' } } }
  await writeFile(join(folder, 'rowhouse.config.json'), JSON.stringify(config))
  const { url } = await freshDatabase(t)
  const env = { DATABASE_URL: url, ROWHOUSE_ADMIN_SECRET: SECRET }
  const listeners = () =>
    [process, process.stdin, process.stdout, process.stderr].map((emitter) =>
      emitter.eventNames().map((name) => `${String(name)} ${emitter.listenerCount(name)}`),
    )
  const once = async () => {
    for (const command of ['dev', 'start', 'worker']) {
      const args = command === 'worker' ? ['worker', '--port', '0'] : [command]
      t.equal(await (await start(t, folder, args, { env })).stop(), 0)
    }
    t.match(await run(folder, ['start', '--port', 'x'], { env }), { code: 1 })
    t.match(await run(folder, ['sql', '-c', 'select 1 as one'], { env }), { code: 0 })
  }
  // Node.js and the log add their own once.
  await once()
  const before = listeners()

  await once()

  t.same(listeners(), before)
})

const COUNTER = `export default {
  name: 'counter',
  config: { type: 'object', properties: { first: { type: 'integer', default: 0 } } },
  commands: [{
    name: 'count', summary: 'counts up', usage: 'rowhouse count [--up]', help: 'Counts.\\n', flags: { up: 'boolean' },
    async run({ flags, query, provider, providerNames, print, tell }, { first }) {
      if (!flags.up) throw new Error('only up')
      tell('counting')
      const [{ next }] = await query('select $1::int + 1 as next', [first])
      await provider('email')
      print(next + ' ' + providerNames('email').join())
      return next
    },
  }],
  setup() {},
}
`

const HELLO = `export default {
  name: 'hello',
  database: false,
  setup(host) {
    host.router.get('/v1/hello', (ctx) => void (ctx.body = 'hi'))
    host.health('mood', () => 'a little tired')
  },
}
`

async function newFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-cli-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

async function post(url: string, query: object, secret = SECRET): Promise<unknown> {
  const body = JSON.stringify(query)
  const response = await fetch(`${url}/v1/query`, {
    method: 'POST',
    body,
    headers: { 'X-Service-Admin-Secret': secret },
  })
  return response.json()
}
