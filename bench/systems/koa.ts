import Koa from 'koa'

/** The least that a Koa server can do: read a JSON body and answer as many bytes of JSON as `?bytes=` says. */
process.stdin.once('end', () => process.exit()).resume()
process.once('SIGTERM', () => process.exit())

const bodies = new Map<string, string>()
const koa = new Koa()
koa.use(async (ctx) => {
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
