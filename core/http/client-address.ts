import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'
import type { HttpConfig } from './config.js'

/**
 * Parses the trusted proxies.
 * @param entries addresses, CIDR ranges such as `10.0.0.0/8`, and `unix`
 * @returns the addresses, and the indexes of invalid entries
 */
export function readProxies(entries: readonly string[]): { readonly list: BlockList; readonly wrong: number[] } {
  const list = new BlockList()
  const wrong = entries.flatMap((entry, index) => (entry === 'unix' || add(list, entry) ? [] : [index]))
  return { list, wrong }
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

/** Determines client addresses with the trusted proxies. */
interface TrustedProxies {
  /** Returns whether the peer of a request is a trusted proxy. */
  trustsPeer(req: IncomingMessage): boolean
  /**
   * Returns the client address: the peer, or the address that trusted proxies forwarded. Reads `X-Forwarded-For` from
   * the right, up to the first untrusted address, because the client controls the left part. Returns an empty string
   * for a unix socket whose peer is untrusted or sends no address.
   */
  clientOf(req: IncomingMessage): string
}

export function createProxies(config: Pick<HttpConfig, 'socket' | 'trustedProxies'>): TrustedProxies {
  const { list } = readProxies(config.trustedProxies)
  const trustsSocket = config.trustedProxies.includes('unix')
  const isNone = config.trustedProxies.length === 0
  const onSocket = config.socket !== undefined
  const trusted = (address: string) => isIP(address) !== 0 && list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')

  const trustsPeer = (req: IncomingMessage) => !isNone && (onSocket ? trustsSocket : trusted(peerOf(req)))

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

/**
 * Returns the root of the URL that the client addressed: from the `Host` header, over HTTP. A trusted proxy says the scheme
 * in `X-Forwarded-Proto`, and may send another host in `X-Forwarded-Host`.
 * @returns undefined if these are missing or not valid
 */
export function addressedUrl({ headers }: IncomingMessage, isTrusted: boolean): URL | undefined {
  const scheme = isTrusted ? headers['x-forwarded-proto'] : 'http'
  const host = (isTrusted && headers['x-forwarded-host']) || headers.host
  if (!/^https?$/.test(String(scheme)) || !/^[^\s,/@?#]+$/.test(String(host))) return undefined
  const text = `${String(scheme)}://${String(host)}`
  return URL.canParse(text) ? new URL(text) : undefined
}

const peerOf = (req: IncomingMessage): string => plain(req.socket.remoteAddress ?? '')

/** Returns the hops of all header lines in order. */
function forwardedFor(req: IncomingMessage): string[] {
  const given = req.headers['x-forwarded-for'] ?? []
  return (typeof given === 'string' ? given : given.join(',')).split(',').map((hop) => hop.trim())
}

/** Removes the port from `192.0.2.1:80` or `[2001:db8::1]:80`, and the brackets from `[2001:db8::1]`. */
function withoutPort(hop: string): string {
  return /^\[([^\]]+)\](?::\d+)?$/.exec(hop)?.[1] ?? /^([\d.]+):\d+$/.exec(hop)?.[1] ?? hop
}

/**
 * Unwraps IPv4-mapped addresses such as `::ffff:192.0.2.1`, and removes the zone of addresses such as `fe80::1%eth0`.
 */
function plain(address: string): string {
  // Addresses of version 4 have no colons.
  if (!address.includes(':')) return address
  const [alone = ''] = address.split('%')
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(alone)?.[1] ?? alone
}

/** Returns the key for limits by address. For IPv6 it is the /64 prefix, which belongs to one customer. */
export function addressKey(given: string): string {
  const address = plain(given)
  if (!address.includes(':') || isIP(address) !== 6) return address
  const [left = '', right] = address.split('::')
  const groups = left === '' ? [] : left.split(':')
  const behind = right === undefined || right === '' ? [] : right.split(':')
  const zeros =
    right === undefined ? [] : Array.from({ length: Math.max(0, 8 - groups.length - behind.length) }, () => '0')
  return [...groups, ...zeros, ...behind].slice(0, 4).join(':').toLowerCase()
}
