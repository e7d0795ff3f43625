import { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { Context } from 'koa'
import type { Answer, AnswerFormat } from '../answer.js'
import type { Exchange } from './exchange.js'
import { AFTER_VERSION, sha256 } from '../request-headers.js'

export const JSON_TYPE = 'application/json; charset=utf-8'

/**
 * Sends the response of an operation while it is produced. A failing stream resets the connection: see
 * `error-answer.ts`.
 */
export function respond(ctx: Context, answer: Answer): void {
  ctx.status = answer.status ?? 200
  ctx.set('Content-Type', answer.contentType ?? JSON_TYPE)
  if (ctx.state.timing?.hasSteps) ctx.set('Server-Timing', String(ctx.state.timing))
  if (answer.kind === 'text') ctx.body = answer.text
  else if (answer.kind === 'bytes') ctx.body = answer.bytes
  else {
    const { chunks, sent, length } = answer
    ctx.body = chunks instanceof Readable ? chunks : bodyOf(chunks, ctx, sent)
    if (length !== undefined) ctx.length = length
  }
}

/**
 * @param sent called with chunks that have been sent and that no other code can hold; omitted when a middleware wraps
 *   or reads the body
 */
function bodyOf(chunks: AsyncIterable<Buffer>, { res, state }: Context, sent?: (chunk: Buffer) => void): Readable {
  const source = withEnd(chunks, () => {
    state.held.follow(res, state, body.readableLength + res.writableLength)
  })
  const body = Readable.from(source, { objectMode: false, highWaterMark: 128 * 1024 })
  if (!sent) return body
  const { pipe } = body
  body.pipe = (to, options) => {
    const isDirect = to.write === ServerResponse.prototype.write && options?.end === false
    if (!isDirect || isTouched(body)) return pipe.call(body, to, options) as typeof to
    let shared = false
    body.on('data', (chunk: Buffer) => {
      const isTaken = to.write(chunk, (error) => {
        if (!error && !shared) sent(chunk)
      })
      if (!isTaken) body.pause()
    })
    body.on('newListener', (event) => {
      shared ||= event === 'data' || event === 'readable'
    })
    to.on('drain', () => body.resume())
    return to
  }
  return body
}

/** @param ended called when the source has ended; the last chunk may still wait for the client */
async function* withEnd(chunks: AsyncIterable<Buffer>, ended: () => void): AsyncGenerator<Buffer, void, undefined> {
  yield* chunks
  ended()
}

const isTouched = (body: Readable): boolean =>
  body.readableDidRead ||
  body.readableFlowing !== null ||
  body.listenerCount('data') > 0 ||
  body.listenerCount('readable') > 0

/** Returns the response format that the client prefers: JSON unless it prefers one of the other two. */
export function wantedFormat(ctx: Pick<Exchange, 'accepts'>): AnswerFormat {
  const best = ctx.accepts('application/json', 'application/x-ndjson', 'text/csv')
  return best === 'application/x-ndjson' ? 'ndjson' : best === 'text/csv' ? 'csv' : 'json'
}

/**
 * Adds the version of the row that an answer has as an `ETag`. That of a GET or HEAD also has a hash of the answer, which may change
 * when the row does not: with related rows, permissions, or the template. A GET or HEAD whose `If-None-Match` lists it gets 304.
 */
export function tagged(exchange: Exchange, answer: Answer): Answer {
  if (answer.version === undefined || answer.kind === 'stream') return answer
  const isRead = exchange.method === 'GET' || exchange.method === 'HEAD'
  const tag = `"${encoded(answer.version)}${isRead ? AFTER_VERSION + hashOf(answer) : ''}"`
  if (tag.length > MAX_TAG) return answer
  exchange.set('ETag', tag)
  const isKnown = isRead && listsTag(exchange.get('If-None-Match'), tag, true)
  return isKnown ? { kind: 'text', text: '', status: 304 } : answer
}

/** Maximum length of an ETag. Proxies limit the length of headers. */
const MAX_TAG = 1024
const hashOf = (answer: Exclude<Answer, { readonly kind: 'stream' }>): string =>
  sha256(answer.kind === 'text' ? answer.text : answer.bytes).toString('base64url')

/** Characters other than those that an ETag can hold (RFC 9110 section 8.8.3), `%`, which begins an encoded one, and `;`. */
const UNUSUAL = /[^!#$&-:<-~]+/g
const encoded = (version: string): string => version.replaceAll(UNUSUAL, (part) => encodeURIComponent(part))

/**
 * Returns whether the value of `If-Match` or `If-None-Match` lists an ETag.
 * @param weak whether `W/"a"` equals `"a"`
 */
export function listsTag(header: string, etag: string, weak = false): boolean {
  if (header.trim() === '*') return true
  const tags = header.match(/(?:W\/)?"[^"]*"/g) ?? []
  return tags.some((tag) => (weak ? tag.replace(/^W\//, '') : tag) === etag)
}
