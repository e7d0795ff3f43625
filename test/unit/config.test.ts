import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { ConfigError, loadConfig } from '../../core/host/config.js'
import { checks, sections as serverSections } from '../../core/host/sections.js'

const sections = {
  database: {
    type: 'object',
    properties: {
      url: { type: 'string', secret: true },
      poolSize: { type: 'integer', default: 20, minimum: 1 },
      listenUrl: { type: 'string' },
    },
  },
  http: {
    type: 'object',
    properties: {
      host: { type: 'string', default: '127.0.0.1' },
      port: { type: 'integer', default: 8080, maximum: 65535 },
      origins: { type: 'array', items: { type: 'string' }, default: [] },
      trust: { type: 'boolean', default: false },
      timeouts: { type: 'object', default: {}, properties: { headersMs: { type: 'integer', default: 10_000 } } },
    },
  },
  log: {
    type: 'object',
    properties: {
      level: { type: 'string', enum: ['info', 'debug'], default: 'info' },
      to: {
        anyOf: [{ type: 'string' }, { type: 'object', required: ['url'], properties: { url: { type: 'string' } } }],
      },
    },
  },
  dataDir: { type: 'string', default: './.rowhouse' },
} as const

/** Loads a file of this text, in a folder of its own. */
async function load(
  t: Tap,
  file: { readonly name?: string; readonly text?: string; readonly others?: Readonly<Record<string, string>> },
  env: Readonly<Record<string, string>> = {},
  overrides: Readonly<Record<string, unknown>> = {},
) {
  const cwd = await mkdtemp(join(tmpdir(), 'rowhouse-config-'))
  t.teardown(() => rm(cwd, { recursive: true }))
  if (file.text !== undefined) await writeFile(join(cwd, file.name ?? 'rowhouse.config.json'), file.text)
  for (const [name, text] of Object.entries(file.others ?? {})) await writeFile(join(cwd, name), text)
  return loadConfig({ sections, env, overrides, cwd })
}
type Tap = { teardown(fn: () => Promise<void>): void }

/** The mistakes as `path: message`. */
async function mistakesOf(loading: Promise<unknown>): Promise<string[]> {
  try {
    await loading
  } catch (error) {
    if (error instanceof ConfigError) return error.mistakes.map(({ path, message }) => `${path}: ${message}`)
    throw error
  }
  return []
}

t.test('without a file and variables every value is the default of its schema', async (t) => {
  const config = await load(t, {})

  t.same(config.values, {
    database: { poolSize: 20 },
    http: { host: '127.0.0.1', port: 8080, origins: [], trust: false, timeouts: { headersMs: 10_000 } },
    log: { level: 'info' },
    dataDir: './.rowhouse',
  })
})

t.test(
  'the file wins over defaults, the environment over the file, the command line over the environment',
  async (t) => {
    const text = JSON.stringify({ http: { port: 1, host: 'file' }, log: { level: 'debug' }, database: { poolSize: 3 } })

    const config = await load(
      t,
      { text },
      { ROWHOUSE_HTTP__PORT: '2', ROWHOUSE_DATABASE__POOL_SIZE: '4' },
      { http: { port: '5' } },
    )

    t.equal(config.values.http.host, 'file')
    t.equal(config.values.log.level, 'debug')
    t.equal(config.values.database.poolSize, 4)
    t.equal(config.values.http.port, 5)
  },
)

