import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

/** What a product that the bench asks by its URL would answer. */
export type FakePeer = (request: {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}) => Promise<FakeAnswer>

export interface FakeAnswer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: unknown
}

/** @param t a tap test: it ends with it. @returns its URL */
export async function serve(t: { teardown(fn: () => void): unknown }, peer: FakePeer): Promise<string> {
  const server = createServer((req, res) => {
    const answer = async () => {
      const { method = '', url: path = '', headers } = req
      return peer({ method, path, headers, body: await text(req) })
    }
    const end = ({ status, headers, body }: FakeAnswer) =>
      res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
    answer().then(end, (error: unknown) => end({ status: 400, body: { message: String(error) } }))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
