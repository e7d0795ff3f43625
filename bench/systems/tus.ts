import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/**
 * The tus server of its authors from the packages in `PEER_FOLDER`, with their store of files in the folder `FILES`. An upload is
 * one request, by the extension creation-with-upload.
 */
process.stdin.once('end', () => process.exit()).resume()
process.once('SIGTERM', () => process.exit())

const { resolve } = createRequire(join(process.env['PEER_FOLDER'] ?? '', 'package.json'))
const load = async (name: string): Promise<unknown> => import(pathToFileURL(resolve(name)).href)
const { Server } = (await load('@tus/server')) as { Server: new (options: object) => Tus }
const { FileStore } = (await load('@tus/file-store')) as { FileStore: new (options: object) => object }

const tus = new Server({ path: '/files', datastore: new FileStore({ directory: process.env['FILES'] }) })
createServer((req, res) => void tus.handle(req, res)).listen(Number(process.env['PORT']), '127.0.0.1')

interface Tus {
  handle(req: object, res: object): Promise<unknown>
}
