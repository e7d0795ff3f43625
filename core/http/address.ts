import { lookup as systemLookup } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'

/** Link-local addresses, where clouds serve machine credentials. The operator may configure other private addresses. */
const refused = new BlockList()
refused.addSubnet('169.254.0.0', 16, 'ipv4')
refused.addSubnet('fe80::', 10, 'ipv6')
refused.addAddress('fd00:ec2::254', 'ipv6')
refused.addAddress('100.100.100.200', 'ipv4')

/** Returns whether an IP address is link-local, including IPv4 mapped to IPv6. */
export function isRefused(address: string): boolean {
  const bare = address.replace(/^\[|\]$/g, '').replace(/%.*$/, '')
  return isIP(bare) !== 0 && refused.check(bare, isIP(bare) === 6 ? 'ipv6' : 'ipv4')
}

/** Returns what is wrong with a URL of the configuration, or undefined. */
export function addressProblem(text: string): string | undefined {
  if (!URL.canParse(text)) return 'is not a URL'
  const { protocol, username, password, hostname } = new URL(text)
  if (protocol !== 'http:' && protocol !== 'https:') return 'must begin with http:// or https://'
  if (username !== '' || password !== '') return 'must not contain credentials; use "headers"'
  return isRefused(hostname) ? 'is a link-local address, where clouds serve credentials' : undefined
}

/** Looks up a host name and refuses link-local addresses. The connection then uses exactly the checked address. */
export const guardedLookup: LookupFunction = (hostname, options, callback) => {
  systemLookup(hostname, { ...options, all: true }, (error, found) => {
    if (error) return callback(error, '')
    const allowed = found.filter(({ address }) => !isRefused(address))
    const [first] = allowed
    if (!first) return callback(new Error(`"${hostname}" resolves to a link-local address`), '')
    if (options.all) callback(null, allowed)
    else callback(null, first.address, first.family)
  })
}
