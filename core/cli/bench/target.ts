import { once } from 'node:events'
import { lookup } from 'node:dns/promises'
import { BlockList, connect, isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import { addressProblem } from '../../http/address.js'
import { createOutbound, OutboundError } from '../../http/outbound.js'
import type { Endpoint } from './load.js'
import { readText } from './read-text.js'
import { UsageError } from './usage.js'

/** The server that is measured, and who asks it. */
export interface Target {
  /** Without a slash at the end. */
  readonly url: string
  readonly endpoint: Endpoint
  readonly isThisMachine: boolean
  /** Of every request; one with a body has those of `JSON_BODY` too. */
  readonly headers: Readonly<Record<string, string>>
  /** Who asks, for people. */
  readonly caller: string
  /** The header that proves it, in lower case. */
  readonly proof: string | undefined
  /** Asks once, before anything is measured. */
  ask(method: 'GET' | 'POST', path: string, body?: string): Promise<Told>
  close(): void
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
const CONNECT_MS = 5_000

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')
const near = new BlockList()
near.addSubnet('10.0.0.0', 8, 'ipv4')
near.addSubnet('172.16.0.0', 12, 'ipv4')
near.addSubnet('192.168.0.0', 16, 'ipv4')
near.addSubnet('fc00::', 7, 'ipv6')

/**
 * @param strangers whether an address outside of this machine and of private networks may be asked
 * @throws Error that says what is wrong with the URL, or that nothing answers there
 */
export async function openTarget(text: string, caller: Caller, strangers: boolean): Promise<Target> {
  const problem = addressProblem(text)
  if (problem !== undefined) throw new UsageError(`the URL ${problem}`)
  const url = new URL(text)
  const headers = { Host: url.host, 'User-Agent': 'rowhouse bench', ...headersOf(caller) }
  const name = url.hostname.replace(/^\[|\]$/g, '')
  const found = await lookup(name, { all: true }).catch(() => {
    throw new Error(`there is no host "${name}"`)
  })
  const addresses = found.map(({ address }) => address)
  const stranger = addresses.find((address) => !isThisMachine(address) && !matches(near, address))
  if (stranger !== undefined && !strangers) {
    const where = stranger === name ? stranger : `${name} (${stranger})`
    throw new Error(
      `${where} is neither this machine nor in a private network: --yes asks it all the same, if the server is yours`,
    )
  }
  const port = Number(url.port) || (url.protocol === 'https:' ? 443 : 80)
  const address = await answering(addresses, port)
  const outbound = createOutbound({ timeoutMs: ANSWER_MS, maxBytes: MAX_BYTES })
  const base = `${url.origin}${url.pathname.replace(/\/$/, '')}`
  return {
    url: base,
    endpoint: { address, port, ...(url.protocol === 'https:' ? { servername: name } : {}) },
    isThisMachine: isThisMachine(address),
    headers,
    caller: describe(headers),
    proof: proofIn(headers),
    async ask(method, path, body) {
      const more = body === undefined ? { headers } : { headers: { ...headers, ...JSON_BODY }, body }
      const answer = await outbound.ask({ method, url: base + path, ...more }).catch((error: unknown) => {
        if (!isNotTls(error)) throw error
        throw new Error(`${url.host} answers, but does not speak TLS: ask it as http://, not https://`, {
          cause: error,
        })
      })
      return { status: answer.status, text: answer.body.toString() }
    },
    close: () => outbound.close(),
  }
}

/** What comes instead of an answer to the first words of TLS is none of TLS. */
function isNotTls(error: unknown): boolean {
  const { cause } = error as OutboundError
  const code = cause instanceof Error ? (cause as NodeJS.ErrnoException).code : undefined
  return error instanceof OutboundError && (code === 'EPROTO' || code === 'ERR_SSL_WRONG_VERSION_NUMBER')
}

/** From a file, so that it is in no list of processes; else from the environment. */
export async function readAdminSecret(file: string | undefined, env: NodeJS.ProcessEnv): Promise<string | undefined> {
  return file === undefined ? env['ROWHOUSE_ADMIN_SECRET'] : (await readText(file)).trim()
}

/** Of `localhost`, a server may listen on one address only. */
async function answering(addresses: readonly string[], port: number): Promise<string> {
  const reasons: string[] = []
  for (const host of addresses) {
    const socket = connect({ host, port })
    try {
      await once(socket, 'connect', { signal: AbortSignal.timeout(CONNECT_MS) })
      return host
    } catch (error) {
      const { code, name } = error as NodeJS.ErrnoException
      reasons.push(`${host} port ${port}: ${name === 'AbortError' ? 'no answer' : (code ?? name)}`)
    } finally {
      socket.destroy()
    }
  }
  throw new Error(`no server answers at ${reasons.join(', ')}`)
}

const SECRET = 'X-Service-Admin-Secret'
const ROLE = 'X-Service-Role'
/** Who proves to be somebody in another way is not admin because of the environment. */
const PROOFS = new Set(['authorization', 'cookie', SECRET.toLowerCase()])

function headersOf({ headers: lines, role, adminSecret }: Caller): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {}
  for (const line of lines) {
    const [, name, value] = /^([\w!#$%&'*+.^`|~-]+): *([^\r\n\0]*)$/.exec(line) ?? []
    if (name === undefined || value === undefined)
      throw new UsageError(`--header should be 'Name: value', not "${line}"`)
    headers[name] = value
  }
  const proven = Object.keys(headers).some((name) => PROOFS.has(name.toLowerCase()))
  if (adminSecret !== undefined && !proven) headers[SECRET] = adminSecret
  if (role !== undefined) headers[ROLE] = role
  for (const [name, value] of Object.entries(headers)) {
    if (/[^\t\x20-\xff]/.test(value))
      throw new UsageError(`the header ${name} has characters that a header cannot have`)
  }
  return headers
}

function proofIn(headers: Readonly<Record<string, string>>): string | undefined {
  const names = new Set(Object.keys(headers).map((name) => name.toLowerCase()))
  return [...PROOFS].find((name) => names.has(name))
}

function describe(headers: Readonly<Record<string, string>>): string {
  const names = new Map(Object.keys(headers).map((name) => [name.toLowerCase(), name]))
  const role = headers[names.get(ROLE.toLowerCase()) ?? '']
  const by = proofIn(headers)
  if (role !== undefined) return `as the role ${role}`
  if (by === SECRET.toLowerCase()) return 'as admin'
  return by === undefined ? 'without credentials' : `by ${names.get(by)}`
}

function isThisMachine(address: string): boolean {
  const own = Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map((each) => each.address))
  return matches(loopback, address) || own.includes(address)
}

function matches(list: BlockList, address: string): boolean {
  return list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
}