t.test(
  'one object is a list of one, in the file and from variables, and mistakes are told as it was written',
  async (t) => {
    const text = '{"http":{"issuers":{"name":"a"}}}'
    const item = {
      type: 'object',
      required: ['name'],
      properties: { name: { type: 'string' }, age: { type: 'integer' } },
    } as const
    const http = { type: 'object', default: {}, properties: { issuers: { type: 'array', items: item } } } as const
    const loadList = async (text: string, env: Readonly<Record<string, string>> = {}) => {
      const cwd = await mkdtemp(join(tmpdir(), 'rowhouse-config-'))
      t.teardown(() => rm(cwd, { recursive: true }))
      await writeFile(join(cwd, 'rowhouse.config.json'), text)
      const check = ({ issuers = [] }: { issuers?: { name: string }[] }) =>
        issuers.flatMap(({ name }, i) => (name === 'bad' ? [{ keys: ['issuers', i, 'name'], message: 'is bad' }] : []))
      return loadConfig({ sections: { http }, checks: { http: check }, env, cwd })
    }
    const env = { ROWHOUSE_HTTP__ISSUERS__NAME: '7', ROWHOUSE_HTTP__ISSUERS__AGE: '7' }

    t.same((await loadList(text)).values.http.issuers, [{ name: 'a' }])
    t.same((await loadList(text, env)).values.http.issuers, [{ name: '7', age: 7 }])
    t.same((await loadList('{"http":{"issuers":[{"name":"a"},{"name":"b"}]}}')).values.http.issuers?.length, 2)
    t.same(await mistakesOf(loadList('{"http":{"issuers":{"nam":"a"}}}')), [
      '$.http.issuers.name: is required',
      '$.http.issuers.nam: unknown key, did you mean "name"?',
    ])
    t.same(await mistakesOf(loadList('{"http":{"issuers":[{"name":"a"},{"name":5}]}}')), [
      '$.http.issuers[1].name: must be string',
    ])
    t.same(await mistakesOf(loadList('{"http":{"issuers":[{"name":"bad"}]}}')), ['$.http.issuers[0].name: is bad'])
    t.same(await mistakesOf(loadList('{"http":{"issuers":{"name":"bad"}}}')), ['$.http.issuers.name: is bad'])
  },
)

t.test('what the schemas cannot say is reported with everything else', async (t) => {
  const text = JSON.stringify({
    http: { trustedProxies: ['10.0.0.0/8', 'proxy.example'] },
    auth: { jwt: { algorithms: ['HS256'], key: 'marker' } },
    log: { level: 'loud' },
  })
  const cwd = await mkdtemp(join(tmpdir(), 'rowhouse-config-'))
  t.teardown(() => rm(cwd, { recursive: true }))
  await writeFile(join(cwd, 'rowhouse.config.json'), text)

  t.same(await mistakesOf(loadConfig({ sections: serverSections, checks, env: {}, cwd })), [
    '$.http.trustedProxies[1]: must be an IP address, a CIDR range such as 10.0.0.0/8, or "unix"',
    '$.auth.jwt.key: a shared secret needs at least 32 bytes',
    '$.log.level: must be one of "trace","debug","info","warn","error","fatal","silent"',
  ])
})

t.test('a JavaScript file exports the configuration by default', async (t) => {
  const config = await load(t, {
    name: 'rowhouse.config.js',
    text: `export default { http: { port: 40 + 2 } }`,
    others: { 'package.json': '{"type":"module"}' },
  })

  t.equal(config.values.http.port, 42)
})

t.test('the file may be an ES module, CommonJS or TypeScript, in a package of either type', async (t) => {
  const others = { 'package.json': '{"type": "commonjs"}' }
  const files = {
    'rowhouse.config.mjs': 'export default { http: { port: 42 } }',
    'rowhouse.config.cjs': 'module.exports = { http: { port: 42 } }',
    'rowhouse.config.js': 'module.exports = { http: { port: 42 } }',
    // As compilers write it.
    'other.cjs': 'exports.__esModule = true; exports.default = { http: { port: 42 } }',
    'other.mjs': 'import more from "./more.js"\nexport default { http: { port: more } }',
  }

  for (const [name, text] of Object.entries(files)) {
    const env = { ROWHOUSE_CONFIG: name.startsWith('other') ? name : '' }
    const config = await load(t, { name, text, others: { ...others, 'more.js': 'module.exports = 42' } }, env)
    t.equal(config.values.http.port, 42, name)
  }
  const typed = load(t, {
    name: 'rowhouse.config.mts',
    text: 'export default { http: { port: 42 as number } }',
    others,
  })
  if ('typescript' in process.features) t.equal((await typed).values.http.port, 42)
  else
    t.match(await mistakesOf(typed), [/^\$: cannot be read: Node.js \S+ does not read TypeScript: use Node.js 22.18/])
})

