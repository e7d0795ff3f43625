import { startServer } from '../../../core/host/server.js'

/** A server that may be killed: `rowhouse start` with the plugins that send, so that it is there soon. */
const plugin = (name: string): URL => new URL(`../../../plugins/${name}/index.js`, import.meta.url)
process.stdin.once('end', () => process.exit()).resume()
const server = await startServer({
  env: process.env,
  cwd: process.cwd(),
  overrides: { http: { port: 0, drainDelayMs: 0 }, log: { level: 'error' } },
  builtins: {
    plugins: { query: plugin('query'), notify: plugin('notify') },
    providers: { email: {}, sms: {}, storage: {} },
  },
})
process.stdout.write(`${server.url}\n`)
