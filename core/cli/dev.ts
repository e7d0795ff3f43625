import { randomBytes } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { relative } from 'node:path'
import type { StartedDatabase } from '../host/contracts.js'
import { hostsOf, isLocal, listenersOf, requireFreePorts } from '../host/listener-config.js'
import type { HttpConfig } from '../http/config.js'
import { loadServer, type Server, startLoaded } from '../host/server.js'
import { secretFile } from './admin-secret.js'
import { embeddedDatabase } from './command-database.js'
import { serve } from './serve.js'
import { builtins, wantsDatabase } from './builtins.js'
import { type Invocation, pathIn } from './invocation.js'
import { catchingUncaught, pluginsOf, type Uncaught } from './uncaught.js'
import { reportSources } from './watch.js'
import { readSections, source } from './read-sections.js'

/** Runs a development server on this machine only. Creates what is missing: the database, the secret, the sample. */
export function dev(invocation: Invocation): Promise<number> {
  return catchingUncaught(invocation, (uncaught) => run(invocation, uncaught))
}

async function run(invocation: Invocation, uncaught: Uncaught): Promise<number> {
  const { flags, words, cwd, print, tell: progress } = invocation
  const [given] = words
  const config = await readSections(invocation)
  reportSources(invocation, config)
  const { values } = config
  const dataDir = pathIn(cwd, values.dataDir)
  const onSocket = listenersOf(values.http).find(({ http }) => http.socket)
  if (onSocket) throw new Error(`${onSocket.setting}.socket is for rowhouse start: rowhouse dev listens on ports`)
  const url = given ?? values.database.url
  const wanted = await wantsDatabase(invocation)
  const provider = wanted && url === undefined ? await embeddedDatabase() : undefined
  const state = await provider?.inspect(dataDir)
  // Otherwise the start of the database says that this server runs already.
  if (!state?.heldBy) await requireFreePorts(values.http)
  const first = state && !state.cluster
  const embedded = await provider?.start({ dataDir, progress })
  try {
    const secret = values.auth.adminSecret === undefined ? await ownSecret(dataDir) : undefined
    const { overrides, ...from } = source(invocation)
    if (first && flags['no-sample'] !== true) progress('loading the sample shop, once')
    const options = {
      ...from,
      overrides: {
        ...overrides,
        database: { url: url ?? embedded?.serverUrl },
        http: {
          ...overrides.http,
          metrics: values.http.metrics ?? (isOpen(values.http) ? 'open' : 'secret'),
          home: values.http.home ?? '/console',
          serverTiming: values.http.serverTiming ?? true,
          refusalReasons: values.http.refusalReasons ?? true,
          explainPermissions: values.http.explainPermissions ?? isOpen(values.http),
          hosts: values.http.hosts ?? (isOpen(values.http) ? hostsOf(values.http) : undefined),
        },
        ...(secret === undefined ? {} : { auth: { adminSecret: secret } }),
        log: { level: flags['verbose'] === true ? 'info' : quieter(values.log.level) },
      },
      builtins: builtins({ sample: embedded !== undefined && flags['no-sample'] !== true, catches: true }),
      progress,
    }
    const found = await uncaught.unless(loadServer(options))
    uncaught.plugins = pluginsOf(found.loaded)
    const server = await uncaught.unless(startLoaded(found, options))
    const file = secret === undefined ? undefined : relative(cwd, secretFile(dataDir))
    print(wanted ? await welcome(server, embedded, file) : proxyWelcome(server, file))
    return await serve(server, uncaught, invocation, {
      afterwards: async () => embedded?.stop(),
      failed: embedded && keepAlive(embedded, progress),
    })
  } catch (error) {
    await embedded?.stop()
    throw error
  }
}

/** Returns the configured level, but `warn` for the default: nobody watches the lines of a development server. */
const quieter = <L extends string>(level: L): L | 'warn' => (level === 'info' ? 'warn' : level)

/** Returns whether only this machine can connect. */
const isOpen = (http: HttpConfig): boolean => listenersOf(http).every(isLocal)

const MINUTE_MS = 60_000

/**
 * Restarts the database when it ends unexpectedly. Gives up when it ends again within a minute.
 * @returns the reason for giving up; pending until then
 */
async function keepAlive(embedded: StartedDatabase, progress: (message: string) => void): Promise<Error> {
  for (let startedAt = -Infinity; ; startedAt = performance.now()) {
    const log = await embedded.died()
    const again = performance.now() - startedAt < MINUTE_MS
    const lines = log.slice(-5).map((line) => `\n  ${line}`)
    const what = `PostgreSQL ended unexpectedly${again ? ' again, within a minute' : ''}`
    if (again)
      return new Error(`${what}: it may have been killed or run out of memory. Its last log lines:${lines.join('')}`)
    progress(`${what}; restarting it`)
    try {
      await embedded.restart()
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error))
    }
    progress('PostgreSQL is running again')
  }
}

/** Creates the admin secret once, in a file that only its owner can read. */
async function ownSecret(dataDir: string): Promise<string> {
  const file = secretFile(dataDir)
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  const made = randomBytes(32).toString('base64url')
  try {
    await writeFile(file, made, { flag: 'wx', mode: 0o600 })
    return made
  } catch {
    return (await readFile(file, 'utf8')).trim()
  }
}

async function welcome(
  server: Server,
  embedded: StartedDatabase | undefined,
  file: string | undefined,
): Promise<string> {
  const database = embedded ? `embedded PostgreSQL ${embedded.version}` : 'the configured PostgreSQL'
  const credential = file ? `$(cat ${file})` : '$ROWHOUSE_ADMIN_SECRET'
  const curl = (body: object, role = '') =>
    `curl -s ${urlOf(server, 'query')}/v1/query -H "X-Service-Admin-Secret: ${credential}"${role} -d '${JSON.stringify(body)}'`
  const lines = (await hasShop(server, credentialOf(server))) ? [...shop(curl)] : [...empty(curl)]
  lines.push(...(await messages(server, credential)))
  return `
Rowhouse runs at ${server.url} on ${database}.
${otherAddresses(server)}${await signInLine(server)}${secretLine(file)} Try, from this folder:

${lines.join('\n\n')}
`
}