t.test('an ES module that Node.js takes for CommonJS is refused, with what to do', async (t) => {
  const others = { 'package.json': '{"type": "commonjs"}', 'more.js': 'export default 7' }
  const text = 'import more from "./more.js"\nexport default { http: { port: more } }'
  const mistakes = (name: string, text: string) => mistakesOf(load(t, { name, text, others }))

  t.match(await mistakes('rowhouse.config.js', 'export default {}'), [
    /rowhouse.config.js is CommonJS, because \S+package.json has "type": "commonjs": rename it to rowhouse.config.mjs, or change that to "module"$/,
  ])
  // Node.js 20 also rejects a promise of its own, which nobody can catch.
  if (!process.version.startsWith('v20.'))
    t.match(await mistakes('rowhouse.config.mjs', text), [/more.js is CommonJS, because .* rename it to more.mjs/])
  t.match(await mistakes('rowhouse.config.mjs', 'export default {'), [/cannot be read: Unexpected end of input$/])
})

t.test('ROWHOUSE_CONFIG names the file, and paths start in its folder', async (t) => {
  const config = await load(
    t,
    { name: 'other.json', text: '{"database":{"url":{"$file":"url.txt"}}}', others: { 'url.txt': 'postgres://x\n' } },
    { ROWHOUSE_CONFIG: 'other.json' },
  )

  t.equal(config.values.database.url, 'postgres://x')
  t.equal(config.file, join(config.directory, 'other.json'))
})

t.test('the documented variables have names of their own', async (t) => {
  const config = await load(
    t,
    {},
    { DATABASE_URL: 'postgres://y', ROWHOUSE_HOST: '::1', ROWHOUSE_PORT: '99', ROWHOUSE_DATA_DIR: '/d' },
  )

  t.match(config.values, { database: { url: 'postgres://y' }, http: { host: '::1', port: 99 }, dataDir: '/d' })
})

t.test('a variable spells a key in any case, with or without underscores', async (t) => {
  const config = await load(t, {}, { ROWHOUSE_DATABASE__LISTENURL: 'a', ROWHOUSE_http__Timeouts__headers_ms: '7' })

  t.equal(config.values.database.listenUrl, 'a')
  t.equal(config.values.http.timeouts.headersMs, 7)
})

t.test('the text of a variable is JSON unless a string is expected', async (t) => {
  const config = await load(
    t,
    {},
    {
      ROWHOUSE_DATABASE__URL: '123',
      ROWHOUSE_HTTP__TRUST: 'true',
      ROWHOUSE_HTTP__ORIGINS: '["a","b"]',
    },
  )

  t.equal(config.values.database.url, '123')
  t.equal(config.values.http.trust, true)
  t.same(config.values.http.origins, ['a', 'b'])
})

t.test('one text for a list is a list of one', async (t) => {
  const config = await load(t, {}, { ROWHOUSE_HTTP__ORIGINS: 'https://a.example' })

  t.same(config.values.http.origins, ['https://a.example'])
})

t.test('an empty variable counts as unset, and foreign variables of our prefix are let be', async (t) => {
  const config = await load(
    t,
    {},
    { ROWHOUSE_PORT: '', ROWHOUSE_HTTP__HOST: '', ROWHOUSE_SERVICE_HOST: '10.0.0.1', ROWHOUSE_PORT_8080_TCP: 'x' },
  )

  t.match(config.values.http, { host: '127.0.0.1', port: 8080 })
})

t.test('a value comes from a variable, and is read as its schema says', async (t) => {
  const config = await load(t, { text: '{"http":{"port":{"$env":"MY_PORT"}}}' }, { MY_PORT: '81' })

  t.equal(config.values.http.port, 81)
})

