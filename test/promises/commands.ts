import { once } from 'node:events'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import type { Test } from 'tap'
import { type Done, run, start as serve } from '../kit/command.js'
import { freshDatabase } from '../kit/database.js'
import { area, type Case } from '../kit/promises.js'
import { until } from '../kit/until.js'
import { ADMIN_SECRET, testServer, type TestServer } from '../kit/server.js'

const PROMISES = {
  'help.program': '--help lists the commands, those of plugins too; without a command the same goes with exit code 2',
  'help.command': 'each command explains itself',
  'help.version': '--version prints the version alone',
  'mistake.command': 'an unknown command gets a hint and exit code 2',
  'mistake.option': 'an unknown option gets a hint and exit code 2',
  'mistake.words': 'arguments too many are refused with exit code 2',
  'init.files': 'init writes a configuration that check accepts, and keeps the files that exist',
  'start.database': 'start makes no database: it wants DATABASE_URL',
  'start.authentication': 'start wants a way to authenticate',
  'start.port': 'a port that is taken is named, with the setting that chooses another',
  'start.serves': 'start serves until it is asked to end, and exits with 0',
  'worker.serves-nothing': 'worker runs without a port',
  'check.fine': 'check exits with 0 if all is well',
  'check.mistakes': 'check reports all mistakes of the configuration together, with their places, and exits with 1',
  'check.json': 'check --json prints the result as JSON',
  'doctor.shows': 'doctor shows the machine, the data directory and the privileges of the login',
  'doctor.grants': 'doctor --grants prints SQL and nothing else',
  'upgrade.schema': 'upgrade updates the schema of the server once',
  'upgrade.dry-run': 'upgrade --dry-run lists what would run, and runs nothing',
  'migrate.files': 'migrate up runs files in order, status lists them, down reverts the last one',
  'migrate.atomic': 'a file that fails leaves nothing of itself and exits with 1',
  'track.all': 'track shows what it would track, and tracks all with --all',
  'metadata.export': 'metadata export prints the metadata with all digits',
  'metadata.diff': 'metadata diff says what each role could do more, and exits with 1 if something differs',
  'metadata.apply': 'metadata apply applies a file, and changes nothing with --dry-run',
  'metadata.error': 'metadata exits with 2 after an error',
  'why.refused': 'why shows which part of the filter is false, and exits with 1',
  'why.allowed': 'why exits with 0 if the role may',
  'why.error': 'why exits with 2 after an error',
  'token.accepted': 'token prints a token that the server accepts, wherever the configuration finds claims',
  'token.mistakes': 'token says what it needs, and prints no token that would be refused',
  'lint.findings': 'lint prints findings and exits with 1',
  'lint.none': 'lint exits with 0 if there are none of its level',
  'advise.index': 'advise proposes the index that a filter needs',
  'advise.server': 'advise URL asks a running server for calls, with the admin secret of this machine',
  'sql.psql': 'sql runs psql in the database, with all arguments as they are and no password among them',
  'sql.tables': 'a running server finds the tables that psql has made',
  'sql.missing': 'without psql, sql says how to install it',
  'hasura.moved': 'import-hasura writes metadata, lists what is left, and exits with 1 for it',
  'plugin.command': 'a plugin brings a command: fsck checks the files of the filestore',
  'plugin.off': 'the commands of a plugin that is off are not listed, and say whose they are',
  'plugin.needs': 'query templates are off with the query API; a configuration that names them without it is refused',
  'secret.hidden': 'no output has the admin secret',
} as const

interface Commands extends TestServer {
  readonly folder: string
  /** Runs a command on the database of the server, as one line of words. */
  rowhouse(line: string, env?: Readonly<Record<string, string>>): Promise<Done>
  write(file: string, content: string | object): Promise<void>
  /** All that commands have printed. */
  printed(): string
}

