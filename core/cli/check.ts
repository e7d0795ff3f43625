import pg from 'pg'
import { readCatalog } from '../catalog/change.js'
import type { Invocation } from '../cli.js'
import { isPooled } from '../db/database.js'
import { checkSessions } from '../db/pooler.js'
import { canAuthenticate, listenersOf, NO_AUTHENTICATION, placeOf, withoutSocket } from '../host/listeners.js'
import { type Loaded, needsDatabase } from '../host/load.js'
import { pendingMigrations } from '../host/migrate.js'
import { type Config, loadServer, migrationSets } from '../host/server.js'
import { gatewayMistake } from '../http/session.js'
import { builtins, source } from './builtins.js'

/** The result of one check. */
export interface Finding {
  readonly ok: boolean
  readonly text: string
}

/** Prints the result of all checks. @returns the exit code */
export async function check({ flags }: Invocation): Promise<number> {
  const findings = await findAll(flags)
  for (const finding of findings) console.log(printed(finding))
  return findings.every(({ ok }) => ok) ? 0 : 1
}

export const printed = ({ ok, text }: Finding): string => `${ok ? 'ok  ' : 'BAD '} ${text}`

/** Runs all checks. @throws ConfigError with every mistake of the configuration */
export async function findAll(flags: Invocation['flags']): Promise<readonly Finding[]> {
  const { config, loaded } = await loadServer({ ...source(flags), builtins: builtins() })
  const findings: Finding[] = [{ ok: true, text: `configuration: ${config.file ?? 'defaults and environment'}` }]
  findings.push(...loaded.warnings.map((text) => ({ ok: false, text })))
  findings.push(...loaded.renamed.map((text) => ({ ok: true, text })))
  const authenticates = canAuthenticate(config.values)
  findings.push({ ok: authenticates, text: authenticates ? 'authentication: configured' : NO_AUTHENTICATION })
  const { adminSecret } = config.values.auth
  if (adminSecret !== undefined && adminSecret.length < 32) {
    findings.push({ ok: false, text: 'auth.adminSecret is shorter than 32 characters' })
  }
  findings.push(...findListeners(config.values, loaded))
  if (!needsDatabase(loaded)) return [...findings, { ok: true, text: 'database: no plugin needs one' }]
  const { url } = config.values.database
  if (url === undefined) {
    return [...findings, { ok: false, text: 'database: set DATABASE_URL, or database.url in the configuration' }]
  }
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 5000,
    application_name: 'rowhouse check',
  })
  try {
    await client.connect()
    findings.push(...(await findInPooler(config.values.database)))
    return [...findings, ...(await findInDatabase(client, migrationSets(loaded)))]
  } catch (error) {
    return [...findings, { ok: false, text: `database: ${error instanceof Error ? error.message : String(error)}` }]
  } finally {
    await client.end().catch(() => undefined)
  }
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

async function findInDatabase(client: pg.Client, sets: ReturnType<typeof migrationSets>): Promise<readonly Finding[]> {
  const { rows } = await client.query<{ number: number; version: string }>(
    `select current_setting('server_version_num')::int as number, current_setting('server_version') as version`,
  )
  const { number = 0, version = '' } = rows[0] ?? {}
  const known = number >= 140000 && number < 190000
  const findings: Finding[] = [{ ok: known, text: `PostgreSQL ${version}${known ? '' : ': 14 to 18 are supported'}` }]
  const pending = await pendingMigrations(client, sets)
  if (pending.length > 0) {
    return [
      ...findings,
      { ok: true, text: `${pending.length} pending migrations: rowhouse start or rowhouse migrate runs them` },
    ]
  }
  const { inconsistent, tables } = await readCatalog(client)
  findings.push({ ok: true, text: `metadata: ${tables.filter(({ system }) => !system).length} tables tracked` })
  return [...findings, ...inconsistent.map(({ object, reason }) => ({ ok: false, text: `${object}: ${reason}` }))]
}
