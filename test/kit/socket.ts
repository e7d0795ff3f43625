import type { Test } from 'tap'
import { WebSocket } from 'ws'
import { ADMIN_SECRET, type TestServer } from './server.js'

// oxlint-disable-next-line typescript/no-explicit-any
type Message = any

const WAIT_MS = 15_000

/** A client of GraphQL over WebSocket that sends whatever it is told. */
export class SocketClient {
  readonly messages: Message[] = []
  /** Code 0: it was open for too long. */
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>

  constructor(readonly socket: WebSocket) {
    socket.on('message', (data) => this.messages.push(JSON.parse(String(data as Buffer))))
    this.closed = new Promise((resolve) => {
      const timer = setTimeout(() => resolve({ code: 0, reason: 'it is still open' }), WAIT_MS)
      socket.on('close', (code, reason) => {
        clearTimeout(timer)
        resolve({ code, reason: reason.toString() })
      })
    })
  }

  send(message: object | string): void {
    this.socket.send(typeof message === 'string' ? message : JSON.stringify(message))
  }

  /** Waits until a message has come that is at most like this, and is the last of its id. */
  async has(t: Test, like: object, message = JSON.stringify(like)): Promise<void> {
    const { id } = like as { readonly id?: string }
    const last = () => this.messages.findLast((each: Message) => each.id === id)
    const wanted = JSON.stringify(like)
    for (let tries = 0; tries < 600; tries++) {
      if (JSON.stringify(last()) === wanted) return void t.pass(message)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    t.same(last(), like, message)
  }

  /** Waits for a message of a type. */
  async find(type: string, id?: string): Promise<Message> {
    for (let tries = 0; tries < 600; tries++) {
      const found: Message = this.messages.find((each: Message) => each.type === type && each.id === id)
      if (found) return found
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    throw new Error(`no ${type}: ${JSON.stringify(this.messages)}`)
  }

  count(id: string): number {
    return this.messages.filter((each: Message) => each.id === id).length
  }

  close(): void {
    this.socket.terminate()
  }
}

interface Connecting {
  readonly path?: string
  readonly protocol?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Opens a WebSocket without credentials. @throws Error with the status and the body, if it is refused */
export function openSocket(
  server: TestServer,
  { path = '/v1/graphql', protocol = 'graphql-transport-ws', headers = {} }: Connecting = {},
): Promise<SocketClient> {
  const socket = new WebSocket(server.url.replace('http', 'ws') + path, protocol === '' ? [] : protocol, { headers })
  const client = new SocketClient(socket)
  return new Promise((resolve, reject) => {
    socket.once('open', () => resolve(client))
    socket.once('error', reject)
    socket.once('unexpected-response', (_, response) => {
      let text = ''
      response.on('data', (chunk: Buffer) => (text += chunk.toString()))
      response.on('end', () => reject(new Error(`${response.statusCode} ${text}`)))
    })
  })
}

/** Opens one and says who it is: by default admin. */
export async function connect(
  server: TestServer,
  payload: object = { headers: { 'x-service-admin-secret': ADMIN_SECRET } },
  connecting?: Connecting,
): Promise<SocketClient> {
  const client = await openSocket(server, connecting)
  client.send({ type: 'connection_init', payload })
  await client.find('connection_ack')
  return client
}
