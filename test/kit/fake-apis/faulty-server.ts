import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'

/** A request as it came. */
export interface Asked {
  readonly method: string
  readonly url: URL
  readonly headers: IncomingHttpHeaders
  readonly body: string
  /** The body, byte for byte. */
  readonly bytes: Buffer
}
export interface Answer {
  readonly status: number
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * What happens instead of the usual answer, to each request until it is changed. `lost`: the request is taken and the
 * connection reset; `unread`: the connection is reset before the request is read; `drip`: an answer that never ends.
 */
export type Fault =
  | { readonly kind: 'answer'; readonly answer: Answer }
  | { readonly kind: 'hang' | 'lost' | 'unread' | 'drip' }

export interface FaultyServer {
  readonly url: string
  /** The requests that were read. */
  readonly asked: Asked[]
  fault: Fault | undefined
  /** Nothing listens any more. */
  close(): Promise<void>
}

/** An HTTP server on loopback that fails as it is told to. */
export async function faultyServer(
  t: { teardown(fn: () => Promise<void>): unknown },
  answer: (asked: Asked) => Answer | Promise<Answer>,
): Promise<FaultyServer> {
  const asked: Asked[] = []
  const sockets = new Set<Socket>()
  const server = createServer(async (req, res) => {
    if (faulty.fault?.kind === 'unread') return req.socket.resetAndDestroy()
    const { method = '', url = '/', headers } = req
    const bytes = await buffer(req)
    const one = { method, url: new URL(url, 'http://127.0.0.1'), headers, body: bytes.toString(), bytes }
    asked.push(one)
    const usual = await answer(one)
    const { fault } = faulty
    if (fault === undefined) send(res, usual)
    else if (fault.kind === 'answer') send(res, fault.answer)
    else if (fault.kind === 'lost') req.socket.resetAndDestroy()
    else if (fault.kind === 'drip') drip(res)
  })
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const faulty: FaultyServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    fault: undefined,
    async close() {
      for (const socket of sockets) socket.destroy()
      if (!server.listening) return
      server.close()
      await once(server, 'close')
    },
  }
  t.teardown(() => faulty.close())
  return faulty
}

function send(res: ServerResponse, { status, body = '', headers }: Answer): void {
  res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body)
}

function drip(res: ServerResponse): void {
  res.writeHead(200, { 'content-type': 'application/json' })
  const timer = setInterval(() => res.write(' '), 20)
  res.on('close', () => clearInterval(timer))
}