async function start(t: Test): Promise<Commands> {
  const server = await testServer(t)
  const folder = t.testdir({})
  await server.sql(`create table company (id int primary key);
      create table person (id int primary key, company_id int references company, code bigint, password text);
      insert into company values (1); insert into person values (1, 1), (2, null);
      create table entry (id int primary key, owner int, body text);
      insert into entry select i, i % 1000, repeat('x', 50) from generate_series(1, 5000) i; analyze entry`)
  let printed = ''
  const env = { DATABASE_URL: server.databaseUrl, ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET }
  return {
    ...server,
    folder,
    async rowhouse(line, more = {}) {
      const args = line.split(' ').filter((word) => word !== '')
      const done = await run(folder, args, { env: { ...env, ...more } })
      printed += done.out + done.err
      return done
    },
    async write(file, content) {
      await mkdir(join(folder, 'migrations'), { recursive: true })
      await writeFile(join(folder, file), typeof content === 'string' ? content : JSON.stringify(content))
    },
    printed: () => printed,
  }
}

/** A command, and what comes of it. */
const command =
  (line: string, expected: object): Case<Commands> =>
  async (t, { rowhouse }) =>
    void t.match(await rowhouse(line), expected)

interface Sarif {
  readonly tool: { readonly driver: { readonly rules: readonly { readonly id: string }[] } }
  readonly results: readonly {
    readonly ruleId: string
    readonly level: string
    readonly locations: readonly [
      { readonly physicalLocation: { readonly artifactLocation: { readonly uri: string } } },
    ]
  }[]
}

const SELECT = { columns: ['id'], filter: { company_id: 'X-Service-User-Id' } }
const permit = (table: string, permission: object) => ({
  type: 'create_select_permission',
  args: { table, role: 'user', permission },
})

