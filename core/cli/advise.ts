import { counted } from '../wording.js'
import { adminSecretFor } from './admin-secret.js'
import type { Invocation } from './invocation.js'
import { type Ask, withOwnServer } from './temporary-server.js'

interface Advised {
  readonly advice: readonly Advice[]
  readonly statements: number
  readonly without_statistics: readonly string[]
  readonly left_out: number
}
interface Advice {
  readonly sql: string
  readonly table: string
  readonly checked: 'created' | 'hypopg' | null
  readonly reason?: string
  readonly statements: readonly {
    readonly name: string
    readonly role: string
    readonly calls: number | null
    readonly before: number | null
    readonly after: number | null
  }[]
  readonly rows: number | null
  readonly bytes: number | null
  readonly updates: number
  readonly hot_updates: number
  readonly updatable_by: readonly string[]
}

/** Prints indexes that may help. */
export async function advise(invocation: Invocation): Promise<number> {
  const { flags, words, print } = invocation
  const [url] = words
  const args = JSON.stringify({ try: flags['try'] === true })
  const show = async (ask: Ask): Promise<number> => {
    const answer = await ask('advise_indexes', args)
    if (flags['json'] === true) print(answer)
    else for (const line of lines(JSON.parse(answer) as Advised, url === undefined)) print(line)
    return 0
  }
  if (url !== undefined) return show(await running(url, invocation))
  return withOwnServer(invocation, show)
}

/** Maximum time of the whole request, in milliseconds. */
const TIMEOUT_MS = 600_000

/** Returns what runs operations on a running server. */
async function running(url: string, invocation: Invocation): Promise<Ask> {
  if (!URL.canParse(url)) throw new Error(`expected the URL of a server, such as http://localhost:8080, not "${url}"`)
  const secret = await adminSecretFor(new URL(url), invocation)
  return async (type, args) => {
    const response = await fetch(new URL('/v1/query', url), {
      method: 'POST',
      headers: { 'X-Service-Admin-Secret': secret },
      body: `{"type":"${type}","args":${args}}`,
      redirect: 'error',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    }).catch((error: unknown) => {
      throw new Error(`cannot ask ${url}: ${reasonOf(error as Error)}`, { cause: error })
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${url} answers ${response.status}: ${text.slice(0, 300)}`)
    return text
  }
}

/** Returns why a server did not answer, which `fetch` says in the cause. */
function reasonOf({ cause, message }: Error): string {
  const { code, message: inner = message } = (cause ?? {}) as { readonly code?: string; readonly message?: string }
  if (code === undefined) return inner
  return `${REASONS[code] ?? inner} (${code})`
}
const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'no server listens there',
  ENOTFOUND: 'there is no such host',
  ECONNRESET: 'the server closed the connection',
}

function lines({ advice, statements, without_statistics, left_out }: Advised, isTemporary: boolean): readonly string[] {
  const notes = [
    `${advice.length === 0 ? 'no index' : counted(advice.length, 'index', 'indexes')} for ${counted(statements, 'statement')}`,
    ...(left_out > 0 ? [`${left_out} statements or indexes were left out`] : []),
    ...(without_statistics.length > 0
      ? [`PostgreSQL does not know the size of ${without_statistics.join(', ')}: run analyze`]
      : []),
    ...(isTemporary ? ['calls and slow statements are known to a running server only: rowhouse advise URL'] : []),
  ]
  return [...advice.flatMap((each) => [...described(each, isTemporary), '']), ...notes]
}

function described(
  { sql, table, checked, reason, statements, rows, bytes, ...more }: Advice,
  isTemporary: boolean,
): readonly string[] {
  const width = Math.max(...statements.map(({ name, role }) => name.length + role.length)) + 3
  const size = bytes === null ? 'unknown size' : `about ${sizeOf(bytes)}`
  const { updates, hot_updates: hot, updatable_by: roles } = more
  return [
    `${sql};`,
    ...statements.map(({ name, role, calls, before, after }) => {
      const costs = before === null || after === null ? '' : `cost ${rounded(before)} -> ${rounded(after)}`
      const called = calls === null ? '' : isTemporary ? 'calls unknown' : counted(calls, 'call')
      return `  ${`${name} (${role})`.padEnd(width)} ${[costs, called].filter(Boolean).join(', ')}`.trimEnd()
    }),
    `  ${checked === null ? (reason ?? 'not checked') : checked === 'created' ? 'checked with the index' : 'checked with hypopg'}; ` +
      `${size} for ${rows ?? 'an unknown number of'} rows`,
    ...(roles.length > 0
      ? [
          `  updates of these columns by ${roles.join(', ')} can no longer be HOT; ${hot} of ${updates} updates of ${table} were`,
        ]
      : []),
  ]
}

const rounded = (cost: number): string => cost.toFixed(cost < 10 ? 1 : 0)

const sizeOf = (bytes: number): string =>
  bytes >= 2 ** 20 ? `${(bytes / 2 ** 20).toFixed(1)} MiB` : `${Math.ceil(bytes / 1024)} KiB`
