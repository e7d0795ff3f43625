import { Readable } from 'node:stream'
import type { Context } from 'koa'
import type { Answer } from '../data/operations.js'

/**
 * Sends what an operation answered. A stream that breaks after its first byte cannot become an error any more: the
 * socket is reset, so that a short answer never looks complete, in HTTP/1.0 neither, where the end of the connection
 * would be the end of the body.
 */
export function respond(ctx: Context, answer: Answer): void {
  ctx.status = 200
  ctx.type = answer.contentType ?? JSON_TYPE
  if (answer.kind === 'text') {
    ctx.body = answer.text
    return
  }
  const body = Readable.from(answer.chunks, { objectMode: false, highWaterMark: 128 * 1024 })
  body.on('error', () => ctx.req.socket.resetAndDestroy())
  ctx.body = body
}

const JSON_TYPE = 'application/json; charset=utf-8'