/** Returns the text to print when no plugin needs a database. */
const proxyWelcome = (server: Server, file: string | undefined): string =>
  `\nRowhouse runs at ${server.url} without a database, because no plugin needs one.\n${otherAddresses(server)}${secretLine(file)}\n`

/** Returns one line per additional listener. */
const otherAddresses = ({ addresses: [, ...others] }: Server): string =>
  others.map(({ url, plugins }) => `At ${url}: ${plugins.join(', ')}.\n`).join('')

const urlOf = ({ url, addresses }: Server, plugin: string): string =>
  addresses.find(({ plugins }) => plugins.includes(plugin))?.url ?? url

const secretLine = (file: string | undefined): string =>
  `The admin secret is in ${file === undefined ? 'ROWHOUSE_ADMIN_SECRET or the configuration' : file}.`

/** Returns the line about the console, with a link that signs in once. */
async function signInLine(server: Server): Promise<string> {
  const url = urlOf(server, 'console')
  const headers = { 'X-Service-Admin-Secret': credentialOf(server), 'Content-Type': 'application/json' }
  const response = await fetch(`${url}/console/sign-in-link`, { method: 'POST', headers })
  const { path } = (await response.json()) as { readonly path?: string }
  return path === undefined ? '' : `Open the console, signed in: ${url}${path}\n`
}

type Curl = (body: object, role?: string) => string

const shop = (curl: Curl): readonly string[] => [
  curl({
    type: 'select',
    args: {
      table: 'customer',
      columns: ['name', 'city', { name: 'orders', columns: ['id', 'status'], order_by: ['-id'], limit: 2 }],
      order_by: ['id'],
      limit: 2,
    },
  }),
  curl({
    type: 'insert',
    args: {
      table: 'product',
      objects: [{ sku: 'NEW-1', name: 'Teapot', category: 'kitchen', price: 24.9, stock: 3 }],
      returning: ['id', 'name'],
    },
  }),
  curl(
    { type: 'select', args: { table: 'orders', columns: ['id', 'status'], limit: 3 } },
    ' -H "X-Service-Role: customer" -H "X-Service-User-Id: 7"',
  ),
  `Ada Abel, the customer 157, says that her order 46455 is missing. Why?\n\n${curl({
    type: 'explain_permission',
    args: {
      role: 'customer',
      session: { 'X-Service-User-Id': '157' },
      operation: 'select',
      table: 'orders',
      key: { id: 46455 },
    },
  })}`,
]

const empty = (curl: Curl): readonly string[] => [
  curl({ type: 'run_sql', args: { sql: 'create table note (id serial primary key, text text not null)' } }),
  curl({ type: 'track_table', args: 'note' }),
  curl({ type: 'insert', args: { table: 'note', objects: [{ text: 'hello' }], returning: ['id', 'text'] } }),
]

/** Returns what becomes of mail and SMS, and a mail to try if it goes nowhere. Nothing without the plugin notify. */
async function messages(server: Server, credential: string): Promise<readonly string[]> {
  const url = urlOf(server, 'notify')
  const response = await fetch(`${url}/v1/send/providers`, {
    headers: { 'X-Service-Admin-Secret': credentialOf(server) },
  })
  if (!response.ok) return response.body?.cancel().then(() => []) ?? []
  const { email, sms } = (await response.json()) as Readonly<Record<'email' | 'sms', readonly CalledProvider[]>>
  const [mailGoes, smsGoes] = [fateOf(email), fateOf(sms)]
  const sentence = mailGoes === smsGoes ? `Mail and SMS are ${mailGoes}` : `Mail is ${mailGoes}; SMS is ${smsGoes}`
  const isCaught = [mailGoes, smsGoes].includes(NOT_DELIVERED)
  const hint = isCaught ? ` Open ${url}/v1/send in a browser to read it in the console.` : ''
  const lines = [`${sentence}.${hint}`]
  if (mailGoes !== NOT_DELIVERED) return lines
  const body = { to: 'reader@example.com', from: 'shop@example.com', sub: 'It works', text: 'This mail goes nowhere.' }
  const admin = `-H "X-Service-Admin-Secret: ${credential}"`
  return [...lines, `curl -s ${url}/v1/send/email ${admin} -d '${JSON.stringify(body)}'`]
}

/** A provider as `GET /v1/send/providers` describes it. */
interface CalledProvider {
  readonly name: string
  readonly position: number | null
  readonly catches: boolean
}
const NOT_DELIVERED = 'not delivered'

function fateOf(providers: readonly CalledProvider[]): string {
  const called = providers.filter(({ position }) => position !== null)
  if (called.length === 0) return 'refused, because no provider is the default one'
  const senders = called.filter(({ catches }) => !catches).map(({ name }) => name)
  return senders.length === 0 ? NOT_DELIVERED : `sent by ${senders.join(' or ')}`
}

const credentialOf = ({ config }: Server): string => config.values.auth.adminSecret ?? ''

async function hasShop(server: Server, secret: string): Promise<boolean> {
  const response = await fetch(`${urlOf(server, 'query')}/v1/query`, {
    method: 'POST',
    headers: { 'X-Service-Admin-Secret': secret },
    body: '{"type":"select","args":{"table":"orders","columns":["id","status"],"limit":1}}',
  })
  await response.body?.cancel()
  return response.ok
}
