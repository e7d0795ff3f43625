import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ServerOptions, startServer } from '../../core/host/server.js'
import { databaseForServer, sqlOn } from './database.js'
import { startProcesses, TEST_PROCESSES } from './several-processes.js'
import { patience } from './patience.js'
import { tellPooler, TEST_POOLER_URL } from './pooler.js'

/** Who asks in a test. */
export interface As {
  readonly role?: string
  /** Session variables, e.g. `{'x-service-user-id': '1'}`. */
  readonly variables?: Readonly<Record<string, string>>
  /** Whether an admin acts as the role, who sees more than the role's own callers. */
  readonly acting?: true
}
export interface Answered {
  readonly status: number
  /** As it came. */
  readonly text: string
  /** `JSON.parse(text)`, undefined when it is no JSON. Mind that large numbers lose digits. */
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any
  readonly headers: Headers
}

export interface TestServer {
  readonly url: string
  readonly databaseUrl: string
  /** `POST /v1/query`; as admin unless told otherwise. */
  query(type: string, args: unknown, as?: As): Promise<Answered>
  /** `POST /v1/query` with a body as it is. */
  raw(body: string, as?: As, headers?: Readonly<Record<string, string>>): Promise<Answered>
  /** Any request, as admin unless told otherwise. */
  fetch(path: string, init?: RequestInit, as?: As): Promise<Answered>
  /** Any request, without the admin secret. */
  bare(path: string, init?: RequestInit): Promise<Answered>
  /** As `query`, as admin; throws when the answer is no 200. */
  // oxlint-disable-next-line typescript/no-explicit-any
  must(type: string, args: unknown): Promise<any>
  /** Runs SQL in its database, past the server: a twentieth of what `run_sql` costs. Not for changes of tracked tables. */
  sql(text: string): ReturnType<typeof sqlOn>
  /** Stops it before the test ends. */
  close(): Promise<void>
}

export interface TestOptions {
  /** Worker threads; 0, in process, is the default. */
  readonly threads?: number
  /** A database that exists already; it is not dropped. */
  readonly databaseUrl?: string
  /** Built-in plugins beside `query`. */
  readonly builtins?: Readonly<Record<string, URL>>
  /** Whether files may be stored; on disk unless the configuration says otherwise. */
  readonly files?: boolean
  /** Whether messages may be sent: by the providers of the configuration. */
  readonly notify?: boolean
  /** Built-in providers beside the usual ones, by kind and name. */
  readonly providers?: Readonly<Partial<Record<'email' | 'event' | 'sms' | 'storage', Readonly<Record<string, URL>>>>>
  /** Sections of the configuration. */
  readonly config?: Readonly<Record<string, unknown>>
}

export const ADMIN_SECRET = 'a secret of a test, 32 characters.'
/** Of the gateway, through which a role's own callers come. */
export const GATEWAY_SECRET = 'the gateway of a test, 32 letters.'
const builtin = (path: string): URL => new URL(`../../${path}`, import.meta.url)

const STORES = ['disk', 'memory', 's3']
const provider = (name: string): URL => builtin(`providers/${name}.js`)

const PLUGINS = {
  query: builtin('plugins/query/index.js'),
  template: builtin('plugins/template/index.js'),
  graphql: builtin('plugins/graphql/index.js'),
  sql: builtin('plugins/sql/index.js'),
}

/** Set to `false`: servers of tests do without the ways that exist for speed alone. */
export const TEST_FAST = 'ROWHOUSE_TEST_FAST'

