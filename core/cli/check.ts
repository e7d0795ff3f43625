import { resolve } from 'node:path'
import type pg from 'pg'
import { counted } from '../wording.js'
import { readCatalog } from '../metadata/change.js'
import type { ProviderKinds } from '../host/contracts.js'
import { inTransaction, isPooled, SESSION, sessionOf } from '../db/database.js'
import { checkSessions } from '../db/pooler.js'
import { Unreachable } from '../db/unreachable.js'
import { messageOf } from '../errors.js'
import { ConfigError } from '../host/config.js'
import { canAuthenticate, listenersOf, NO_AUTHENTICATION, placeOf, withoutSocket } from '../host/listener-config.js'
import { type Loaded, needsDatabase } from '../host/load.js'
import { runWithin } from '../deadline.js'
import { createProviders } from '../host/providers.js'
import { type Config, loadServer, migrationSets } from '../host/server.js'
import { gatewayMistake } from '../http/admission.js'
import { createLogger } from '../observe/log.js'
import { builtins } from './builtins.js'
import { withConnection } from './command-database.js'
import type { Invocation } from './invocation.js'
import { findConnections, findRightsFor, type Finding } from './rights.js'
import { findStandbys } from './standbys.js'
import { processesOf } from './start.js'
import { source } from './read-sections.js'

/** Prints the result of all checks. @returns the exit code */
export async function check(invocation: Invocation): Promise<number> {
  return report(await findAll(invocation), invocation)
}

/**
 * Prints findings, with `--json` as an object.
 * @param more further keys of that object
 * @returns the exit code
 */
export function report(findings: readonly Finding[], { flags, print }: Invocation, more: object = {}): number {
  const ok = findings.every((finding) => finding.ok)
  if (flags['json'] === true) print(JSON.stringify({ ok, ...more, findings }, undefined, 2))
  else for (const finding of findings) print(printed(finding))
  return ok ? 0 : 1
}

const printed = ({ ok, note, text }: Finding): string => `${note ? 'note' : ok ? 'ok  ' : 'BAD '} ${text}`

/** Runs all checks. @throws ConfigError with every mistake of the configuration, unless the output is JSON */
export async function findAll(invocation: Invocation): Promise<readonly Finding[]> {
  const { flags, cwd } = invocation
  const server = await loadServer({ ...source(invocation), builtins: builtins() }).catch((error: unknown) => {
    if (error instanceof ConfigError && flags['json'] === true) return error
    throw error
  })
  if (server instanceof ConfigError)
    return server.mistakes.map(({ path, message, where }) => ({
      ok: false,
      path,
      text: `${path}: ${message} (${where})`,
    }))
  const { config, loaded } = server
  const processes = flags['processes'] === undefined ? undefined : await processesOf(invocation)
  const findings: Finding[] = [{ ok: true, text: `configuration: ${config.file ?? 'defaults and environment'}` }]
  findings.push(...loaded.warnings.map((text) => ({ ok: false, text })))
  const authenticates = canAuthenticate(config.values)
  findings.push({ ok: authenticates, text: authenticates ? 'authentication: configured' : NO_AUTHENTICATION })
  const { adminSecret } = config.values.auth
  if (adminSecret !== undefined && adminSecret.length < 32) {
    findings.push({ ok: false, text: 'auth.adminSecret is shorter than 32 characters' })
  }
  findings.push(
    ...findListeners(config.values, loaded),
    ...(await findProviders(loaded, resolve(cwd, config.values.dataDir))),
  )
  if (!needsDatabase(loaded)) return [...findings, { ok: true, text: 'database: no plugin needs one' }]
  const { database, fast } = config.values
  const { url, readUrls, directUrl } = database
  if (url === undefined) {
    return [...findings, { ok: false, text: 'database: set DATABASE_URL, or database.url in the configuration' }]
  }
  const inside = async (client: pg.Client) => {
    findings.push(...(await findInPooler(database)))
    findings.push(...(await findInDatabase(client, migrationSets(loaded))))
    findings.push(await findConnections(client, database, fast, processes))
  }
  // As the server connects, whose session parameters a pooler refuses.
  const ways = [withConnection(url, 'check', inside, { session: sessionOf(database) })]
  if (directUrl !== undefined) {
    const direct = { setting: 'database.directUrl', session: SESSION }
    ways.push(withConnection(directUrl, 'check', async () => {}, direct))
  }
  for (const way of await Promise.allSettled(ways)) if (way.status === 'rejected') findings.push(failed(way.reason))
  return [...findings, ...(await findStandbys(url, readUrls))]
}

