import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { ConfigError } from '../../core/host/config.js'
import { loadAll } from '../../core/host/load.js'

const sections = {
  http: { type: 'object', properties: { port: { type: 'integer', default: 8080 } } },
} as const

const HELLO = `export default {
  name: 'hello',
  config: {
    type: 'object',
    properties: {
      greeting: { type: 'string', default: 'Hello' },
      keepDays: { type: 'integer' },
      key: { type: 'string', secret: true },
    },
  },
  setup() {},
}`
const plugin = (name: string, needs: readonly string[] = [], wants: readonly string[] = []) =>
  `export default { name: '${name}', needs: ${JSON.stringify(needs)}, wants: ${JSON.stringify(wants)}, setup() {} }`
const SMS = `export default {
  kind: 'sms',
  name: 'gateway',
  config: { type: 'object', required: ['token'], properties: { token: { type: 'string', secret: true }, retries: { type: 'integer', default: 2 } } },
  create: () => ({ send: async () => ({ id: '1', detail: '' }) }),
}`

interface Case {
  readonly config?: unknown
  /** Text of `rowhouse.config.js`, in place of `config`. */
  readonly script?: string
  readonly files?: Readonly<Record<string, string>>
  readonly env?: Readonly<Record<string, string>>
  readonly overrides?: Readonly<Record<string, unknown>>
  /** Built-in plugins and SMS providers, as paths of files. */
  readonly plugins?: Readonly<Record<string, string>>
  readonly sms?: Readonly<Record<string, string>>
}

/** Loads a configuration in a folder of its own, which has these files. */
async function load(t: { teardown(fn: () => Promise<void>): void }, given: Case) {
  const cwd = await mkdtemp(join(tmpdir(), 'rowhouse-load-'))
  t.teardown(() => rm(cwd, { recursive: true }))
  const config =
    given.script === undefined
      ? { 'rowhouse.config.json': JSON.stringify(given.config ?? {}) }
      : { 'rowhouse.config.js': given.script }
  for (const [path, text] of Object.entries({ 'package.json': '{"type":"module"}', ...config, ...given.files })) {
    await mkdir(dirname(join(cwd, path)), { recursive: true })
    await writeFile(join(cwd, path), text)
  }
  const urls = (paths: Readonly<Record<string, string>> = {}) =>
    Object.fromEntries(Object.entries(paths).map(([name, path]) => [name, pathToFileURL(join(cwd, path))]))
  const builtins = { plugins: urls(given.plugins), providers: { sms: urls(given.sms) }, commands: ['dev'] }
  const { loaded, config: found } = await loadAll({
    sections,
    env: given.env ?? {},
    overrides: given.overrides ?? {},
    cwd,
    builtins,
  })
  return { ...loaded, values: found.values }
}

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

t.test('a built-in is loaded unless it is switched off', async (t) => {
  const files = { 'a.js': plugin('a'), 'b.js': plugin('b'), 'c.js': plugin('c') }
  const plugins = { a: 'a.js', b: 'b.js', c: 'c.js' }

  const { plugins: loaded } = await load(t, {
    config: { plugins: { b: false } },
    env: { ROWHOUSE_PLUGINS__C: 'false' },
    files,
    plugins,
  })

  t.same(
    loaded.map((one) => one.plugin.name),
    ['a'],
  )
})

t.test('a path is relative to the configuration file, a package is looked up from there', async (t) => {
  const packageJson = (exports: unknown) => JSON.stringify({ name: 'x', type: 'module', exports })
  const loaded = await load(t, {
    config: { plugins: { hello: { use: './own/hello.js' }, audit: { use: '@acme/audit' } } },
    files: {
      'own/hello.js': HELLO,
      'node_modules/@acme/audit/package.json': packageJson('./main.js'),
      'node_modules/@acme/audit/main.js': plugin('audit'),
    },
  })

  t.same(
    loaded.plugins.map((one) => one.plugin.name),
    ['hello', 'audit'],
  )
})

