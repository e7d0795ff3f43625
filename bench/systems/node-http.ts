import { createServer } from 'node:http'

/** The least that Node can do: read a JSON body and answer as many bytes of JSON as `?bytes=` says. */
process.stdin.once('end', () => process.exit()).resume()
process.once('SIGTERM', () => process.exit())

const bodies = new Map<string, Buffer>()

createServer((req, res) => {
  const chunks: Buffer[] = []
  req.on('data', (chunk: Buffer) => chunks.push(chunk))
  req.on('end', () => {
    JSON.parse(Buffer.concat(chunks).toString())
    const body = bodyOf(req.url ?? '')
    res.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length }).end(body)
  })
}).listen(Number(process.env['PORT']), '127.0.0.1')

/** An answer of the size that the address asks for, which is kept. */
function bodyOf(url: string): Buffer {
  const kept = bodies.get(url)
  if (kept) return kept
  const bytes = Number(new URL(url, 'http://localhost').searchParams.get('bytes') ?? 2)
  const body = Buffer.from(JSON.stringify('x'.repeat(bytes - 2)))
  bodies.set(url, body)
  return body
}
