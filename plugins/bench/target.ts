import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import { addressProblem, createOutbound, type OutboundError } from 'rowhouse'
import type { Endpoint } from './load.js'

/** An error in the options of the command, not in a file or a response. The exit code is 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** The measured server, and the caller. */
export interface Target {
  /** Without a trailing slash. */
  readonly url: string
  readonly endpoint: Endpoint
  readonly isThisMachine: boolean
  /** Headers of every request. Requests with a body have those of `JSON_BODY` too. */
  readonly headers: Readonly<Record<string, string>>
  /** Description for messages, e.g. `as the role user`. */
  readonly caller: string
  /** The header that authenticates, in lower case. */
  readonly credential: string | undefined
  /** Sends one request, outside the measurement. */
  ask(method: 'GET' | 'POST', path: string, body?: string): Promise<TextResponse>
}
interface TextResponse {
  readonly status: number
  readonly text: string
}
interface Caller {
  /** `Name: value` */
  readonly headers: readonly string[]
  readonly role: string | undefined
  readonly adminSecret: string | undefined
}

export const JSON_BODY = { 'Content-Type': 'application/json' }
const TIMEOUT_MS = 60_000
const MAX_BYTES = 2 ** 30

/** Loopback and private addresses of IPv4 and IPv6. */
const PRIVATE = /^(127|10|192\.168|172\.(1[6-9]|2\d|3[01]))\.|^::1$|^f[cd][0-9a-f]{2}:/i

/**
 * @param allowPublic whether the address may be neither this machine nor in a private network
 * @throws Error that describes what is wrong with the URL
 */
export async function openTarget(text: string, caller: Caller, allowPublic: boolean): Promise<Target> {
  const problem = addressProblem(text)
  if (problem !== undefined) throw new UsageError(`the URL ${problem}`)
  const url = new URL(text)
  const headers = headersOf(caller)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const found = await lookup(host, { all: true }).catch(() => {
    throw new Error(`there is no host "${host}"`)
  })
  const own = Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address))
  const outside = found.find(({ address }) => !own.includes(address) && !PRIVATE.test(address))?.address
  if (outside !== undefined && !allowPublic) {
    const where = outside === host ? outside : `${host} (${outside})`
    throw new Error(`${where} is neither this machine nor in a private network; use --yes if the server is yours`)
  }
  const isTls = url.protocol === 'https:'
  const port = Number(url.port) || (isTls ? 443 : 80)
  const base = `${url.origin}${url.pathname.replace(/\/$/, '')}`
  return {
    url: base,
    endpoint: { host, port, servername: isTls ? (isIP(host) === 0 ? host : '') : undefined },
    isThisMachine: found.every(({ address }) => own.includes(address) || /^127\.|^::1$/.test(address)),
    headers: { Host: url.host, 'User-Agent': 'rowhouse bench', ...headers },
    ...identityIn(headers),
    async ask(method, path, body) {
      const outbound = createOutbound({ timeoutMs: TIMEOUT_MS, maxBytes: MAX_BYTES })
      const all = body === undefined ? headers : { ...headers, ...JSON_BODY }
      try {
        const answer = await outbound.ask({ method, url: base + path, headers: all, body })
        return { status: answer.status, text: answer.body.toString() }
      } catch (error) {
        throw new Error(reasonOf(error as OutboundError, url.host, `${host} port ${port}`), { cause: error })
      } finally {
        outbound.close()
      }
    },
  }
}

function reasonOf({ cause, message }: OutboundError, host: string, where: string): string {
  const { code = '' } = (cause ?? {}) as NodeJS.ErrnoException
  if (code === 'EPROTO' || code === 'ERR_SSL_WRONG_VERSION_NUMBER')
    return `${host} does not support TLS; use http:// instead of https://`
  return /^E(CONN|HOST|NET|TIMED)/.test(code) ? `cannot connect to ${where}: ${code}` : `${host}: ${message}`
}

