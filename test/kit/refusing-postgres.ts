import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { Certificate } from './certificate.js'

interface Refusal {
  /** SQLSTATE. */
  readonly code: string
  readonly message: string
  /** Refuses only those who send this startup parameter; says nothing to others. */
  readonly only?: string
  /** Takes TLS. */
  readonly tls?: Certificate
  /** Closes the connection without a word. */
  readonly closes?: boolean
}

const SSL_REQUEST = 80877103

/** A server that refuses each login as PostgreSQL does. @returns its connection URL */
export async function refusingPostgres(
  t: { teardown(fn: () => void): unknown },
  { code, message, only, tls, closes }: Refusal,
): Promise<string> {
  const sockets = new Set<Socket>()
  const refuse = (socket: Socket, startup: Buffer) => {
    if (only !== undefined && !startup.includes(only)) return
    const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0M${message}\0\0`)
    const head = Buffer.from('E\0\0\0\0')
    head.writeInt32BE(fields.length + 4, 1)
    socket.end(Buffer.concat([head, fields]))
  }
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('data', (first) => {
      if (closes) socket.destroy()
      else if (first.readInt32BE(4) !== SSL_REQUEST) refuse(socket, first)
      else if (!tls) socket.write('N')
      else {
        socket.write('S')
        const secured = new TLSSocket(socket, { isServer: true, ...tls })
        secured.on('error', () => {}).once('data', (startup: Buffer) => refuse(secured, startup))
      }
    })
  })
  t.teardown(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return `postgresql://a:marker@localhost:${(server.address() as AddressInfo).port}/x`
}
