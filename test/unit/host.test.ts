import { pino } from 'pino'
import { Registry } from 'prom-client'
import t from 'tap'
import { Registry as Operations } from '../../core/data/registry.js'
import { serviceError } from '../../core/errors.js'
import { createHost, createShared } from '../../core/host/plugin-host.js'
import { pluginToBlame } from '../../core/host/blame.js'
import { closeHooks, runHooks, runStep } from '../../core/host/lifecycle.js'
import type { LoadedKind } from '../../core/host/load.js'
import { defineProvider, type Provider } from '../../core/host/plugin.js'
import { createProviders } from '../../core/host/providers.js'
import { parseJson } from '../../core/json/parse.js'
import { alone } from '../../core/processes/siblings.js'

const log = pino({ level: 'silent' })
const receipt = { id: '1', detail: '' }

function shared(kinds: ReadonlyMap<string, LoadedKind> = new Map()) {
  return createShared({
    log,
    metrics: new Registry(),
    providers: createProviders(kinds, { log, dataDir: '.', timeoutMs: 30_000 }),
    dataDir: '/srv/data',
    background: true,
    siblings: alone(),
  })
}

/** SMS providers as they are after loading, which has checked their shape. */
function kind(name: string | undefined, providers: Readonly<Record<string, unknown>>): Map<string, LoadedKind> {
  const entries = Object.entries(providers)
  const byName = new Map(entries.map(([key, provider]) => [key, { provider: provider as Provider, config: {} }]))
  return new Map([['sms', { default: name, byName }]])
}

t.test('a step that does not end is named with its plugin', async (t) => {
  await t.rejects(
    runStep('slow', 'setup', () => new Promise(() => {}), 20),
    { message: 'plugin "slow" did not finish "setup" within 0.02 s' },
  )
})

t.test('a step that fails is named with its plugin, thrown or rejected', async (t) => {
  const boom = new Error('boom')

  await t.rejects(
    runStep('bad', 'ready', () => Promise.reject(boom), 30_000),
    {
      message: 'plugin "bad" failed in "ready": boom',
      cause: boom,
    },
  )
  await t.rejects(
    runStep(
      'bad',
      'setup',
      () => {
        throw boom
      },
      30_000,
    ),
    { message: 'plugin "bad" failed in "setup": boom' },
  )
})

t.test('a step gives what its work gives', async (t) => {
  t.equal(await runStep('good', 'setup', () => 5, 30_000), 5)
})

t.test('getting ready happens in order and ends at the first failure', async (t) => {
  const seen: string[] = []
  const hooks = ['a', 'b', 'c'].map((name) => ({
    owner: `plugin "${name}"`,
    run() {
      seen.push(name)
      if (name === 'b') throw new Error('boom')
    },
  }))

  await t.rejects(runHooks(hooks, 'ready', 30_000), { message: 'plugin "b" failed in "ready": boom' })
  t.same(seen, ['a', 'b'])
})

t.test('closing happens in reverse order, goes on past failures, and reports them together', async (t) => {
  const seen: string[] = []
  const hooks = ['a', 'b', 'c'].map((name) => ({
    owner: `plugin "${name}"`,
    run() {
      seen.push(name)
      if (name !== 'b') throw new Error(`no ${name}`)
    },
  }))

  await t.rejects(closeHooks(hooks, 30_000), {
    message: 'plugin "c" failed in "close": no c; plugin "a" failed in "close": no a',
    errors: [{ message: /no c/ }, { message: /no a/ }],
  })
  t.same(seen, ['c', 'b', 'a'])
})

t.test('an error is from the plugin whose module, or folder, is innermost on its stack', (t) => {
  const origins = [
    { name: 'one', module: 'file:///srv/app/one.js' },
    { name: 'two', module: 'file:///srv/app/two.js' },
    { name: 'pack', module: 'file:///srv/app/node_modules/@acme/pack/index.js' },
    { name: 'listed', module: undefined },
  ]
  const blamed = (...frames: string[]) => {
    const stack = [
      'Error: boom',
      ...frames.map((frame) => `    at ${frame}:1:2${frame.includes('(') ? ')' : ''}`),
    ].join('\n')
    return pluginToBlame(Object.assign(new Error('boom'), { stack }), origins)
  }

  t.equal(blamed('new Promise (<anonymous>', 'run (file:///srv/app/two.js', 'file:///srv/app/one.js'), 'two')
  t.equal(blamed('/srv/app/node_modules/pg/lib/client.js', 'async Object.setup (/srv/app/one.js'), 'one')
  t.equal(blamed('send (file:///srv/app/node_modules/@acme/pack/lib/send.js'), 'pack')
  t.equal(blamed('shared (file:///srv/app/shared.js'), undefined, 'more than one is in that folder')
  t.equal(blamed('process.processTimers (node:internal/timers'), undefined)
  t.equal(pluginToBlame('boom', origins), undefined)
  t.end()
})

