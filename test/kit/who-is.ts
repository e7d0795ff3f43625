import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { createServer, type RequestListener } from 'node:http'
import { connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import { type JWTPayload, SignJWT } from 'jose'
import type { Test } from 'tap'
import { ADMIN_SECRET, GATEWAY_SECRET, type TestServer } from './server.js'

/** The plugin whose `GET /console/session` shows who a caller is. */
export const CONSOLE = { console: new URL('../../plugins/console/index.js', import.meta.url) }

export type Pair = ReturnType<typeof pair>
export const pair = () => generateKeyPairSync('ec', { namedCurve: 'P-256' })
export const pem = ({ publicKey }: Pair) => String(publicKey.export({ type: 'spki', format: 'pem' }))
/** The key of an issuer. */
export const SHOP = pair()

export const now = () => Math.floor(Date.now() / 1000)
export const ROLES = { 'x-service-allowed-roles': ['user', 'editor'] }
/** Of a token of that issuer. */
export const CLAIMS = {
  iss: 'shop',
  aud: 'rowhouse',
  exp: now() + 3600,
  rowhouse: {
    'X-Service-Allowed-Roles': ['editor', 'user'],
    'x-service-default-role': 'user',
    'x-service-user-id': 12,
    'x-service-org': 'a',
  },
} as const
/** A token of the shop unless told otherwise. Claims that are `undefined` are left out. */
export function token(
  claims: JWTPayload = {},
  key: KeyObject | Uint8Array = SHOP.privateKey,
  header: object = {},
): Promise<string> {
  const payload = JSON.parse(JSON.stringify({ ...CLAIMS, ...claims }))
  const alg = key instanceof Uint8Array ? 'HS256' : 'ES256'
  return new SignJWT(payload).setProtectedHeader({ alg, ...header }).sign(key)
}
export const tokenOf = (more: object) => token({ rowhouse: { ...ROLES, ...more } })

/** Who a server says that the sender of these header lines is; lines as they are. */
export function whoIs({ url }: Pick<TestServer, 'url'>, lines: readonly string[], path = '/console/session') {
  return rawGet({ host: '127.0.0.1', port: Number(new URL(url).port) }, lines, path)
}
/** As `whoIs`, of a server on a port or a unix socket. */
export function rawGet(
  to: { host: string; port: number } | { path: string },
  lines: readonly string[],
  path = '/console/session',
) {
  // oxlint-disable-next-line typescript/no-explicit-any
  return new Promise<{ status: number; body: any }>((resolve, reject) => {
    const socket = connect(to as { path: string })
    const chunks: Buffer[] = []
    socket.on('data', (chunk) => chunks.push(chunk)).on('error', reject)
    socket.on('close', () => {
      const [head = '', body = ''] = Buffer.concat(chunks).toString().split('\r\n\r\n')
      resolve({ status: Number(head.split(' ')[1]), body: body.startsWith('{') ? JSON.parse(body) : body })
    })
    const head = ['Host: a', 'Connection: close', ...lines].map((line) => `${line}\r\n`).join('')
    socket.write(`GET ${path} HTTP/1.1\r\n${head}\r\n`, 'latin1')
  })
}
export const bearer = (text: string) => `Authorization: Bearer ${text}`
export const secret = (value = ADMIN_SECRET) => `X-Service-Admin-Secret: ${value}`
export const gate = (value = GATEWAY_SECRET) => `X-Service-Gateway-Secret: ${value}`
/** Headers that prove nothing. */
export const UNPROVEN = [
  'X-Service-User-Id: 7',
  'X-Service-Org: b',
  'X-Service-Allowed-Roles: admin',
  'X-Service-Default-Role: admin',
]
/** The answer to a role that the caller does not hold. */
export const NOT_HELD = { status: 403, body: { code: 'access-denied' } }
/** The answer to a header that could be read in two ways. */
export const MALFORMED = { status: 400, body: { code: 'parse-failed' } }
/** The answer to any wrong token. */
export const INVALID = {
  path: '$',
  error: 'invalid authorization token',
  code: 'invalid-token',
  message: 'invalid authorization token',
}

/** A server of this test. Returns its address. */
export async function listen(t: Test, handle: RequestListener): Promise<string> {
  const server = createServer(handle)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}
