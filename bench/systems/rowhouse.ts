import { startServer } from '../../core/host/server.js'

const plugin = (name: string): URL => new URL(`../../plugins/${name}/index.js`, import.meta.url)

/** The server under measurement: `DATABASE_URL`, `ROWHOUSE_*` and `PORT` come from the environment. */
process.stdin.once('end', () => process.exit()).resume()
try {
  const server = await startServer({
    env: process.env,
    cwd: import.meta.dirname,
    overrides: { http: { port: Number(process.env['PORT']) } },
    builtins: { plugins: { query: plugin('query'), graphql: plugin('graphql') }, providers: {} },
  })
  process.once('SIGTERM', () => void server.close().then(() => process.exit()))
} catch (error) {
  console.log(error)
  process.exit(1)
}