const SECRET = 'X-Service-Admin-Secret'
const ROLE = 'X-Service-Role'
/** Headers that authenticate. If one is set, the admin secret of the environment is not sent. */
const CREDENTIALS = ['authorization', 'cookie', SECRET.toLowerCase()]

function headersOf({ headers: lines, role, adminSecret }: Caller): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {}
  for (const line of lines) {
    const [, name, value] = /^([\w!#$%&'*+.^`|~-]+): *([^\r\n\0]*)$/.exec(line) ?? []
    if (name === undefined || value === undefined) throw new UsageError(`--header must be 'Name: value', not "${line}"`)
    headers[name] = value
  }
  const authenticates = Object.keys(headers).some((name) => CREDENTIALS.includes(name.toLowerCase()))
  if (adminSecret !== undefined && !authenticates) headers[SECRET] = adminSecret
  if (role !== undefined) headers[ROLE] = role
  const wrong = Object.entries(headers).find(([, value]) => /[^\t\x20-\xff]/.test(value))
  if (wrong) throw new UsageError(`the header ${wrong[0]} contains characters that are not allowed in headers`)
  return headers
}

function identityIn(headers: Readonly<Record<string, string>>): Pick<Target, 'caller' | 'credential'> {
  const values = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
  const credential = CREDENTIALS.find((name) => values.has(name))
  const role = values.get(ROLE.toLowerCase())
  if (role !== undefined) return { caller: `as the role ${role}`, credential }
  if (credential === undefined) return { caller: 'without credentials', credential }
  return { caller: credential === SECRET.toLowerCase() ? 'as admin' : `by ${titleCase(credential)}`, credential }
}

/**
 * Describes what is wrong with a response and, if known, what to do; undefined for a success.
 * @param request what was requested, such as the name of a template
 */
export function problemOf(
  { status, text }: TextResponse,
  { caller, credential }: Target,
  request: string,
): string | undefined {
  if (status === 200 && !text.startsWith('{"errors":')) return undefined
  const { error, errors } = (parsed(text) ?? {}) as { error?: string; errors?: readonly { message: string }[] }
  const message = error ?? errors?.[0]?.message ?? short(text)
  const [, variable] = /\b(x-[\w-]+) header is expected but not found/.exec(message) ?? []
  const hint = variable === undefined ? '' : `; send one, such as --header '${titleCase(variable)}: 7'`
  if (status === 401 || status === 403) {
    if (credential === undefined) return `${status}: ${message} (${caller}); ${NO_CREDENTIALS}`
    return `${status}: ${credential === 'authorization' ? `the header Authorization is not accepted: ${message}` : message}`
  }
  if (status === 200) return `${request}: GraphQL errors: ${message}${hint}`
  return `${request}: the first response is ${status}: ${hint === '' ? short(text) : message + hint}`
}
const NO_CREDENTIALS = `send credentials with --admin-secret-file F, ROWHOUSE_ADMIN_SECRET or --header 'Authorization: Bearer ...'`

/** Returns `X-Service-User-Id` for `x-service-user-id`. */
const titleCase = (name: string): string => name.replace(/(^|-)([a-z])/g, (letters) => letters.toUpperCase())

/** Longer responses are not parsed to find out whether they are empty. */
const MAX_EMPTY_LENGTH = 10_000

/** Returns whether a response has no rows: no body, an empty list, or only empty lists in GraphQL or in a bulk. */
export function isEmptyAnswer(text: string): boolean {
  if (text.length > MAX_EMPTY_LENGTH) return false
  const answer = parsed(text) as { data?: object } | null | undefined
  if (answer === undefined) return text.trim() === ''
  return hasNoRows(answer?.data ? Object.values(answer.data) : answer)
}

const hasNoRows = (value: unknown): boolean => value === null || (Array.isArray(value) && value.every(hasNoRows))

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Shortens a response for messages. */
export const short = (text: string): string => (text.length > 300 ? `${text.slice(0, 300)}...` : text)
