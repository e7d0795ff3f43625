import { existsSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

/** `rowhouse start` as users start it, the bundle, of this build or of the one in `BUILD`. It listens on `PORT`. */
const { BUILD: other, PORT } = process.env
const build = other === undefined ? new URL('../../', import.meta.url) : pathToFileURL(`${other}/`)
process.stdin.once('end', () => process.exit()).resume()
process.env['ROWHOUSE_PORT'] = PORT
process.argv.splice(2, Infinity, 'start')
const bundle = new URL('../dist/core/cli.js', build)
// Commits before there was a bundle.
await import((existsSync(bundle) ? bundle : new URL('core/cli.js', build)).href)