t.test('a package that can only be imported is looked up from the configuration file', async (t) => {
  const packed = (exports: unknown) => JSON.stringify({ name: 'x', type: 'module', exports })
  const { plugins } = await load(t, {
    config: {
      plugins: {
        one: { use: '@acme/one' },
        two: { use: 'two' },
        three: { use: 'three/plugin' },
        four: { use: 'four' },
      },
    },
    files: {
      'node_modules/@acme/one/package.json': packed({ '.': { types: './one.d.ts', import: './one.js' } }),
      'node_modules/@acme/one/one.js': plugin('one'),
      'node_modules/two/package.json': packed({ import: { types: './two.d.ts', node: './lib/two.js' } }),
      'node_modules/two/lib/two.js': plugin('two'),
      'node_modules/three/package.json': packed({ './plugin': { import: './three.js' } }),
      'node_modules/three/three.js': plugin('three'),
      'node_modules/four/package.json': packed({ import: './four.js', require: './four.cjs' }),
      'node_modules/four/four.js': plugin('four'),
      'node_modules/four/four.cjs': `module.exports = ${plugin('four').replace('export default', '')}`,
    },
  })

  t.same(plugins.map((one) => one.plugin.name), ['one', 'two', 'three', 'four']) // prettier-ignore
})

t.test('a mistake in a plugin is at its file and line', async (t) => {
  const loading = load(t, {
    files: {
      'broken.js': 'const luck = 1\nthrow new Error("out of luck")',
      'syntax.js': 'export default {\n  name: name: 1\n}',
      'data.js': plugin('data'),
    },
    plugins: { broken: 'broken.js', syntax: 'syntax.js', data: 'data.js' },
  })

  const wheres = await loading.then(
    () => [],
    (error: ConfigError) => error.mistakes.map(({ where }) => where),
  )
  t.match(wheres.toSorted(), [/\/broken\.js:2$/, /\/rowhouse\.config\.json$/, /\/syntax\.js:2$/])
})

t.test('a JavaScript configuration may list imported plugins, or name them', async (t) => {
  const files = { 'hello.js': HELLO, 'audit.js': plugin('audit') }
  const imports = `import hello from './hello.js'\nimport audit from './audit.js'\n`

  const list = await load(t, { files, script: `${imports} export default { plugins: [audit, hello] }` })
  const named = await load(t, {
    files,
    script: `${imports} export default { plugins: { audit, hello: { use: hello, greeting: 'Hi' } } }`,
  })

  t.same(
    list.plugins.map((one) => one.plugin.name),
    ['audit', 'hello'],
  )
  t.match(named.plugins, [{ plugin: { name: 'audit' } }, { plugin: { name: 'hello' }, config: { greeting: 'Hi' } }])
})

t.test('the configuration of a plugin has defaults, secrets and variables as the sections have', async (t) => {
  const { plugins } = await load(t, {
    config: { plugins: { hello: { key: { $env: 'KEY' } } } },
    env: { KEY: '12', ROWHOUSE_PLUGINS__HELLO__KEEP_DAYS: '30' },
    files: { 'hello.js': HELLO },
    plugins: { hello: 'hello.js' },
  })

  t.same(plugins[0]?.config, { greeting: 'Hello', key: '12', keepDays: 30 })
})

t.test('plugins are set up after what they need', async (t) => {
  const { plugins } = await load(t, {
    files: { 'a.js': plugin('a', ['c', 'log']), 'b.js': plugin('b'), 'c.js': plugin('c', ['b']) },
    plugins: { a: 'a.js', b: 'b.js', c: 'c.js' },
  })

  t.same(
    plugins.map((one) => one.plugin.name),
    ['b', 'c', 'a'],
  )
})

t.test('a need that no plugin provides is named, and so is one that is switched off', async (t) => {
  const loading = load(t, {
    config: { plugins: { off: false } },
    files: { 'a.js': plugin('a', ['none', 'off']), 'off.js': plugin('off') },
    plugins: { a: 'a.js', off: 'off.js' },
  })

  t.same(await mistakesOf(loading), [
    '$.plugins.a: plugin "a" needs "none", which no loaded plugin provides',
    '$.plugins.a: plugin "a" needs "off", which no loaded plugin provides ("off" is disabled)',
  ])
})

t.test('a plugin that could not be loaded is reported once, not by those that need it as well', async (t) => {
  const loading = load(t, {
    files: { 'a.js': plugin('a', ['broken']), 'broken.js': 'throw new Error("out of luck")' },
    plugins: { a: 'a.js', broken: 'broken.js' },
  })

  t.match(await mistakesOf(loading), [/^\$\.plugins\.broken: .* cannot be loaded: out of luck$/])
  t.equal((await mistakesOf(loading)).length, 1)
})

