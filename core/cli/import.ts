import { stat } from 'node:fs/promises'
import pg from 'pg'
import { announce } from '../metadata/change.js'
import { inTransaction } from '../db/database.js'
import { withDatabase } from './builtins.js'
import { withConnection } from './command-database.js'
import { type Invocation, pathIn, type Terminal } from './invocation.js'
import { isTransactionControl, runFile, type Statement } from './run-script.js'

/** Loads a plain dump. What depends on roles or extensions that do not exist here is skipped and counted. */
export async function importFile(invocation: Invocation): Promise<number> {
  const { flags, words, cwd, print, tell, terminal } = invocation
  const [file] = words
  if (file === undefined) throw new Error('rowhouse import requires a file')
  const { size } = await stat(pathIn(cwd, file))
  const isWhole = flags['no-transaction'] !== true
  return withDatabase(invocation, (url, { database }) =>
    withConnection(database.directUrl ?? url, 'import', async (client) => {
      await client.query('set statement_timeout = 0')
      const skipped = new Skipped()
      const take = await taker(client, skipped, { keepsOwners: flags['owner'] === true, isWhole })
      let statements = 0
      const load = () =>
        runFile(client, file, {
          cwd,
          take: async (statement) => {
            statements++
            return take(statement)
          },
          progress: (bytes) => showProgress(terminal, bytes, size),
        }).finally(() => showProgress(terminal))
      await (isWhole ? inTransaction(client, load) : load()).catch((error: unknown) => {
        // What was skipped may be the reason.
        for (const line of skipped.lines()) tell(line)
        throw error
      })
      await tellServers(client)
      print(`imported ${file}: ${statements - skipped.total} statements`)
      for (const line of skipped.lines()) print(line)
      return 0
    }),
  )
}

/** Counts what was skipped, by reason. */
class Skipped {
  private readonly counts = new Map<string, number>()

  add(reason: string): true {
    this.counts.set(reason, (this.counts.get(reason) ?? 0) + 1)
    return true
  }
  get total(): number {
    return [...this.counts.values()].reduce((sum, count) => sum + count, 0)
  }
  lines(): readonly string[] {
    return [...this.counts].map(([reason, count]) => `skipped ${count}: ${reason}`)
  }
}

interface TakerOptions {
  readonly keepsOwners: boolean
  readonly isWhole: boolean
}

