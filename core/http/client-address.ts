import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'
import type { HttpConfig } from './config.js'

/** The peers whose word is taken for where a request came from. */
export interface Proxies {
  readonly list: BlockList
  /** Whoever connects over the unix socket. */
  readonly unix: boolean
  readonly none: boolean
}

/**
 * @param entries addresses, ranges as `10.0.0.0/8`, and `unix`
 * @returns the entries that are none of these, by index, beside what the others say
 */
export function readProxies(entries: readonly string[]): { readonly proxies: Proxies; readonly wrong: number[] } {
  const list = new BlockList()
  const wrong = entries.flatMap((entry, index) => (entry === 'unix' || add(list, entry) ? [] : [index]))
  return { proxies: { list, unix: entries.includes('unix'), none: entries.length === 0 }, wrong }
}

function add(list: BlockList, entry: string): boolean {
  const [address = '', bits, more] = entry.split('/')
  const version = isIP(address)
  if (version === 0 || address.includes('%') || more !== undefined) return false
  const family = version === 6 ? 'ipv6' : 'ipv4'
  if (bits === undefined) {
    list.addAddress(address, family)
    return true
  }
  if (!/^\d{1,3}$/.test(bits) || Number(bits) > (version === 6 ? 128 : 32)) return false
  list.addSubnet(address, Number(bits), family)
  return true
}

/** What is believed of where requests come from. */
export interface TrustedProxies {
  /** Whether the peer of a request is one of them. */
  trustsPeer(req: IncomingMessage): boolean
  /**
   * Where a request came from: the peer, or, as far as peers are trusted, the address that they say they had it from. The
   * left part of `X-Forwarded-For` is what the client wrote, so it is read from the right, up to the first address that is
   * not trusted. Empty: a unix socket whose peer is not trusted or says nothing.
   */
  clientOf(req: IncomingMessage): string
}

export function createProxies(config: Pick<HttpConfig, 'socket' | 'trustedProxies'>): TrustedProxies {
  const { proxies } = readProxies(config.trustedProxies)
  const onSocket = config.socket !== undefined
  const trusted = (address: string) =>
    isIP(address) !== 0 && proxies.list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')

  const trustsPeer = (req: IncomingMessage) => !proxies.none && (onSocket ? proxies.unix : trusted(peerOf(req)))

  return {
    trustsPeer,
    clientOf(req) {
      let client = peerOf(req)
      if (!trustsPeer(req)) return client
      for (const hop of forwardedFor(req).toReversed()) {
        const address = plain(withoutPort(hop))
        if (isIP(address) === 0) return client
        client = address
        if (!trusted(address)) return client
      }
      return client
    },
  }
}

const peerOf = (req: IncomingMessage): string => plain(req.socket.remoteAddress ?? '')

/** Of all lines in their order: Node's own map would do the same, and other headers it would not join. */
function forwardedFor(req: IncomingMessage): string[] {
  const given = req.headers['x-forwarded-for'] ?? []
  return (typeof given === 'string' ? given : given.join(',')).split(',').map((hop) => hop.trim())
}

/** `192.0.2.1:80`, `[2001:db8::1]:80` and `[2001:db8::1]` as well as the address alone. */
function withoutPort(hop: string): string {
  return /^\[([^\]]+)\](?::\d+)?$/.exec(hop)?.[1] ?? /^([\d.]+):\d+$/.exec(hop)?.[1] ?? hop
}

/** An IPv4 address is that, also where a socket of both kinds shows it as `::ffff:192.0.2.1`. No zone as in `fe80::1%eth0`. */
function plain(address: string): string {
  const [alone = ''] = address.split('%')
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(alone)?.[1] ?? alone
}

/** What limits count under: an address, of IPv6 the /64 of which one customer has all. */
export function addressKey(address: string): string {
  if (isIP(address) !== 6) return address
  const [left = '', right] = address.split('::')
  const groups = left === '' ? [] : left.split(':')
  const behind = right === undefined || right === '' ? [] : right.split(':')
  const zeros =
    right === undefined ? [] : Array.from({ length: Math.max(0, 8 - groups.length - behind.length) }, () => '0')
  return [...groups, ...zeros, ...behind].slice(0, 4).join(':').toLowerCase()
}
