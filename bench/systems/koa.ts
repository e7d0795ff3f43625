import Koa from 'koa'
import { PIECE } from '../load/pattern.js'

/**
 * The least that a Koa server can do: read a JSON body and answer as many bytes of JSON as `?bytes=` says. GET is answered
 * with the first so many bytes of a file.
 */
process.stdin.once('end', () => process.exit()).resume()
process.once('SIGTERM', () => process.exit())

const bodies = new Map<string, string>()
const koa = new Koa()
koa.use(async (ctx) => {
  if (ctx.method === 'GET') {
    ctx.type = 'application/octet-stream'
    ctx.body = PIECE.subarray(0, Number(ctx.query['bytes']))
    return
  }
  const chunks: Buffer[] = []
  for await (const chunk of ctx.req) chunks.push(chunk as Buffer)
  JSON.parse(Buffer.concat(chunks).toString())
  ctx.type = 'application/json'
  ctx.body = bodies.get(ctx.search) ?? fixed(ctx.search)
})
koa.listen(Number(process.env['PORT']), '127.0.0.1')

/** An answer of that size, which is kept. */
function fixed(search: string): string {
  const bytes = Number(new URLSearchParams(search).get('bytes') ?? 2)
  const body = JSON.stringify('x'.repeat(bytes - 2))
  bodies.set(search, body)
  return body
}