const CASES: Readonly<Record<keyof typeof PROMISES, Case<Commands>>> = {
  'help.program': async (t, { rowhouse }) => {
    const help = /^rowhouse \d[^]*\n {2}dev +start a dev[^]*\n {2}start +[^]*\n {2}fsck +/
    t.match(await rowhouse('--help'), { code: 0, out: help, err: '' })
    t.match(await rowhouse(''), { code: 2, out: help })
  },
  'help.command': async (t, { rowhouse }) => {
    const { out } = await rowhouse('--help')
    const names = [...out.matchAll(/^ {2}([\w-]+) +\S/gm)].map(([, name]) => name as string)
    t.ok(names.length >= 16, names.join())
    for (const name of names)
      t.match(await rowhouse(`${name} --help`), { code: 0, out: new RegExp(`^rowhouse ${name}[^]*\n\n`) }, name)
    const configured = names.filter((name) => !['init', 'bench'].includes(name))
    for (const name of configured) t.match(await rowhouse(`${name} --help`), { out: /--config FILE/ }, name)
  },
  'help.version': command('--version', { code: 0, out: /^\d+\.\d+\.\d+\n$/, err: '' }),
  'mistake.command': command('dve', { code: 2, out: '', err: /there is no command "dve"; did you mean dev\?/ }),
  'mistake.option': command('dev --prot 1', { code: 2, out: '', err: /did you mean --port\?/ }),
  'mistake.words': command('start now', { code: 2, out: '', err: /too many arguments\nrowhouse start/ }),
  'init.files': async (t, { rowhouse, folder, write }) => {
    t.match(await rowhouse('init'), { code: 1, err: /no package\.json/ })
    await write('package.json', { name: 'shop', scripts: { start: 'node .' } })
    t.match(await rowhouse('init'), { code: 0, out: /^wrote rowhouse\.config\.mjs\nwrote \.gitignore\nadded scripts/ })
    t.match(JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')), {
      name: 'shop',
      scripts: { start: 'node .', dev: 'rowhouse dev' },
    })
    t.match(await rowhouse('check'), { code: 0, out: /configuration: .*rowhouse\.config\.mjs\n/ })
    t.match(await rowhouse('init'), { code: 0, out: /^kept rowhouse\.config\.mjs\n/ })
  },
  'start.database': async (t, { folder }) =>
    void t.match(await run(folder, ['start']), { code: 1, err: /set DATABASE_URL/ }),
  'start.authentication': async (t, { folder, databaseUrl }) => {
    const env = { DATABASE_URL: databaseUrl }
    t.match(await run(folder, ['start', '--port', '0'], { env }), { code: 1, err: /ROWHOUSE_ADMIN_SECRET/ })
  },
  'start.port': async (t, { folder, rowhouse, url }) => {
    const { port } = new URL(url)
    const taken = { code: 1, err: new RegExp(`^127\\.0\\.0\\.1:${port} is in use.*ROWHOUSE_PORT`) }
    t.match(await rowhouse(`start --port ${port}`), taken)
    t.match(await run(folder, ['dev', '--port', port]), taken, 'dev does nothing before')
  },
  'start.serves': async (t, { folder, databaseUrl }) => {
    const env = { DATABASE_URL: databaseUrl, ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET }
    const server = await serve(t, folder, ['start', '--port', '0'], { env })
    t.equal((await fetch(`${server.url}/healthz`)).status, 200)
    t.equal((await fetch(`${server.url}/v1/query`, { method: 'POST', body: '{}' })).status, 400)
    t.match(server.output(), /"msg":"listening"/)
    t.equal(await server.stop(), 0)
    await t.rejects(fetch(`${server.url}/healthz`))
  },
  'worker.serves-nothing': async (t, { folder, databaseUrl }) => {
    const env = { DATABASE_URL: databaseUrl, ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET }
    const worker = await serve(t, folder, ['worker', '--port', '0'], { env })
    t.equal((await fetch(`${worker.url}/healthz`)).status, 200)
    t.equal((await fetch(`${worker.url}/v1/query`, { method: 'POST', body: '{}' })).status, 404)
    t.equal(await worker.stop(), 0)
  },
  'check.fine': command('check', { code: 0, err: '' }),
  'check.mistakes': async (t, { rowhouse, write }) => {
    await write('wrong.json', { http: { prot: 1 }, plugins: { qery: {} } })
    const { code, out, err } = await rowhouse('check --config wrong.json')
    t.equal(code, 1)
    t.match(out + err, /2 mistakes[^]*\$\.http[^]*prot[^]*\$\.plugins\.qery/)
  },
  'check.json': async (t, { rowhouse }) => {
    const { code, out } = await rowhouse('check --json')
    t.match({ code, ...JSON.parse(out) }, { code: 0, ok: true, findings: [{ ok: true, text: String }] })
  },
  'doctor.shows': command('doctor', {
    code: 0,
    out: /^rowhouse \d[^]*data directory: [^]*\nnote the login is a superuser/,
  }),
  'doctor.grants': command('doctor --grants', { code: 0, out: /^(?:--|grant |create |alter )/i, err: '' }),
  'upgrade.dry-run': async (t, { rowhouse }) => {
    const { url } = await freshDatabase(t)
    const env = { DATABASE_URL: url }
    t.match(await rowhouse('upgrade --dry-run', env), { code: 0, out: /^would run core 001-/ })
    t.match(await rowhouse('upgrade --dry-run', env), { code: 0, out: /^would run core 001-/ })
  },
  'upgrade.schema': async (t, { rowhouse }) => {
    const { url } = await freshDatabase(t)
    const env = { DATABASE_URL: url }
    t.match(await rowhouse('upgrade', env), { code: 0, out: /^migrating core 001-/, err: '' })
    t.match(await rowhouse('upgrade', env), { code: 0, out: 'svc_catalog is up to date\n' })
  },
  'migrate.files': async (t, { rowhouse, write }) => {
    await write('migrations/20260101000000_city.up.sql', 'create table city (id int); insert into city values (1)')
    await write('migrations/20260101000000_city.down.sql', 'drop table city')
    await write('migrations/20260102000000_mayor.up.sql', 'alter table city add mayor text')
    await write('migrations/20260102000000_mayor.down.sql', 'alter table city drop mayor')
    t.match(await rowhouse('migrate status'), {
      code: 0,
      out: 'pending  20260101000000_city\npending  20260102000000_mayor\n',
    })
    t.match(await rowhouse('migrate up'), {
      code: 0,
      out: /applied 20260101000000_city\napplied 20260102000000_mayor\n/,
    })
    t.match(await rowhouse('migrate up'), { code: 0, out: /nothing to migrate\n/ })
    t.match(await rowhouse('migrate down'), { code: 0, out: /reverted 20260102000000_mayor\n$/ })
    t.match(await rowhouse('migrate status'), { out: /applied +20260101000000_city\npending +20260102000000_mayor\n/ })
  },
  'migrate.atomic': async (t, { rowhouse, write, must }) => {
    await write('migrations/20260103000000_wrong.up.sql', 'create table half (id int); select 1 / 0')
    t.match(await rowhouse('migrate up'), { code: 1, err: /division by zero/ })
    t.match(await must('run_sql', { sql: "select to_regclass('half')::text" }), {
      result: [['to_regclass'], [/null/i]],
    })
  },
  'track.all': async (t, { rowhouse }) => {
    t.match(await rowhouse('track'), { code: 0, out: /^would track \d tables, 2 relationships/ })
    t.match(await rowhouse('track --all'), { code: 0, out: /^tracked \d tables, 2 relationships/ })
    t.match(await rowhouse('track --all'), { code: 0, out: 'nothing new to track\n' })
    t.match(await rowhouse('track nope'), { code: 1, err: /does not exist in the database/ })
  },
  'metadata.export': async (t, { rowhouse, raw }) => {
    const filter = '{"code": {"$gt": 9007199254740993}}'
    await raw(
      `{"type": "create_select_permission", "args": {"table": "person", "role": "clerk", "permission": {"columns": ["id"], "filter": ${filter}}}}`,
    )
    t.match(await rowhouse('metadata export'), { code: 0, out: /"\$gt": 9007199254740993\n/, err: '' })
    t.match(await rowhouse('metadata export all.json'), { code: 0, out: 'wrote all.json\n' })
  },
  'metadata.diff': async (t, { rowhouse, folder, write }) => {
    const exported = await readFile(join(folder, 'all.json'), 'utf8')
    await write('other.json', exported.replace('9007199254740993', '9007199254740992'))
    t.match(await rowhouse('metadata diff all.json'), { code: 0, out: 'no differences\n' })
    t.match(await rowhouse('metadata diff other.json'), {
      code: 1,
      out: /^~ permission person\.clerk\.select\n {4}wider: role clerk can read more rows of person/,
    })
  },
  'metadata.apply': async (t, { rowhouse }) => {
    t.match(await rowhouse('metadata apply other.json --dry-run'), { code: 0, out: /dry run: nothing was changed\n$/ })
    t.match(await rowhouse('metadata diff all.json'), { code: 0 })
    t.match(await rowhouse('metadata apply other.json'), { code: 0, out: /\napplied\n$/ })
    t.match(await rowhouse('metadata diff all.json'), { code: 1, out: /narrower: role clerk/ })
  },
  'metadata.error': command('metadata apply missing.json', { code: 2, err: /missing\.json/ }),
  'token.accepted': async (t, { rowhouse, write, databaseUrl, must }) => {
    await must('run_sql', {
      sql: `create table visit (id int, owner int, body text); insert into visit values (1, 7, 'xy'), (2, 7, 'y'), (3, 8, 'xy')`,
    })
    await must('bulk', [
      { type: 'track_table', args: 'visit' },
      permit('visit', { columns: ['id'], filter: { owner: 'X-Service-User-Id', body: { $like: 'X-Service-Like' } } }),
    ])
    const shapes = [
      {},
      { namespace: 'claims', format: 'stringified_json' },
      { namespacePath: '/app/claims', allowedRoles: '/realm_access/roles', variables: { 'X-Service-User-Id': '/sub' } },
      { namespacePath: '', defaultRole: '/app/role' },
    ]
    const jwt = shapes.map((claims, i) => ({
      algorithms: [i === 1 ? 'HS512' : 'HS256'],
      key: `a shared key for the tests of tokens, ${i}`,
      issuer: `i${i}`,
      audience: 'shop',
      claims,
      ...(i === 3 && { header: 'X-Token' }),
    }))
    await write('tokens.json', { auth: { jwt } })
    const server = await testServer(t, { databaseUrl, config: { auth: { jwt } } })
    for (const i of shapes.keys()) {
      const line = `token --role user --user 7 --session X-Service-Like=x% --issuer i${i} --config tokens.json`
      const { code, out, err } = await rowhouse(line)
      t.match({ code, err }, { code: 0, err: '' })
      const response = await fetch(`${server.url}/v1/query`, {
        method: 'POST',
        headers: i === 3 ? [['X-Token', out.trim()]] : [['Authorization', `Bearer ${out.trim()}`]],
        body: '{"type":"count","args":{"table":"visit"}}',
      })
      t.same(await response.json(), { count: 1 }, `shape ${i}`)
    }
    await must('run_sql', { sql: 'drop table visit', cascade: true })
  },
  'token.mistakes': async (t, { rowhouse, write }) => {
    const key = 'a shared key for the tests of tokens'
    const mistakes = async (line: string, jwt: unknown, err: RegExp) => {
      await write('token.json', { auth: { jwt } })
      t.match(await rowhouse(`token ${line} --config token.json`), { code: 1, out: '', err }, line)
    }
    const shared = { algorithms: ['HS256'], key }
    await mistakes('', shared, /expected --role/)
    await mistakes('--role user --minutes 0', shared, /expected --minutes to be a positive number/)
    await mistakes('--role user --minutes soon', shared, /expected --minutes to be a positive number/)
    await mistakes('--role not:one', shared, /would refuse this token: the token names no roles/)
    await mistakes('--role user --session Org=1', shared, /expected a session variable/)
    await mistakes('--role user', { algorithms: ['RS256'], jwksUrl: 'http://127.0.0.1/keys' }, /no shared key/)
    await mistakes(
      '--role user',
      [
        { ...shared, issuer: 'a' },
        { ...shared, issuer: 'b' },
      ],
      /several .* --issuer \(a, b\)/,
    )
    await mistakes(
      '--role user --issuer c',
      [
        { ...shared, issuer: 'a' },
        { ...shared, issuer: 'b' },
      ],
      /the issuer "c"/,
    )
  },
  'why.refused': async (t, { rowhouse, must }) => {
    await must('bulk', [permit('person', SELECT)])
    t.match(await rowhouse('why user select person id=2 --user 1'), {
      code: 1,
      out: /^user may not select: the filter of the permission does not accept the row\n\nfilter:\n {2}null {3}company_id/,
    })
  },
  'why.allowed': command('why user select person id=1 --user 1', {
    code: 0,
    out: /^user may select: the permission allows it\n\nfilter:\n {2}true {3}company_id/,
  }),
  'why.error': command('why user select person', { code: 2, err: /select needs the key of a row/ }),
  'lint.findings': async (t, { rowhouse, must }) => {
    await must('create_select_permission', {
      table: 'person',
      role: 'anonymous',
      permission: { columns: ['password'], filter: {} },
    })
    t.same(await rowhouse('lint'), {
      code: 1,
      out: `error  permission person.anonymous.select ($.columns)  [readable-secret]
  anonymous callers may read "password" of person, which looks like a secret
  Remove "password" from the columns of the permission, or rename it if it is no secret.

1 error; 1 more of a lower level (--level info shows all)
`,
      err: '',
    })
    const found = { rule: 'readable-secret', level: 'error', object: 'permission person.anonymous.select' }
    const json = await rowhouse('lint --json --level error')
    t.match({ ...json, out: JSON.parse(json.out) }, { code: 1, out: { findings: [found], rules: {} } })
    const [{ tool, results }] = JSON.parse((await rowhouse('lint --sarif --level info')).out).runs as [Sarif]
    const shown = results.map(({ ruleId, level, locations: [place] }) => [
      ruleId,
      level,
      place.physicalLocation.artifactLocation.uri,
    ])
    t.same(shown, [
      ['readable-secret', 'error', 'metadata.json'],
      ['unindexed-rule', 'note', 'metadata.json'],
    ])
    for (const { ruleId } of results) t.ok(tool.driver.rules.some(({ id }) => id === ruleId))
  },
  'lint.none': async (t, { rowhouse, must }) => {
    await must('drop_select_permission', { table: 'person', role: 'anonymous' })
    t.match(await rowhouse('lint'), {
      code: 0,
      out: 'no findings; 1 more of a lower level (--level info shows all)\n',
    })
    t.match(await rowhouse('lint --level error'), { code: 0, out: /^no findings/ })
    t.match(await rowhouse('lint --level bad'), { code: 2, err: /one of error, warning, info/ })
  },
  'advise.index': async (t, { rowhouse, must }) => {
    await must('bulk', [permit('entry', { columns: ['id'], filter: { owner: 'X-Service-User-Id' } })])
    t.match(await rowhouse('advise --try'), {
      code: 0,
      out: /^create index concurrently on public\.entry \(owner\);\n {2}filter of entry \(user\) +cost \d+ -> \d+\n {2}checked with the index; about \d+ KiB for 5000 rows\n\n1 index for 3 statements\n[^]*calls .* rowhouse advise URL\n$/,
    })
    const json = await rowhouse('advise --json')
    t.match(JSON.parse(json.out), { advice: [{ table: 'entry', checked: null }], left_out: 0 })
  },
  'advise.server': async (t, { rowhouse, must, url, folder, databaseUrl }) => {
    t.match(await rowhouse(`advise ${url}`), {
      code: 0,
      out: /not checked: use "try"[^]*\n1 index for 3 statements\n(?:PostgreSQL does not know the size [^\n]*\n)?$/,
    })
    const template = { type: 'select', args: { table: 'entry', columns: ['id'], where: { owner: { param: 'owner' } } } }
    await must('create_query_template', { name: 'of_owner', template })
    t.match(await rowhouse('advise'), { code: 0, out: / {2}template of_owner \(\w+\) +calls unknown\n/ })
    t.match(await rowhouse(`advise ${url}`), { code: 0, out: / {2}template of_owner \(\w+\) +0 calls\n/ })
    t.match(await rowhouse(`advise ${url}`, { ROWHOUSE_ADMIN_SECRET: 'wrong' }), { code: 1, err: /answers 401/ })
    t.match(await rowhouse('advise nowhere'), { code: 1, err: /expected the URL/ })
    const bare = (at: string) => run(folder, ['advise', at], { env: { DATABASE_URL: databaseUrl } })
    t.match(await bare(url), { code: 1, err: /set ROWHOUSE_ADMIN_SECRET.*no .*admin-secret/ })
    const secret = join(folder, '.rowhouse/admin-secret')
    await mkdir(join(folder, '.rowhouse'), { recursive: true })
    await writeFile(secret, `${ADMIN_SECRET}\n`)
    t.match(await bare(url), { code: 0, out: /1 index for 4 statements/ })
    const elsewhere = await bare('http://rowhouse.invalid')
    t.match(elsewhere, { code: 1, err: /rowhouse\.invalid is another machine/ }, 'the secret stays on this machine')
    const gone = createServer().listen(0, '127.0.0.1')
    await once(gone, 'listening')
    const down = `http://127.0.0.1:${(gone.address() as AddressInfo).port}`
    gone.close()
    await once(gone, 'close')
    const err = `cannot ask ${down}: no server listens there (ECONNREFUSED)\n`
    t.same(await bare(down), { code: 1, out: '', err })
    await rm(secret)
  },
  'sql.psql': async (t, { folder, databaseUrl, write }) => {
    await write('sql.json', {})
    const url = Object.assign(new URL(databaseUrl), { password: 'se:cret' })
    const env = {
      DATABASE_URL: `${url.href}?sslmode=disable&application_name=shop`,
      PGSERVICE: 'other',
      ...(await fakePsql(folder)),
    }
    const { out, code } = await run(folder, ['sql', '--config=sql.json', '-c', 'select 1', '-X', '--', 'a b'], { env })
    t.equal(code, 3)
    t.same(JSON.parse(out), {
      args: ['-v', 'ON_ERROR_STOP=1', '-c', 'select 1', '-X', '--', 'a b'],
      stdin: '',
      PGAPPNAME: 'shop',
      PGDATABASE: url.pathname.slice(1),
      PGHOST: url.hostname,
      PGPASSWORD: 'se:cret',
      PGPORT: url.port,
      PGSSLMODE: 'disable',
      PGUSER: url.username,
    })
    const typed = await run(folder, ['sql'], { env, stdin: 'select 2' })
    t.equal(JSON.parse(typed.out).stdin, 'select 2')
  },
  'sql.tables': async (t, { folder, databaseUrl, must, sql }) => {
    const version = async () => (await must('server_status', {})).metadata.version
    const before = await version()
    await sql('create table loaded (id int primary key)')
    t.match(await run(folder, ['sql'], { env: { DATABASE_URL: databaseUrl, ...(await fakePsql(folder)) } }), {
      code: 3,
    })
    await until('the server reads the database again', async () => (await version()) !== before)
  },
  'sql.missing': async (t, { folder, databaseUrl }) => {
    const env = { DATABASE_URL: databaseUrl, PATH: folder }
    t.match(await run(folder, ['sql', '-c', 'select 1'], { env }), {
      code: 1,
      out: '',
      err: /^psql is not installed: .*postgresql-client[^]*console/,
    })
  },
  'hasura.moved': async (t, { rowhouse, write, folder }) => {
    await write('hasura.json', {
      version: 2,
      tables: [
        {
          table: { schema: 'public', name: 'person' },
          select_permissions: [
            { role: 'user', permission: { columns: ['id'], filter: { id: { _eq: 'X-Hasura-User-Id' } } } },
          ],
          event_triggers: [{ name: 'wrote', definition: { enable_manual: false, insert: { columns: '*' } } }],
        },
      ],
    })
    t.match(await rowhouse('import-hasura hasura.json --out moved.json'), {
      code: 1,
      out: /wrote moved\.json[^]*wrote/,
    })
    t.match(JSON.parse(await readFile(join(folder, 'moved.json'), 'utf8')), {
      tables: [{ table: 'person', select_permissions: [{ role: 'user', permission: { columns: ['id'] } }] }],
    })
  },
  'plugin.command': async (t, { rowhouse, write }) => {
    t.match(await rowhouse('fsck'), { code: 0, out: /^0 files, 0 blobs, 0 objects in the stores.*: clean\n$/ })
    await write('off.json', { plugins: { filestore: false } })
    t.match(await rowhouse('fsck --config off.json'), {
      code: 1,
      out: '',
      err: /fsck is a command of the plugin "filestore", which the configuration does not load/,
    })
    await write('wrong.json', { plugins: { fielstore: {} } })
    t.match(await rowhouse('fsck --config wrong.json'), { code: 1, out: '', err: /one mistake:\n.*fielstore/ })
  },
  'plugin.off': async (t, { rowhouse, write }) => {
    await write('bare.json', { plugins: { query: false, template: false, graphql: false, console: false } })
    const { out } = await rowhouse('--help --config bare.json')
    t.notMatch(out, /^ {2}(advise|lint|metadata|track|why) /m)
    t.match(out, /^ {2}import-hasura /m)
    t.match(out, /^ {2}migrate /m)
    await write('no-sql.json', { plugins: { sql: false } })
    t.notMatch((await rowhouse('--help --config no-sql.json')).out, /^ {2}(migrate|sql) /m)
    t.match(await rowhouse('lint --config bare.json'), {
      code: 2,
      err: /lint is a command of the plugin "query", which the configuration does not load/,
    })
  },
  'plugin.needs': async (t, { rowhouse, write }) => {
    await write('alone.json', { plugins: { query: false } })
    t.match(await rowhouse('check --config alone.json'), { code: 0 })
    await write('named.json', { plugins: { query: false, template: {} } })
    t.match(await rowhouse('check --config named.json'), {
      code: 1,
      err: /plugin "template" needs "query", which no loaded plugin provides \("query" is disabled\)/,
    })
  },
  'secret.hidden': async (t, { printed }) => {
    t.ok(printed().length > 5000)
    t.notMatch(printed(), ADMIN_SECRET)
  },
}

/** Makes a program `psql` that prints its arguments, its standard input and the variables of PostgreSQL. @returns the environment that finds it */
async function fakePsql(folder: string): Promise<{ readonly PATH: string }> {
  const bin = join(folder, 'bin')
  await mkdir(bin, { recursive: true })
  const program = `#!${process.execPath}
const fs = require('node:fs')
const variables = Object.entries(process.env).filter(([name]) => name.startsWith('PG')).sort()
const stdin = fs.readFileSync(0, 'utf8')
process.stdout.write(JSON.stringify({ args: process.argv.slice(2), stdin, ...Object.fromEntries(variables) }))
process.exitCode = 3
`
  await writeFile(join(bin, 'psql'), program, { mode: 0o755 })
  return { PATH: bin }
}

/** Its promises, with a case for each. */
export const commands = area('commands', { promises: PROMISES, start, cases: CASES })