t.test('a service can be used when it is named in needs, and no other', async (t) => {
  const registry = shared()
  registry.services.set('notify', { hello: true })
  registry.services.set('data', { catalog: true })

  const host = createHost({ name: 'x', needs: ['notify'] as never }, registry)
  const other = createHost({ name: 'y' }, registry)

  t.same(host.use('notify' as never), { hello: true })
  t.same(other.use('data'), { catalog: true })
  t.throws(() => other.use('notify' as never), { message: 'plugin "y" uses "notify" without listing it in "needs"' })
})

t.test('a service that is wanted or needed is found once it is there, and no other is looked for', async (t) => {
  const registry = shared()
  const host = createHost({ name: 'x', needs: ['data'], wants: ['notify', 'log'] as never }, registry)

  t.equal(host.find('notify' as never), undefined)
  registry.services.set('notify', { hello: true })
  registry.services.set('data', { catalog: true })

  t.same(host.find('notify' as never), { hello: true })
  t.same(host.find('data'), { catalog: true })
  t.equal(host.find('log'), host.use('log'))
  t.throws(() => host.find('files' as never), { message: 'plugin "x" uses "files" without listing it in "wants"' })
  t.throws(() => host.find('operations'), { message: /without listing it/ })
  t.throws(() => host.use('notify' as never), { message: 'plugin "x" uses "notify" without listing it in "needs"' })
})

t.test('a plugin that offers no service cannot be used', async (t) => {
  const host = createHost({ name: 'x', needs: ['mute'] as never }, shared())

  t.throws(() => host.use('mute' as never), { message: 'plugin "x" uses "mute", which offers no service' })
})

t.test('the log of a plugin is labelled with its name', async (t) => {
  const lines: string[] = []
  const base = shared()
  const logged = pino({ base: null }, { write: (line: string) => void lines.push(line) })

  createHost({ name: 'x' }, { ...base, log: logged })
    .use('log')
    .info('hi')

  t.match(JSON.parse(lines[0] ?? ''), { plugin: 'x', msg: 'hi' })
})

t.test('what plugins contribute is kept in load order', async (t) => {
  const registry = shared()
  const fn = () => {}
  for (const name of ['a', 'b']) {
    const host = createHost({ name }, registry)
    host.onReady(fn)
    host.onDrain(fn)
    host.onClose(fn)
    host.authenticator(() => null)
    host.middleware(async () => {})
    host.health('queue', fn)
    host.planner(name, new URL('file:///planner.js'))
    host.operation(`run_${name}`, { run: () => Promise.reject(new Error('unused')) })
    host.formatError(() => name)
  }

  t.same([...registry.routers.keys()], ['a', 'b'])
  t.same(
    registry.hooks.close.map(({ owner }) => owner),
    ['plugin "a"', 'plugin "b"'],
  )
  t.same([registry.hooks.ready.length, registry.hooks.drain.length], [2, 2])
  t.same([registry.authenticators.length, registry.middlewares.length], [2, 2])
  t.same([...registry.probes.keys()], ['a.queue', 'b.queue'])
  t.same([...registry.planners.keys()], ['a', 'b'])
  t.same([...registry.operations.keys()], ['run_a', 'run_b'])
  t.same([...registry.errorFormats.keys()], ['a', 'b'])
})

t.test('a path whose requests prove who sent them ends with a slash, and is not everything', async (t) => {
  const registry = shared()
  const host = createHost({ name: 'a' }, registry)
  host.proves('/v1/hooks/')
  t.same(registry.proofs, [{ plugin: 'a', prefix: '/v1/hooks/' }])
  for (const prefix of ['', '/', '/v1/hooks', 'v1/hooks/', '//'])
    t.throws(() => host.proves(prefix), { message: /is not a path such as/ }, prefix)
})

