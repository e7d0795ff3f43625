import { type Builtins, needsDatabase } from '../host/load.js'
import { loadServer } from '../host/server.js'
import { commandDatabase } from './command-database.js'
import type { ConfigSource, Invocation } from './invocation.js'
import { readSections, source } from './read-sections.js'

const plugin = (name: string): URL => new URL(`../../plugins/${name}/index.js`, import.meta.url)

/** The commands of `main.ts`. */
export const COMMAND_NAMES = ['check', 'dev', 'doctor', 'init', 'start', 'token', 'upgrade', 'worker'] as const

/**
 * Returns the built-in plugins and providers. Optional plugins load only when configured. `sample` adds the sample
 * shop; `catches` keeps messages instead of sending them.
 */
export function builtins({ sample = false, catches = false } = {}): Builtins {
  const provider = (kind: string, ...names: readonly string[]) =>
    Object.fromEntries(names.map((name) => [name, new URL(`../../providers/${kind}/${name}.js`, import.meta.url)]))
  return {
    plugins: {
      query: plugin('query'),
      template: plugin('template'),
      graphql: plugin('graphql'),
      filestore: plugin('filestore'),
      notify: plugin('notify'),
      console: plugin('console'),
      sql: plugin('sql'),
      events: plugin('events'),
      history: plugin('history'),
      live: plugin('live'),
      ...(sample ? { sample: plugin('sample') } : {}),
    },
    follows: { console: 'query', template: 'query', events: 'query', history: 'query', live: 'query' },
    commands: [...COMMAND_NAMES, 'help'],
    optional: { bench: plugin('bench'), hasura: plugin('hasura'), stitch: plugin('stitch') },
    providers: {
      email: provider('email', 'log', 'mailgun', 'memory', 'postmark', 'resend', 'sendgrid', 'ses', 'smtp'),
      sms: provider('sms', 'http', 'log', 'memory', 'twilio', 'vonage'),
      event: provider('event', 'webhook'),
      storage: provider('storage', 'disk', 'memory', 's3'),
    },
    defaults: { storage: 'disk', ...(catches ? { email: 'memory', sms: 'memory' } : {}) },
  }
}

/**
 * Returns whether any configured plugin needs a database.
 * @throws ConfigError with every mistake of the configuration
 */
export async function wantsDatabase(from: ConfigSource): Promise<boolean> {
  return needsDatabase((await loadServer({ ...source(from), builtins: builtins() })).loaded)
}

type Values = Awaited<ReturnType<typeof readSections>>['values']

/**
 * Runs `fn` with the configured database, or with the one in the data directory.
 * @throws Error that explains how to configure a database
 */
export async function withDatabase<T>(
  invocation: Invocation,
  fn: (url: string, values: Values) => Promise<T>,
): Promise<T> {
  const { values } = await readSections(invocation)
  const { database, dataDir } = values
  const found = await commandDatabase(database.url, dataDir, invocation)
  try {
    return await fn(found.url, values)
  } finally {
    await found.close()
  }
}