/** A whole server, over HTTP, on a database of its own; both are gone when the test ends. */
export async function testServer(
  t: { teardown(fn: () => Promise<void>): unknown },
  { threads = 0, databaseUrl, config = {}, builtins = {}, files = false, notify = false, providers }: TestOptions = {},
): Promise<TestServer> {
  const database = databaseUrl === undefined ? await databaseForServer() : { url: databaseUrl, drop: async () => {} }
  const pooler = process.env[TEST_POOLER_URL]
  const place = pooler === undefined ? { url: database.url } : await throughPooler(pooler, database.url)
  // Where nobody has left a configuration.
  const cwd = await mkdtemp(join(tmpdir(), 'rowhouse-test-server-'))
  const processes = process.env[TEST_PROCESSES]
  const start = processes === undefined ? startServer : (options: ServerOptions) => startProcesses(options, processes)
  const server = await start({
    env: {},
    cwd,
    overrides: {
      log: { level: 'fatal' },
      fast: process.env[TEST_FAST] !== 'false',
      compile: { threads, timeoutMs: patience(10_000) },
      // Tests ask for more new forms than any client; those of the limit turn it on.
      limits: { newQueries: { perSecond: 0 } },
      ...config,
      database: {
        ...place,
        poolWaitMs: patience(30_000),
        statementTimeoutMs: patience(60_000),
        lockTimeoutMs: patience(30_000),
        ...(config['database'] as object | undefined),
      },
      auth: { adminSecret: ADMIN_SECRET, gatewaySecret: GATEWAY_SECRET, ...(config['auth'] as object | undefined) },
      http: { port: 0, ...(config['http'] as object | undefined) },
    },
    builtins: {
      plugins: {
        ...PLUGINS,
        ...(files ? { filestore: builtin('plugins/filestore/index.js') } : {}),
        ...(notify ? { notify: builtin('plugins/notify/index.js') } : {}),
        ...builtins,
      },
      providers: {
        storage: {
          ...Object.fromEntries(STORES.map((name) => [name, provider(`storage/${name}`)])),
          ...providers?.storage,
        },
        email: { memory: provider('email/memory'), ...providers?.email },
        sms: { memory: provider('sms/memory'), ...providers?.sms },
        event: { ...providers?.event },
      },
      ...(files ? { defaults: { storage: 'disk' } } : {}),
    },
  })
  const close = () => {
    endKeptConnections()
    return server.close()
  }
  t.teardown(async () => {
    await close()
    await database.drop()
    await rm(cwd, { recursive: true, force: true })
  })

  async function ask(path: string, init: RequestInit = {}, as: As = {}): Promise<Answered> {
    const isAdmin = as.role === undefined || as.acting
    const headers = new Headers({
      ...(isAdmin ? { 'x-service-admin-secret': ADMIN_SECRET } : { 'x-service-gateway-secret': GATEWAY_SECRET }),
      ...(as.role === undefined ? {} : { 'x-service-role': as.role }),
      ...as.variables,
    })
    new Headers(init.headers).forEach((value, name) => headers.set(name, value))
    return bare(path, { ...init, headers })
  }
  async function bare(path: string, init: RequestInit = {}): Promise<Answered> {
    const response = await fetch(server.url + path, init)
    const text = await response.text()
    return { status: response.status, text, body: parsed(text), headers: response.headers }
  }
  const raw = (body: string, as: As = {}, headers: Readonly<Record<string, string>> = {}) =>
    ask('/v1/query', { method: 'POST', body, headers }, as)
  const query = (type: string, args: unknown, as?: As) => raw(JSON.stringify({ type, args }), as)
  return {
    url: server.url,
    databaseUrl: database.url,
    raw,
    query,
    fetch: ask,
    bare,
    async must(type, args) {
      const { status, text, body } = await query(type, args)
      if (status !== 200) throw new Error(`${type}: ${text}`)
      return body as unknown
    },
    sql: (text) => sqlOn(database.url, text),
    close,
  }
}

/** @returns how a server is told of it */
async function throughPooler(pooler: string, directUrl: string): Promise<{ url: string; directUrl: string }> {
  const { pathname } = new URL(directUrl)
  // Another server may have had other limits there.
  await tellPooler(pooler, `reconnect ${pathname.slice(1)}`)
  return { url: pooler + pathname, directUrl }
}

const DISPATCHER = Symbol.for('undici.globalDispatcher.1')

/**
 * Ends the idle connections that `fetch` keeps: a server that drains waits a second for requests on them. `fetch` goes on
 * with others.
 */
export function endKeptConnections(): void {
  const where = globalThis as { [DISPATCHER]?: { constructor: new () => never; close(): Promise<void> } }
  const kept = where[DISPATCHER]
  if (kept === undefined) return
  where[DISPATCHER] = new kept.constructor()
  void kept.close()
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
