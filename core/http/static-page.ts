import { createHash, randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import { promisify } from 'node:util'
import { brotliDecompress, gzip } from 'node:zlib'
import type Router from '@koa/router'
import type { Context } from 'koa'
import { serviceError } from '../errors.js'
import { listsTag } from './respond.js'

export interface StaticPage {
  /**
   * HTML that refers to its assets below `assets`. Each of its scripts gets a nonce. A function gets the nonce to set it
   * itself, also for inline style sheets.
   */
  readonly html: string | ((nonce: string) => string)
  /** Path of the assets, e.g. `/v1/graphql/assets`. */
  readonly assets: string
  /**
   * Files by name, or their text. Names that contain a hash of the content, as in `main-AB12CD34.js`, never change. A
   * file that ends in `.br` is stored compressed with Brotli.
   */
  readonly files: Readonly<Record<string, URL | string>>
}

const TYPES: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
}
/**
 * Allows the page's own scripts and what they import, other resources from this server only, and frames from this server
 * only. Stored files are on this server too, so their scripts do not run.
 * @param styles source of inline styles: the nonce, or `'unsafe-inline'`, which third-party pages need
 */
const policy = (nonce: string, styles: string) =>
  `default-src 'none'; script-src 'nonce-${nonce}' 'strict-dynamic'; style-src 'self' ${styles}; img-src 'self' data: blob:; media-src 'self' blob:; font-src 'self' data:; connect-src 'self'; frame-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'`

interface Asset {
  readonly body: Buffer
  readonly zipped: Buffer
  /** Hash of the body. */
  readonly hash: string
}

/** Serves a page that needs no other server. Its assets are read and compressed once, on first use. */
export function staticPage(router: Router, { html, assets, files }: StaticPage): (ctx: Context) => void {
  const read = new Map<string, Promise<Asset>>()
  const load = async (file: URL | string): Promise<Asset> => {
    const body = typeof file === 'string' ? Buffer.from(file) : await readStored(file)
    const hash = createHash('sha256').update(body).digest('base64url').slice(0, 22)
    return { body, zipped: await promisify(gzip)(body), hash }
  }
  router.get(`${assets}/:name`, async (ctx) => {
    const name = ctx.params['name'] as string
    const file = Object.hasOwn(files, name) ? files[name] : undefined
    if (file === undefined) throw serviceError('not-found', 'there is no such asset')
    let loading = read.get(name)
    if (!loading) {
      read.set(name, (loading = load(file)))
      loading.catch(() => read.delete(name))
    }
    const { body, zipped, hash } = await loading
    const isZipped = ctx.acceptsEncodings('gzip', 'identity') === 'gzip'
    // Each representation has its own tag (RFC 9110 8.8.3.3).
    const tag = `"${hash}${isZipped ? '-gzip' : ''}"`
    const match = ctx.get('If-Match')
    if (match !== '' && !listsTag(match, tag))
      throw serviceError('precondition-failed', 'the asset has another version')
    ctx.set('ETag', tag)
    ctx.set('Cache-Control', HASHED.test(name) ? 'public, max-age=31536000, immutable' : 'no-cache')
    ctx.set('X-Content-Type-Options', 'nosniff')
    ctx.type = TYPES[extname(name)] ?? 'application/octet-stream'
    ctx.vary('Accept-Encoding')
    if (listsTag(ctx.get('If-None-Match'), tag, true)) {
      ctx.status = 304
      return
    }
    if (isZipped) {
      ctx.set('Content-Encoding', 'gzip')
      ctx.body = zipped
    } else ctx.body = body
  })
  return (ctx) => {
    const nonce = randomBytes(16).toString('base64')
    const isPlain = typeof html === 'string'
    ctx.set('Content-Security-Policy', policy(nonce, isPlain ? "'unsafe-inline'" : `'nonce-${nonce}'`))
    ctx.set('Cache-Control', 'no-cache')
    ctx.set('X-Content-Type-Options', 'nosniff')
    ctx.type = 'html'
    ctx.body = isPlain ? html.replaceAll(/<script\b/g, `<script nonce="${nonce}"`) : html(nonce)
  }
}

async function readStored(file: URL): Promise<Buffer> {
  const stored = await readFile(file)
  return file.pathname.endsWith('.br') ? promisify(brotliDecompress)(stored) : stored
}

const HASHED = /-[A-Z0-9]{8}\.\w+$/
