import { startServer } from '../../../core/host/server.js'

/** A server that may be killed: `rowhouse start` with live queries, so that it is there soon. */
const built = (path: string): URL => new URL(`../../../${path}.js`, import.meta.url)
process.stdin.once('end', () => process.exit()).resume()
const server = await startServer({
  env: process.env,
  cwd: process.cwd(),
  overrides: { http: { port: 0, drainDelayMs: 0 }, log: { level: 'error' } },
  builtins: { plugins: { query: built('plugins/query/index'), live: built('plugins/live/index') }, providers: {} },
})
process.stdout.write(`${server.url}\n`)