const NAME = String.raw`("(?:[^"]|"")+"|[^\s",;()]+)`
const OWNER = new RegExp(String.raw`^alter\s[^;]*\sowner\s+to\s+${NAME}$`, 'i')
const GRANT = new RegExp(String.raw`^(?:grant|revoke)\s[^;]*\s(?:to|from)\s+(${NAME}(?:\s*,\s*${NAME})*)`, 'i')
const DEFAULTS = new RegExp(
  String.raw`^alter\s+default\s+privileges\s+for\s+(?:role|user)\s+${NAME}\s[^;]*\s(?:to|from)\s+${NAME}`,
  'i',
)
const EXTENSION = new RegExp(String.raw`^create\s+extension\s+(?:if\s+not\s+exists\s+)?${NAME}`, 'i')
const SESSION_USER = /^set\s+(session\s+authorization|role)\b/i
const ENCODING = /^set\s+(?:client_encoding\s*(?:=|to\b)|names\b)(?!\s*'?(?:utf-?8|unicode|sql_ascii)\b)/i
/** What a dump contains although a database may have or lack it already. */
const OPTIONAL = /^(comment\s+on\s+(extension|schema)|set\s+\w+\s*=|create\s+schema\s+public$)/i
/** Errors of these statements that lose nothing: exists already, is not known, not permitted. */
const HARMLESS = new Set(['42P06', '42704', '42501', '22023'])

/** Returns what decides which statements are skipped. */
async function taker(client: pg.ClientBase, skipped: Skipped, { keepsOwners, isWhole }: TakerOptions) {
  const { rows } = await client.query<{ name: string }>('select rolname as name from pg_catalog.pg_roles')
  const roles = new Set(['public', 'current_user', 'session_user', 'current_role', ...rows.map(({ name }) => name)])
  const missing = (names: readonly (string | undefined)[]) => names.find((name) => name && !roles.has(nameOf(name)))

  /** Runs a statement whose failure is only counted. */
  async function attempt(text: string, isHarmless: (error: pg.DatabaseError) => boolean): Promise<true> {
    if (isWhole) await client.query('savepoint rowhouse_import')
    try {
      await client.query(text)
      if (isWhole) await client.query('release savepoint rowhouse_import')
    } catch (error) {
      if (!(error instanceof pg.DatabaseError) || !isHarmless(error)) throw error
      if (isWhole) await client.query('rollback to savepoint rowhouse_import; release savepoint rowhouse_import')
      return skipped.add(`${text.split('\n', 1)[0] ?? ''} (${error.message})`)
    }
    return true
  }

  return async (statement: Statement): Promise<boolean> => {
    const { kind, text } = statement
    if (kind === 'copy') return false
    if (kind === 'command') return takeCommand(text, skipped)
    if (isTransactionControl(statement)) return takeTransaction(text, isWhole, skipped)
    if (ENCODING.test(text)) throw new Error('expected UTF-8: write the dump with pg_dump --encoding=UTF8')
    const owner = OWNER.exec(text)?.[1]
    if (owner !== undefined && !keepsOwners) return skipped.add('owners (everything belongs to the login)')
    if (SESSION_USER.test(text) && !keepsOwners) return skipped.add('changes of the current role')
    const named = GRANT.exec(text)?.[1] ?? ''
    const lost = missing([owner, ...(DEFAULTS.exec(text)?.slice(1) ?? []), ...listOf(named)])
    if (lost !== undefined)
      return skipped.add(`${owner === undefined ? 'privileges' : 'owners'} of the role ${lost}, which does not exist`)
    if (EXTENSION.test(text)) return attempt(text, ({ code = '' }) => EXTENSION_FAILED.has(code))
    return OPTIONAL.test(text) ? attempt(text, ({ code = '' }) => HARMLESS.has(code)) : false
  }
}

/** Not available here (its files are missing), or not permitted. */
const EXTENSION_FAILED = new Set(['0A000', '58P01', '42501'])

const listOf = (names: string): readonly string[] => names.match(/"(?:[^"]|"")+"|[^\s",]+/g) ?? []

/** Returns the name that an identifier stands for. */
const nameOf = (written: string): string =>
  written.startsWith('"') ? written.slice(1, -1).replaceAll('""', '"') : written.toLowerCase()

function takeCommand(text: string, skipped: Skipped): boolean {
  if (/^\\(un)?restrict\b/.test(text)) return true
  if (/^\\c(onnect)?\b/.test(text)) {
    throw new Error(`${text}: the dump chooses a database; write it without --create, and one dump for each database`)
  }
  return /^\\(echo|qecho|set|pset|timing)\b/.test(text) && skipped.add('commands of psql')
}

function takeTransaction(text: string, isWhole: boolean, skipped: Skipped): boolean {
  if (!isWhole) return false
  if (/^(abort|rollback|prepare)/i.test(text)) throw new Error('the import is one transaction; use --no-transaction')
  return skipped.add('begin and commit (the import is one transaction)')
}

/** Lets running servers read the database again. */
async function tellServers(client: pg.ClientBase): Promise<void> {
  await client.query('reset session authorization; reset role; reset all')
  const { rows } = await client.query<{ found: boolean }>(
    `select pg_catalog.to_regclass('svc_catalog.svc_version') is not null as found`,
  )
  if (rows[0]?.found === true) await announce(client)
}

/** Shows the progress on a terminal; without a number removes it. */
function showProgress({ stderr }: Terminal, bytes?: number, size = 0): void {
  if (!stderr.isTTY) return
  const text =
    bytes === undefined ? '' : `${Math.round((bytes / Math.max(size, 1)) * 100)} % of ${(size / 1e6).toFixed(1)} MB`
  stderr.write(`\r\x1b[K${text}`)
}