/** Returns the finding of an error that is no mistake of the configuration. */
function failed(error: unknown): Finding {
  if (!(error instanceof Unreachable)) return { ok: false, text: `database: ${messageOf(error)}` }
  const { setting, hint, reason } = error
  return { ok: false, path: `$.${setting}`, hint, text: `${setting}: ${reason}` }
}

function findListeners({ auth, http }: Config['values'], { plugins }: Loaded): readonly Finding[] {
  const mistake = gatewayMistake(auth, withoutSocket(http))
  const findings = mistake === undefined ? [] : [{ ok: false, text: mistake }]
  if (http.listeners.length === 0) return findings
  const places = listenersOf(http).map((listener) => {
    const served = plugins.map(({ plugin }) => plugin.name).filter((name) => listener.serves(name))
    return { ok: true, text: `listener: ${placeOf(listener)} for ${served.join(', ') || 'no plugin'}` }
  })
  return [...findings, ...places]
}

async function findInPooler(database: Config['values']['database']): Promise<readonly Finding[]> {
  if (!isPooled(database)) return []
  return checkSessions(database).then(
    () => [
      {
        ok: true,
        text: 'connection pooler: its sessions have the same timeouts, time zone and output styles as direct connections',
      },
    ],
    (error: Error) => [{ ok: false, text: `connection pooler: ${error.message}` }],
  )
}

/** Checks each provider, or creates it, which fails for wrong settings and missing packages. */
async function findProviders({ plugins, providers }: Loaded, dataDir: string): Promise<readonly Finding[]> {
  const storesFiles = plugins.some(({ plugin }) => plugin.name === 'filestore')
  const made = createProviders(providers, { log: createLogger({ level: 'silent' }), timeoutMs: CHECK_MS, dataDir })
  const all = [...providers].flatMap(([kind, { byName }]) =>
    [...byName].map(([name, { provider }]) => ({ kind, name, provider })),
  )
  try {
    return await Promise.all(
      all
        .filter(({ kind, provider }) => storesFiles || kind !== 'storage' || !provider.check)
        .map(async ({ kind, name, provider }) => {
          const title = `provider "${kind}.${name}"`
          const problem = provider.check
            ? runWithin(title, 'check', () => made.problem(kind, name), CHECK_MS)
            : made.get(kind as keyof ProviderKinds, name).then(() => undefined)
          const text = await problem.catch((error: Error) => error.message)
          return text === undefined ? { ok: true, text: `provider: ${kind}.${name}` } : { ok: false, text }
        }),
    )
  } finally {
    await made.close().catch(() => undefined)
  }
}

const CHECK_MS = 5000

async function findInDatabase(client: pg.Client, sets: ReturnType<typeof migrationSets>): Promise<readonly Finding[]> {
  const { rows } = await client.query<{ number: number; version: string }>(
    `select pg_catalog.current_setting('server_version_num')::int as number, pg_catalog.current_setting('server_version') as version`,
  )
  const { number = 0, version = '' } = rows[0] ?? {}
  const known = number >= 140000 && number < 190000
  const findings: Finding[] = [{ ok: known, text: `PostgreSQL ${version}${known ? '' : ': 14 to 18 are supported'}` }]
  const { pending, rights } = await findRightsFor(client, sets)
  findings.push(...rights)
  if (rights.some(({ ok }) => !ok)) return findings
  if (pending.length > 0) {
    return [
      ...findings,
      { ok: true, text: `${pending.length} pending migrations: rowhouse start or rowhouse upgrade runs them` },
    ]
  }
  const { inconsistent, tables } = await inTransaction(client, () => readCatalog(client), { mode: 'read only' })
  findings.push({
    ok: true,
    text: `metadata: ${counted(tables.filter(({ system }) => !system).length, 'table')} tracked`,
  })
  return [...findings, ...inconsistent.map(({ object, reason }) => ({ ok: false, text: `${object}: ${reason}` }))]
}
