import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { messages } from './wire.js'

export interface SqlTap {
  /** The target's URL, by way of the tap. */
  readonly url: string
  /** Every text of a statement that was sent, once. */
  readonly texts: ReadonlySet<string>
}

const PARSE = 'P'
const QUERY = 'Q'

/** Stands between a server and its PostgreSQL, and notes the text of what is prepared or run. Values it lets pass. */
export async function startSqlTap(t: { teardown(fn: () => Promise<void>): unknown }, target: string): Promise<SqlTap> {
  const { hostname, port } = new URL(target)
  const texts = new Set<string>()
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect({ host: hostname, port: Number(port) })
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => socket.destroy()).on('close', () => (client.destroy(), upstream.destroy()))
    }
    const read = messages(false, (type, body) => {
      if (type === QUERY) texts.add(body.toString('utf8', 0, body.indexOf(0)))
      if (type !== PARSE) return
      const start = body.indexOf(0) + 1
      texts.add(body.toString('utf8', start, body.indexOf(0, start)))
    })
    client.on('data', read)
    client.pipe(upstream)
    upstream.pipe(client)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise<void>((resolve) => server.close(() => resolve()))
  })
  const url = new URL(target)
  url.hostname = '127.0.0.1'
  url.port = String((server.address() as AddressInfo).port)
  return { url: url.href, texts }
}