t.test('plugins that need each other are shown as a ring', async (t) => {
  const loading = load(t, {
    files: { 'a.js': plugin('a', ['b']), 'b.js': plugin('b', ['c']), 'c.js': plugin('c', ['b']) },
    plugins: { a: 'a.js', b: 'b.js', c: 'c.js' },
  })

  t.same(await mistakesOf(loading), ['$.plugins.b: plugins need each other in a cycle: b -> c -> b'])
})

t.test('what a plugin wants comes first if it is there', async (t) => {
  const { plugins } = await load(t, {
    config: { plugins: { off: false } },
    files: {
      'a.js': plugin('a', [], ['none', 'off', 'c', 'log']),
      'b.js': plugin('b'),
      'c.js': plugin('c'),
      'off.js': '',
    },
    plugins: { a: 'a.js', b: 'b.js', c: 'c.js', off: 'off.js' },
  })

  t.same(
    plugins.map((one) => one.plugin.name),
    ['c', 'a', 'b'],
  )
})

t.test('a want that would close a ring gives no order', async (t) => {
  const orderOf = async (uses: Readonly<Record<string, { needs?: string[]; wants?: string[] }>>) => {
    const names = Object.keys(uses)
    const files = names.map((name) => [`${name}.js`, plugin(name, uses[name]?.needs, uses[name]?.wants)] as const)
    const paths = names.map((name) => [name, `${name}.js`] as const)
    const { plugins } = await load(t, { files: Object.fromEntries(files), plugins: Object.fromEntries(paths) })
    return plugins.map((one) => one.plugin.name)
  }

  t.same(
    await orderOf({ a: { wants: ['b'] }, b: { wants: ['a'] } }),
    ['b', 'a'],
    'the first that is listed has its way',
  )
  t.same(await orderOf({ a: { wants: ['b'] }, b: { needs: ['a'] } }), ['a', 'b'], 'a need counts more')
  t.same(await orderOf({ a: { needs: ['b'] }, b: { wants: ['a'] } }), ['b', 'a'])
  t.same(await orderOf({ a: { wants: ['a'] } }), ['a'])
  t.same(
    await orderOf({ a: { wants: ['c'] }, b: { needs: ['a'], wants: ['c'] }, c: { needs: ['d'] }, d: { wants: ['b'] } }),
    ['d', 'c', 'a', 'b'],
    'through others as well',
  )
})

t.test('a ring of needs is told, whoever wants one of it', async (t) => {
  const loading = load(t, {
    files: { 'a.js': plugin('a', [], ['b']), 'b.js': plugin('b', ['c']), 'c.js': plugin('c', ['b'], ['a']) },
    plugins: { a: 'a.js', b: 'b.js', c: 'c.js' },
  })

  t.same(await mistakesOf(loading), ['$.plugins.b: plugins need each other in a cycle: b -> c -> b'])
})

