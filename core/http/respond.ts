import { Readable } from 'node:stream'
import type { Context } from 'koa'
import type { Answer } from '../data/operations.js'

/** Sends what an operation answered, as it comes. A stream that breaks resets the connection: see `error-answer.ts`. */
export function respond(ctx: Context, answer: Answer): void {
  ctx.status = 200
  ctx.type = answer.contentType ?? 'application/json; charset=utf-8'
  ctx.body =
    answer.kind === 'text'
      ? answer.text
      : Readable.from(answer.chunks, { objectMode: false, highWaterMark: 128 * 1024 })
}
