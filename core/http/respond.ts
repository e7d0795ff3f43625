import { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { Context } from 'koa'
import type { Answer, Call } from '../data/operations.js'
import type { Exchange } from './exchange.js'

export const JSON_TYPE = 'application/json; charset=utf-8'

/** Sends what an operation answered, as it comes. A stream that breaks resets the connection: see `error-answer.ts`. */
export function respond(ctx: Context, answer: Answer): void {
  ctx.status = answer.status ?? 200
  ctx.set('Content-Type', answer.contentType ?? JSON_TYPE)
  if (answer.kind === 'text') ctx.body = answer.text
  else if (answer.kind === 'bytes') ctx.body = answer.bytes
  else {
    const { chunks, sent, length } = answer
    ctx.body = chunks instanceof Readable ? chunks : bodyOf(chunks, sent)
    if (length !== undefined) ctx.length = length
  }
}

/** @param sent is told of the chunks that the client has been sent, where they go straight there */
function bodyOf(chunks: AsyncIterable<Buffer>, sent?: (chunk: Buffer) => void): Readable {
  const body = Readable.from(chunks, { objectMode: false, highWaterMark: 128 * 1024 })
  if (!sent) return body
  const { pipe } = body
  // A middleware that looks at the body, or puts something between, may keep chunks.
  body.pipe = (to, options) => {
    if (to.write !== ServerResponse.prototype.write) return pipe.call(body, to, options) as typeof to
    if (options?.end !== false) body.once('end', () => to.end())
    to.on('drain', () => body.resume())
    body.on('data', (chunk: Buffer) => {
      const free = body.listenerCount('data') === 1 ? () => sent(chunk) : () => {}
      if (!to.write(chunk, (error) => error ?? free())) body.pause()
    })
    return to
  }
  return body
}

/** The form of answer that a client likes best; JSON unless it is one of the other two. */
export function wantedFormat(ctx: Pick<Exchange, 'accepts'>): Call['format'] {
  const best = ctx.accepts('application/json', 'application/x-ndjson', 'text/csv')
  return best === 'application/x-ndjson' ? 'ndjson' : best === 'text/csv' ? 'csv' : 'json'
}