t.test('what is not a plugin is refused with the reason', async (t) => {
  const loading = load(t, {
    config: {
      plugins: {
        none: { use: './none.js' },
        broken: { use: './broken.js' },
        empty: { use: './empty.js' },
        text: { use: './text.js' },
        Loud: { use: './loud.js' },
        still: { use: './still.js' },
        wants: { use: './wants.js' },
        data: { use: './data.js' },
        other: { use: './hello.js' },
        helo: {},
        number: 5,
      },
    },
    files: {
      'broken.js': 'throw new Error("out of luck")',
      'empty.js': '',
      'text.js': 'export default "text"',
      'loud.js': `export default { name: 'Loud', setup() {} }`,
      'still.js': `export default { name: 'still' }`,
      'wants.js': `export default { name: 'wants', wants: 'data', setup() {} }`,
      'data.js': plugin('data'),
      'hello.js': HELLO,
    },
    plugins: { hello: 'hello.js' },
  })

  const mistakes = (await mistakesOf(loading)).toSorted()
  t.match(mistakes, [
    /^\$\.plugins\.Loud: the plugin has no name of lower case/,
    /^\$\.plugins\.broken: ".\/broken.js" cannot be loaded: out of luck$/,
    /^\$\.plugins\.data: the plugin "data" has the name of a service of the core$/,
    /^\$\.plugins\.empty: ".\/empty.js" has no default export$/,
    /^\$\.plugins\.helo: there is no built-in plugin "helo", did you mean "hello"\?$/,
    /^\$\.plugins\.none: file ".\/none.js" does not exist \(relative to /,
    /^\$\.plugins\.number: there is no built-in plugin "number"; "use" names a package or a path$/,
    /^\$\.plugins\.other: is the plugin "hello", so its key must be "hello"$/,
    /^\$\.plugins\.still: the plugin "still" has no function "setup"$/,
    /^\$\.plugins\.text: the plugin is not an object; create it with definePlugin$/,
    /^\$\.plugins\.wants: the plugin "wants" has "wants" that are not a list of names$/,
  ])
  t.equal(mistakes.length, 11)
})

t.test('a plugin and a provider say which version of the extension API they need', async (t) => {
  const files = {
    'one.js': `export default { name: 'one', api: '^1', setup() {} }`,
    'zero.js': `export default { name: 'zero', api: '^1.0', setup() {} }`,
    'later.js': `export default { name: 'later', api: '^1.7', setup() {}, reload() {} }`,
    'next.js': `export default { name: 'next', api: '^2', setup() {} }`,
    'odd.js': `export default { name: 'odd', api: '>=1', setup() {} }`,
    'sms.js': `export default { kind: 'sms', name: 'gateway', api: '^2', create: () => ({}) }`,
  }
  const plugins = Object.fromEntries(['one', 'zero', 'later', 'next', 'odd'].map((name) => [name, `${name}.js`]))
  const config = { providers: { sms: { gateway: {} } } }

  t.match((await mistakesOf(load(t, { config, files, plugins, sms: { gateway: 'sms.js' } }))).toSorted(), [
    /^\$\.plugins\.later: the plugin "later" needs version \^1\.7 of the extension API; rowhouse [\d.]+ has version 1\.\d+$/,
    /^\$\.plugins\.next: the plugin "next" needs version \^2 of the extension API; rowhouse/,
    /^\$\.plugins\.odd: the plugin "odd" has an "api" that is not a range such as "\^1"$/,
    /^\$\.providers\.sms\.gateway: the provider "gateway" needs version \^2 of the extension API/,
  ])
})

t.test('a misspelt key of a plugin, a command or a provider gets a hint', async (t) => {
  const files = {
    'a.js': `export default { name: 'a', setpu() {} }`,
    'b.js': `export default { name: 'b', migration: [], setup() {} }`,
    'c.js': `export default { name: 'c', setup() {}, commands: [{ name: 'go', summary: '', usage: '', help: '', flag: {}, run() {} }] }`,
    'sms.js': `export default { kind: 'sms', name: 'gateway', configs: {}, create: () => ({}) }`,
  }
  const config = { providers: { sms: { gateway: {} } } }
  const plugins = { a: 'a.js', b: 'b.js', c: 'c.js' }

  t.same((await mistakesOf(load(t, { config, files, plugins, sms: { gateway: 'sms.js' } }))).toSorted(), [
    '$.plugins.a: the plugin "a" has the unknown key "setpu", did you mean "setup"?',
    '$.plugins.b: the plugin "b" has the unknown key "migration", did you mean "migrations"?',
    '$.plugins.c: the plugin "c" has a command "go" that has the unknown key "flag", did you mean "flags"?',
    '$.providers.sms.gateway: the provider "gateway" has the unknown key "configs", did you mean "config"?',
  ])
})

t.test('a misspelt need gets a hint, and a misspelt want is a warning', async (t) => {
  const files = { 'a.js': plugin('a', ['filestor']), 'filestore.js': plugin('filestore') }
  const plugins = { a: 'a.js', filestore: 'filestore.js' }

  t.same(await mistakesOf(load(t, { files, plugins })), [
    '$.plugins.a: plugin "a" needs "filestor", which no loaded plugin provides, did you mean "filestore"?',
  ])
  const wanting = { ...files, 'a.js': plugin('a', [], ['filestor', 'absent', 'filestore']) }
  const { warnings } = await load(t, { config: { plugins: { filestore: false } }, files: wanting, plugins })
  t.same(warnings, ['plugin "a" wants "filestor", which no loaded plugin provides, did you mean "filestore"?'])
})

t.test('a command has one owner', async (t) => {
  const commanding = (name: string, ...commands: readonly string[]) =>
    `const command = (name) => ({ name, summary: '', usage: '', help: '', run() {} })
     export default { name: '${name}', commands: ${JSON.stringify(commands)}.map(command), setup() {} }`
  const files = { 'a.js': commanding('a', 'count', 'dev'), 'b.js': commanding('b', 'count') }

  t.same(await mistakesOf(load(t, { files, plugins: { a: 'a.js', b: 'b.js' } })), [
    '$.plugins.a: plugin "a" cannot have the command "dev", which is a command of rowhouse',
    '$.plugins.b: plugin "b" cannot have the command "count", which is a command of the plugin "a"',
  ])
})

t.test('a package that is not installed is named', async (t) => {
  t.match(await mistakesOf(load(t, { config: { plugins: { audit: { use: '@acme/absent' } } } })), [
    /^\$\.plugins\.audit: "@acme\/absent" cannot be loaded: /,
  ])
})

t.test('the same plugin twice in a list is refused', async (t) => {
  const files = { 'audit.js': plugin('audit') }
  const script = `import audit from './audit.js'\nexport default { plugins: [audit, audit] }`

  t.same(await mistakesOf(load(t, { files, script })), ['$.plugins[1]: there are two plugins "audit"'])
})

t.test('mistakes of sections, plugins and providers are reported together', async (t) => {
  const loading = load(t, {
    config: {
      http: { port: 'x' },
      plugins: { hello: { greting: 'Hi' }, plain: { any: 1 } },
      providers: { sms: { default: 'gateway', gateway: { retries: 'many' }, telegraph: {} } },
    },
    env: { ROWHOUSE_PLUGINS__HELLO__KEEP_DAYS: 'long' },
    files: { 'hello.js': HELLO, 'plain.js': plugin('plain'), 'sms.js': SMS },
    plugins: { hello: 'hello.js', plain: 'plain.js' },
    sms: { gateway: 'sms.js' },
  })

  t.same((await mistakesOf(loading)).toSorted(), [
    '$.http.port: must be integer',
    '$.plugins.hello.greting: unknown key, did you mean "greeting"?',
    '$.plugins.hello.keepDays: must be integer',
    '$.plugins.plain.any: unknown key',
    '$.providers.sms.gateway.retries: must be integer',
    '$.providers.sms.gateway.token: is required',
    '$.providers.sms.telegraph: there is no built-in sms provider "telegraph"; "use" names a package or a path',
  ])
})

t.test('a kind has several providers, of the same code too', async (t) => {
  const { providers, warnings } = await load(t, {
    config: {
      providers: {
        sms: {
          default: 'b',
          gateway: { token: '1' },
          b: { use: 'gateway', token: '2' },
          c: { use: './own.js', token: '3' },
        },
      },
    },
    files: { 'sms.js': SMS, 'own.js': SMS },
    sms: { gateway: 'sms.js' },
  })

  const sms = providers.get('sms')
  t.equal(sms?.default, 'b')
  t.same(
    [...(sms?.byName ?? [])].map(([name, { config }]) => [name, config]),
    [
      ['gateway', { token: '1', retries: 2 }],
      ['b', { token: '2', retries: 2 }],
      ['c', { token: '3', retries: 2 }],
    ],
  )
  t.same(warnings, [])
})

t.test('a provider can be configured by variables alone', async (t) => {
  const { providers } = await load(t, {
    env: { ROWHOUSE_PROVIDERS__SMS__DEFAULT: 'gateway', ROWHOUSE_PROVIDERS__SMS__GATEWAY__TOKEN: '77' },
    files: { 'sms.js': SMS },
    sms: { gateway: 'sms.js' },
  })

  t.equal(providers.get('sms')?.default, 'gateway')
  t.same(providers.get('sms')?.byName.get('gateway')?.config, { token: '77', retries: 2 })
})

t.test('a provider of another kind is refused', async (t) => {
  const loading = load(t, {
    config: { providers: { email: { gateway: { use: './sms.js', token: 'x' } } } },
    files: { 'sms.js': SMS },
  })

  t.same(await mistakesOf(loading), ['$.providers.email.gateway: the provider "gateway" is of kind "sms", not "email"'])
})

t.test('a default without a configuration is a warning, because only its use fails', async (t) => {
  const { warnings } = await load(t, { config: { providers: { sms: { default: 'vonage' } } } })

  t.same(warnings, ['providers.sms.default is "vonage", which has no configuration: set providers.sms.vonage'])
})
