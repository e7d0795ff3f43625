import { lookup as systemLookup } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'

/** Where clouds keep the credentials of their machines. Other private addresses are the operator's to name. */
const refused = new BlockList()
refused.addSubnet('169.254.0.0', 16, 'ipv4')
refused.addSubnet('fe80::', 10, 'ipv6')
refused.addAddress('fd00:ec2::254', 'ipv6')
refused.addAddress('100.100.100.200', 'ipv4')

/** Whether an IP address is one of link-local services, IPv4 inside IPv6 included. */
export function isRefused(address: string): boolean {
  const bare = address.replace(/^\[|\]$/g, '').replace(/%.*$/, '')
  return isIP(bare) !== 0 && refused.check(bare, isIP(bare) === 6 ? 'ipv6' : 'ipv4')
}

/** What is wrong with an address of the configuration; undefined when nothing is. */
export function addressProblem(text: string): string | undefined {
  if (!URL.canParse(text)) return 'is not an address'
  const { protocol, username, password, hostname } = new URL(text)
  if (protocol !== 'http:' && protocol !== 'https:') return 'must begin with http:// or https://'
  if (username !== '' || password !== '') return 'must not hold credentials; use "headers"'
  return isRefused(hostname) ? 'is a link-local address, where clouds keep credentials' : undefined
}

/** Looks a name up and refuses what it must not stand for; the connection then goes to just that address. */
export const guardedLookup: LookupFunction = (hostname, options, callback) => {
  systemLookup(hostname, { ...options, all: true }, (error, found) => {
    if (error) return callback(error, '')
    const allowed = found.filter(({ address }) => !isRefused(address))
    const [first] = allowed
    if (!first) return callback(new Error(`"${hostname}" stands for a link-local address`), '')
    if (options.all) callback(null, allowed)
    else callback(null, first.address, first.family)
  })
}