t.test('every mistake is reported at once, with its place', async (t) => {
  const text = JSON.stringify({
    databse: {},
    database: { url: { $env: 'NOT_SET' }, poolSize: 0, poolsiz: 3 },
    http: { port: '80', origins: { $file: 'missing.txt' } },
    log: { level: 'loud', to: { path: 'x' } },
  })

  const mistakes = await mistakesOf(load(t, { text }, { ROWHOUSE_HTTP__TRUST: 'yes', ROWHOUSE_HTPP__HOST: 'x' }))

  t.same(
    mistakes.map((mistake) => mistake.replace(/cannot be read: .*/, 'cannot be read')).toSorted(),
    [
      '$.HTPP: unknown key, did you mean "http"?',
      '$.database.poolSize: must be >= 1',
      '$.database.poolsiz: unknown key, did you mean "poolSize"?',
      '$.database.url: environment variable NOT_SET is not set',
      '$.databse: unknown key, did you mean "database"?',
      '$.http.origins: cannot be read',
      '$.http.port: must be integer',
      '$.http.trust: must be boolean',
      '$.log.level: must be one of "info","debug"',
      '$.log.to.path: unknown key',
      '$.log.to.url: is required',
    ].toSorted(),
  )
})

t.test('a mistake says which variable, argument or file it came from', async (t) => {
  const loading = load(t, { text: '{"log":{"level":1}}' }, { ROWHOUSE_PORT: 'http' }, { http: { trust: 'maybe' } })

  await t.rejects(loading, {
    message: /has 3 mistakes:\n.*\$\.http\.port: must be integer \(environment variable ROWHOUSE_PORT\)/s,
    mistakes: [
      { path: '$.http.port', where: 'environment variable ROWHOUSE_PORT' },
      { path: '$.http.trust', where: 'command line' },
      { path: '$.log.level', where: /rowhouse\.config\.json$/ },
    ],
  })
})

t.test('a value of no allowed type is told the types', async (t) => {
  t.same(await mistakesOf(load(t, { text: '{"log":{"to":5}}' })), ['$.log.to: must be string or object'])
})

t.test('a documented variable that is misspelt is refused', async (t) => {
  t.same(await mistakesOf(load(t, {}, { ROWHOUSE_ADMIN_SECERT: 'x' })), [
    '$: unknown variable, did you mean ROWHOUSE_ADMIN_SECRET?',
  ])
})

t.test('a named file that does not exist, and two files at once, are mistakes', async (t) => {
  t.match(await mistakesOf(load(t, {}, { ROWHOUSE_CONFIG: 'none.json' })), [/^\$: file .*none\.json does not exist$/])
  t.match(await mistakesOf(load(t, { text: '{}', others: { 'rowhouse.config.js': '' } })), [/both exist/])
})

t.test('a file with a name that is not read is a mistake, also beside one that is', async (t) => {
  const others = { 'rowhouse.config.yaml': 'http:', 'rowhouse.config.example.yaml': '', 'rowhouse.config.md': '' }

  t.match(await mistakesOf(load(t, { others })), [/^\$: rowhouse.config.yaml is not read: write rowhouse.config.js, /])
  t.match(await mistakesOf(load(t, { text: '{}', others })), [/^\$: rowhouse.config.yaml is not read/])
})

t.test('a file that cannot be read shows no piece of its text', async (t) => {
  const mistakes = await mistakesOf(load(t, { text: '{"auth": hunter2}' }))

  t.match(mistakes, [/^\$: cannot be read: not JSON/])
  t.notMatch(mistakes.join(), /hunter2/)
})

t.test('a configuration is frozen', async (t) => {
  const config = await load(t, {})

  t.throws(() => Object.assign(config.values.http.timeouts, { headersMs: 1 }), TypeError)
})

t.test('a mistake never shows the value, which may be a secret', async (t) => {
  const loading = load(
    t,
    { text: '{"http":{"port":"hunter2"},"log":{"level":"hunter2"}}' },
    { ROWHOUSE_HTTP__TRUST: 'hunter2' },
  )

  t.notMatch((await mistakesOf(loading)).join(), /hunter2/)
})
