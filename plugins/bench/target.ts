import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import { addressProblem, createOutbound, type OutboundError } from 'rowhouse'
import type { Endpoint } from './load.js'

/** The command was called in a wrong way: exit code 2. What a server or a file says is no such error. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** The server that is measured, and the caller. */
export interface Target {
  /** Without a slash at the end. */
  readonly url: string
  readonly endpoint: Endpoint
  readonly isThisMachine: boolean
  /** Of every request; one with a body has those of `JSON_BODY` too. */
  readonly headers: Readonly<Record<string, string>>
  /** For people, e.g. `as the role user`. */
  readonly caller: string
  /** The header that authenticates, in lower case. */
  readonly proof: string | undefined
  /** Sends one request, before anything is measured. */
  ask(method: 'GET' | 'POST', path: string, body?: string): Promise<Told>
}
export interface Told {
  readonly status: number
  readonly text: string
}
export interface Caller {
  /** `Name: value` */
  readonly headers: readonly string[]
  readonly role: string | undefined
  readonly adminSecret: string | undefined
}

export const JSON_BODY = { 'Content-Type': 'application/json' }
const ANSWER_MS = 60_000
const MAX_BYTES = 2 ** 30

/** Loopback and private addresses of IPv4 and IPv6. */
const NEAR = /^(127|10|192\.168|172\.(1[6-9]|2\d|3[01]))\.|^::1$|^f[cd][0-9a-f]{2}:/i

/**
 * @param strangers whether the address may be outside of this machine and of private networks
 * @throws Error that says what is wrong with the URL
 */
export async function openTarget(text: string, caller: Caller, strangers: boolean): Promise<Target> {
  const problem = addressProblem(text)
  if (problem !== undefined) throw new UsageError(`the URL ${problem}`)
  const url = new URL(text)
  const headers = headersOf(caller)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const found = await lookup(host, { all: true }).catch(() => {
    throw new Error(`there is no host "${host}"`)
  })
  const own = Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address))
  const stranger = found.find(({ address }) => !own.includes(address) && !NEAR.test(address))?.address
  if (stranger !== undefined && !strangers) {
    const where = stranger === host ? stranger : `${host} (${stranger})`
    throw new Error(
      `${where} is neither this machine nor in a private network: --yes allows it, if the server is yours`,
    )
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
      const outbound = createOutbound({ timeoutMs: ANSWER_MS, maxBytes: MAX_BYTES })
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
    return `${host} answers, but does not speak TLS: ask it as http://, not https://`
  return /^E(CONN|HOST|NET|TIMED)/.test(code) ? `no server answers at ${where}: ${code}` : `${host}: ${message}`
}

const SECRET = 'X-Service-Admin-Secret'
const ROLE = 'X-Service-Role'
/** With one of these the secret of the environment is not sent. */
const PROOFS = ['authorization', 'cookie', SECRET.toLowerCase()]

function headersOf({ headers: lines, role, adminSecret }: Caller): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {}
  for (const line of lines) {
    const [, name, value] = /^([\w!#$%&'*+.^`|~-]+): *([^\r\n\0]*)$/.exec(line) ?? []
    if (name === undefined || value === undefined)
      throw new UsageError(`--header should be 'Name: value', not "${line}"`)
    headers[name] = value
  }
  const proven = Object.keys(headers).some((name) => PROOFS.includes(name.toLowerCase()))
  if (adminSecret !== undefined && !proven) headers[SECRET] = adminSecret
  if (role !== undefined) headers[ROLE] = role
  const wrong = Object.entries(headers).find(([, value]) => /[^\t\x20-\xff]/.test(value))
  if (wrong) throw new UsageError(`the header ${wrong[0]} has characters that a header cannot have`)
  return headers
}

function identityIn(headers: Readonly<Record<string, string>>): Pick<Target, 'caller' | 'proof'> {
  const values = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
  const proof = PROOFS.find((name) => values.has(name))
  const role = values.get(ROLE.toLowerCase())
  if (role !== undefined) return { caller: `as the role ${role}`, proof }
  if (proof === undefined) return { caller: 'without credentials', proof }
  return { caller: proof === SECRET.toLowerCase() ? 'as admin' : `by ${titled(proof)}`, proof }
}

/**
 * What is wrong with an answer, and what to do where that is known; undefined when nothing is.
 * @param doing what was requested, such as the name of a template
 */
export function problemOf({ status, text }: Told, { caller, proof }: Target, doing: string): string | undefined {
  if (status === 200 && !text.startsWith('{"errors":')) return undefined
  const { error, errors } = (parsed(text) ?? {}) as { error?: string; errors?: readonly { message: string }[] }
  const said = error ?? errors?.[0]?.message ?? short(text)
  const [, variable] = /\b(x-[\w-]+) header is expected but not found/.exec(said) ?? []
  const out = variable === undefined ? '' : `; send one, such as --header '${titled(variable)}: 7'`
  if (status === 401 || status === 403) {
    if (proof === undefined) return `${status}: ${said} (${caller}); ${CREDENTIALS}`
    return `${status}: ${proof === 'authorization' ? `the header Authorization is not accepted: ${said}` : said}`
  }
  if (status === 200) return `${doing}: GraphQL errors: ${said}${out}`
  return `${doing}: the first answer is ${status}: ${out === '' ? short(text) : said + out}`
}
const CREDENTIALS = `it needs credentials: --admin-secret-file F, ROWHOUSE_ADMIN_SECRET or --header 'Authorization: Bearer ...'`

/** `x-service-user-id` as it is mostly written. */
const titled = (name: string): string => name.replace(/(^|-)([a-z])/g, (letters) => letters.toUpperCase())

/** What is longer is not parsed to see whether it is empty. */
const MOST_EMPTY = 10_000

/** Whether an answer of 200 has no rows: nothing, an empty list, or lists of GraphQL or a bulk that all are. */
export function isEmptyAnswer(text: string): boolean {
  if (text.length > MOST_EMPTY) return false
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

/** The beginning of an answer, for people. */
export const short = (text: string): string => (text.length > 300 ? `${text.slice(0, 300)}...` : text)
