import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { ADMIN_SECRET } from '../server.js'
import type { Attack } from './requests.js'

/** What came back; `cut`: the connection ended without a whole answer. */
export type Reply =
  | { readonly kind: 'answer'; readonly status: number; readonly body: string; readonly contentType: string }
  | { readonly kind: 'cut'; readonly why: string }

/** Sends attacks over a few connections that are kept alive; those that are no HTTP over one of their own. */
export function createWire(url: string, connections: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  return {
    send: (attack: Attack): Promise<Reply> =>
      attack.kind === 'raw' ? sendRaw(url, attack.bytes) : send(url, agent, attack),
    close: () => agent.destroy(),
  }
}

const IDENTITY = {
  admin: { 'x-service-admin-secret': ADMIN_SECRET },
  user: { 'x-service-admin-secret': ADMIN_SECRET, 'x-service-role': 'user', 'x-service-user-id': '1' },
  anonymous: {},
}

function send(
  url: string,
  agent: Agent,
  { method, path, role, headers, body }: Attack & { kind: 'http' },
): Promise<Reply> {
  return new Promise((resolve) => {
    const cut = (error: Error & { code?: string }) =>
      resolve({ kind: 'cut', why: `${error.code ?? ''} ${error.message}` })
    const { hostname, port } = new URL(url)
    const sent = request(
      {
        hostname,
        port,
        method,
        path,
        agent,
        headers: { ...IDENTITY[role], ...headers, 'content-length': body.length },
      },
      (response) => {
        text(response).then(
          (answer) =>
            resolve({
              kind: 'answer',
              status: response.statusCode ?? 0,
              body: answer,
              contentType: response.headers['content-type'] ?? '',
            }),
          cut,
        )
      },
    )
    sent.on('error', cut)
    sent.end(body)
  })
}

function sendRaw(url: string, bytes: Buffer): Promise<Reply> {
  return new Promise((resolve) => {
    const { hostname, port } = new URL(url)
    const chunks: Buffer[] = []
    const socket = connect({ host: hostname, port: Number(port) }, () => socket.end(bytes))
    const done = (why: string) => resolve(parsed(Buffer.concat(chunks).toString('latin1')) ?? { kind: 'cut', why })
    socket.on('data', (chunk) => chunks.push(chunk))
    socket.on('error', (error) => done(error.message))
    socket.on('close', () => done('closed'))
  })
}

/** The first answer, after any `100 Continue`. */
function parsed(stream: string): Reply | undefined {
  const found = /^(?:HTTP\/1\.1 100 Continue\r\n\r\n)*HTTP\/1\.1 (\d{3}) [^\r]*\r\n([^]*?)\r\n\r\n([^]*)$/.exec(stream)
  if (!found) return undefined
  const [, status, head = '', rest = ''] = found
  const length = /^content-length: (\d+)/im.exec(head)?.[1]
  const contentType = /^content-type: (.*)$/im.exec(head)?.[1] ?? ''
  return { kind: 'answer', status: Number(status), body: rest.slice(0, Number(length ?? 0)), contentType }
}
