import type { IncomingMessage } from 'node:http'
import t from 'tap'
import { addressKey, createProxies, readProxies } from '../../core/http/client-address.js'

/** A request of a peer with its header, as Node gives it. */
const request = (remoteAddress: string | undefined, forwarded?: string) =>
  ({
    socket: { remoteAddress },
    headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
  }) as unknown as IncomingMessage

const clientOf = (
  trustedProxies: string[],
  peer: string | undefined,
  forwarded?: string,
  socket?: { path: string; mode: string },
) => createProxies({ trustedProxies, ...(socket && { socket }) }).clientOf(request(peer, forwarded))

t.test('nobody is trusted unless it is configured', async (t) => {
  t.equal(clientOf([], '10.0.0.1', '192.0.2.1'), '10.0.0.1')
  t.equal(clientOf([], '::ffff:10.0.0.1', '192.0.2.1'), '10.0.0.1')
  t.equal(clientOf(['10.0.0.2'], '10.0.0.1', '192.0.2.1'), '10.0.0.1', 'another peer')
  t.equal(clientOf(['unix'], undefined, '192.0.2.1'), '', 'a port whose connection is gone is no socket')
})

t.test('of what a trusted proxy says the right-most address that is not trusted counts', async (t) => {
  const trusted = ['10.0.0.0/8', '2001:db8:1::/48', '192.0.2.250']
  const table: [peer: string, forwarded: string | undefined, client: string][] = [
    ['10.0.0.1', undefined, '10.0.0.1'],
    ['10.0.0.1', '192.0.2.1', '192.0.2.1'],
    ['::ffff:10.0.0.1', '192.0.2.1', '192.0.2.1'],
    ['10.0.0.1', '198.51.100.9, 192.0.2.1', '192.0.2.1'],
    ['10.0.0.1', '10.9.9.9, 192.0.2.1', '192.0.2.1'],
    ['10.0.0.1', '198.51.100.9, 192.0.2.1,10.0.0.7 , 192.0.2.250', '192.0.2.1'],
    ['10.0.0.1', '10.0.0.3, 10.0.0.2', '10.0.0.3'],
    ['10.0.0.1', '::FFFF:192.0.2.1', '192.0.2.1'],
    ['10.0.0.1', '192.0.2.1:4711', '192.0.2.1'],
    ['10.0.0.1', '[2001:db8:2::1]:4711', '2001:db8:2::1'],
    ['2001:db8:1::5', '2001:db8:2::1, 2001:db8:1::6', '2001:db8:2::1'],
    ['10.0.0.1', '192.0.2.1, unknown', '10.0.0.1'],
    ['10.0.0.1', '192.0.2.1, unknown, 10.0.0.2', '10.0.0.2'],
    ['10.0.0.1', '192.0.2.1,', '10.0.0.1'],
    ['10.0.0.1', '', '10.0.0.1'],
    ['10.0.0.1', 'fe80::1%eth0', 'fe80::1'],
    ['10.0.0.1', '0x7f.1, 010.0.0.1', '10.0.0.1'],
    ['fe80::9%eth0', '192.0.2.1', 'fe80::9'],
  ]
  for (const [peer, forwarded, client] of table)
    t.equal(clientOf(trusted, peer, forwarded), client, `${peer} ${forwarded}`)
})

t.test('who connects over the unix socket can be trusted as well', async (t) => {
  const socket = { path: '/run/a', mode: '660' }
  t.equal(clientOf([], undefined, '192.0.2.1', socket), '')
  t.equal(clientOf(['10.0.0.0/8'], undefined, '192.0.2.1', socket), '')
  t.equal(clientOf(['unix'], undefined, '198.51.100.9, 192.0.2.1', socket), '192.0.2.1')
  t.equal(clientOf(['unix', '192.0.2.1'], undefined, '198.51.100.9, 192.0.2.1', socket), '198.51.100.9')
})

t.test('what is no address and no range is told by its place', async (t) => {
  const right = ['unix', '192.0.2.1', '10.0.0.0/8', '::1', '2001:db8::/32', '0.0.0.0/0']
  const wrong = [
    '',
    'localhost',
    '10.0.0.0/33',
    '::/129',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '10.0.0/8',
    'fe80::1%eth0',
    '1.2.3.4:80',
  ]
  t.same(readProxies(right).wrong, [])
  t.same(
    readProxies([...wrong, ...right]).wrong,
    wrong.map((_, i) => i),
  )
})

t.test('limits count an IPv6 network of one customer as one', async (t) => {
  const same = ['2001:db8:1:2::', '2001:db8:1:2:3:4:5:6', '2001:DB8:1:2::9']
  t.equal(new Set(same.map(addressKey)).size, 1)
  const others = ['2001:db8:1::2', '2001:db8::1:2:0:0', '::1', '1::', '192.0.2.1', '192.0.2.2', '']
  t.equal(new Set([...same, ...others].map(addressKey)).size, 1 + others.length)
})
