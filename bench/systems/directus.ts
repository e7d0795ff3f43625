import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** Directus from the packages in `PEER_FOLDER`, which reads the rest of its configuration from the environment. */
process.stdin.once('end', () => process.exit()).resume()
process.once('SIGTERM', () => process.exit())

const { resolve } = createRequire(join(process.env['PEER_FOLDER'] ?? '', 'package.json'))
const api = createRequire(resolve('directus/package.json')).resolve('@directus/api/server')
const { startServer } = (await import(pathToFileURL(api).href)) as { startServer: () => Promise<void> }
await startServer()