t.test('two plugins cannot add the same operation', async (t) => {
  const registry = shared()
  const operation = { run: () => Promise.reject(new Error('unused')) }
  createHost({ name: 'a' }, registry).operation('select', operation)

  t.throws(() => createHost({ name: 'b' }, registry).operation('select', operation), {
    message: 'plugin "b": operation "select" already exists',
  })
})

t.test('the arguments of an operation have defaults, and no keys that its schema does not know', async (t) => {
  const registry = shared()
  const host = createHost({ name: 'a' }, registry)
  const seen: unknown[] = []
  const pair = { type: 'object', properties: { unit: { type: 'string', default: 'day' } } } as const
  host.operation('remind', {
    args: {
      type: 'object',
      required: ['at'],
      properties: {
        at: { ...pair, default: {} },
        every: { type: 'array', items: pair },
        named: { type: 'object', additionalProperties: pair },
        open: { type: 'object', additionalProperties: true, properties: { n: { type: 'integer', default: 1 } } },
        any: {},
      },
    },
    run: async (args) => {
      seen.push(args)
      return { kind: 'text', text: '' }
    },
  })
  const operations = new Operations(registry.operations, 0, {} as never)
  const run = (args: string) =>
    operations.run(parseJson(`{"type": "remind", "args": ${args}}`), {
      session: { role: 'user', variables: new Map(), via: 'anonymous' },
      signal: AbortSignal.timeout(60_000),
      format: 'json',
    })

  await run('{}')
  await run('{"every": [{"unit": "hour"}, {}], "named": {"__proto__": {}}, "open": {"x": 1}, "any": {"y": [1.10]}}')

  t.equal(JSON.stringify(seen[0]), '{"at":{"unit":"day"}}')
  t.equal(
    JSON.stringify(seen[1]),
    '{"every":[{"unit":"hour"},{"unit":"day"}],"named":{"__proto__":{"unit":"day"}},"open":{"x":1,"n":1},"any":{"y":["1.10"]},"at":{"unit":"day"}}',
  )
  await t.rejects(run('{"evry": []}'), {
    code: 'unexpected-payload',
    path: '$.args.evry',
    message: 'unexpected key "evry", did you mean "every"?',
  })
  await t.rejects(run('{"at": {"u": 1}}'), { message: 'unexpected key "u"', path: '$.args.at.u' })
  t.throws(() => operations.lift(parseJson('{"type": "remind", "args": {"evry": []}}')), {
    message: /^unexpected key "evry"/,
    path: '$.args.evry',
  })
})

t.test('a plugin is told where the server keeps its files', async (t) => {
  t.equal(createHost({ name: 'x' }, shared()).dataDir, '/srv/data')
})

t.test('metrics carry the name of their plugin', async (t) => {
  const registry = shared()
  const host = createHost({ name: 'my-plugin' }, registry)

  host.metric.counter('sent_total', 'Messages sent', ['kind']).inc({ kind: 'sms' })
  host.metric.gauge('waiting', 'Messages waiting').set(3)
  host.metric.histogram('seconds', 'Time', [], [1, 2]).observe(1.5)

  const text = await registry.metrics.metrics()
  t.match(text, 'rowhouse_my_plugin_sent_total{kind="sms"} 1')
  t.match(text, 'rowhouse_my_plugin_waiting 3')
  t.match(text, 'rowhouse_my_plugin_seconds_bucket{le="2"} 1')
})

t.test('a provider is made when first asked for, once, and closed at the end', async (t) => {
  const seen: string[] = []
  const provider = (name: string) =>
    defineProvider({
      kind: 'sms',
      name,
      create() {
        seen.push(`create ${name}`)
        return { send: async () => receipt, close: async () => void seen.push(`close ${name}`) }
      },
    })
  const registry = shared(kind('a', { a: provider('a'), b: provider('b'), c: provider('c') }))
  const host = createHost({ name: 'x' }, registry)

  const [one, other] = await Promise.all([host.provider('sms'), host.provider('sms', 'a')])
  await host.provider('sms', 'b')
  await registry.providers.close()

  t.equal(one, other)
  t.same(seen, ['create a', 'create b', 'close b', 'close a'])
})

