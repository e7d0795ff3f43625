import type pg from 'pg'
import { SESSION } from '../db/database.js'
import { hostOf } from '../db/hosts.js'
import { Unreachable } from '../db/unreachable.js'
import { messageOf } from '../errors.js'
import { withConnection } from './command-database.js'
import type { Finding } from './rights.js'

/** Returns a finding for each of `database.readUrls`: whether the server could use it as a standby. */
export async function findStandbys(url: string, readUrls: readonly string[]): Promise<readonly Finding[]> {
  if (readUrls.length === 0) return []
  // Another finding says why the primary does not answer.
  const primary = await identify(url).catch(() => undefined)
  return Promise.all(
    readUrls.map(async (readUrl, i) => {
      const setting = `database.readUrls[${i}]`
      const name = `standby ${hostOf(readUrl)}`
      try {
        const found = await identify(readUrl, setting)
        const problem = primary && problemOf(found, primary)
        const state = found.standby ? 'is a standby of the primary' : 'is the primary itself'
        return { ok: problem === undefined, text: `${name}: ${problem ?? (primary ? state : 'answers')}` }
      } catch (error) {
        const { hint, reason = messageOf(error) } = error instanceof Unreachable ? error : {}
        return { ok: false, path: `$.${setting}`, hint, text: `${name}: ${reason}` }
      }
    }),
  )
}

function problemOf(found: Identity, primary: Identity): string | undefined {
  if (found.system !== primary.system) return 'belongs to another system than database.url'
  if (!found.standby && found.started !== primary.started) return 'is not a standby of database.url'
  if (found.database !== primary.database) return `the database is ${found.database} instead of ${primary.database}`
  return undefined
}

interface Identity {
  readonly standby: boolean
  readonly system: string
  /** Start time, which distinguishes the servers of one system. */
  readonly started: string
  readonly database: string
}

const IDENTIFY = `select pg_catalog.pg_is_in_recovery() as standby, (select system_identifier from pg_catalog.pg_control_system())::text as system,
  pg_catalog.pg_postmaster_start_time()::text as started, pg_catalog.current_database() as database`
const ANSWER_MS = 5000

const identify = (url: string, setting?: string): Promise<Identity> => {
  const ask = async (client: pg.Client) => {
    const query = { text: IDENTIFY, query_timeout: ANSWER_MS }
    const { rows } = await client.query<Identity>(query)
    return rows[0]!
  }
  return withConnection(url, 'check', ask, { ...(setting && { setting }), session: SESSION })
}