t.test('a provider that could not be made is tried again', async (t) => {
  let tries = 0
  const flaky = defineProvider({
    kind: 'sms',
    name: 'flaky',
    create() {
      if (++tries === 1) throw new Error('not yet')
      return { send: async () => receipt }
    },
  })
  const { providers } = shared(kind('flaky', { flaky }))

  await t.rejects(providers.get('sms'), { message: 'provider "sms.flaky" failed in "create": not yet' })
  await t.resolves(providers.get('sms'))
})

t.test('the only provider of a kind is its default', async (t) => {
  const only = defineProvider({ kind: 'sms', name: 'only', create: () => ({ send: async () => receipt }) })

  await t.resolves(shared(kind(undefined, { only })).providers.get('sms'))
})

t.test(
  'a plugin learns the name of the default provider, which need not be the name of what is behind it',
  async (t) => {
    const any = defineProvider({ kind: 'sms', name: 'any', create: () => ({ send: async () => receipt }) })
    const nameIn = (kinds: Map<string, LoadedKind>) => createHost({ name: 'x' }, shared(kinds)).providerName('sms')

    t.equal(nameIn(kind('b', { a: any, b: any })), 'b')
    t.equal(nameIn(kind(undefined, { main: any })), 'main', 'the only one')
    t.equal(nameIn(kind(undefined, { a: any, b: any })), undefined)
    t.equal(nameIn(new Map()), undefined)
  },
)

t.test('a missing provider is told from a wrong name, and both say what is configured', async (t) => {
  const any = defineProvider({ kind: 'sms', name: 'any', create: () => ({ send: async () => receipt }) })
  const { providers } = shared(kind(undefined, { a: any, b: any }))

  await t.rejects(providers.get('sms'), {
    code: 'no-default',
    message: 'no default sms provider is configured (configured: a, b); set providers.sms.default',
  })
  await t.rejects(providers.get('sms', 'c'), {
    code: 'not-configured',
    provider: 'c',
    message: 'no sms provider "c" is configured (configured: a, b); set providers.sms.c',
  })
  await t.rejects(providers.get('email'), {
    code: 'no-default',
    message: 'no default email provider is configured (none is); set providers.email.default',
  })
})

t.test(
  'work at intervals begins when the server has started, never overlaps itself, and ends with the server',
  async (t) => {
    const all = shared()
    const host = createHost({ name: 'busy' }, all)
    const ends: (() => void)[] = []
    let runs = 0
    const work = host.every('do its work', 60_000, async (signal) => {
      runs++
      await new Promise<void>((resolve) => {
        ends.push(resolve)
        signal.addEventListener('abort', () => resolve())
      })
    })

    work.run()
    t.equal(runs, 0, 'not before the start')
    await runHooks(all.hooks.ready, 'ready', 1000)
    work.run()
    work.run()
    work.run()
    t.equal(runs, 1)
    ends.shift()?.()
    await new Promise(setImmediate)
    t.equal(runs, 2, 'once more, because it was asked for in between')
    await closeHooks(all.hooks.close, 10_000)
    work.run()
    t.equal(runs, 2, 'the close aborts it, and it is not done again')
  },
)

t.test('work at intervals is done in one process, and survives a failure and a standby', async (t) => {
  const warnings: string[] = []
  const own = { ...log, child: () => ({ warn: (_: object, text: string) => warnings.push(text) }) } as never
  const first = { ...shared(), log: own }
  const failures = [new Error('boom'), serviceError('read-only', 'this is a standby')]
  const done: string[] = []
  const alive = setInterval(() => {}, 1000)
  await new Promise<void>((resolve) => {
    createHost({ name: 'busy' }, first).every('do its work', 1, async () => {
      const failure = failures.shift()
      done.push(failure?.message ?? 'done')
      if (failure) throw failure
      resolve()
    })
    void runHooks(first.hooks.ready, 'ready', 1000)
  })
  clearInterval(alive)
  await closeHooks(first.hooks.close, 10_000)
  t.same(done.slice(0, 3), ['boom', 'this is a standby', 'done'])
  t.same(warnings, ['could not do its work; will retry'])

  const second = { ...shared(), background: false }
  const idle = createHost({ name: 'busy' }, second).every(
    'do its work',
    1,
    async () => void t.fail('of another process'),
  )
  await runHooks(second.hooks.ready, 'ready', 1000)
  idle.run()
  await closeHooks(second.hooks.close, 10_000)
})
