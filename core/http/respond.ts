import { Readable } from 'node:stream'
import type { Context } from 'koa'
import type { Answer, Call } from '../data/operations.js'

/** Sends what an operation answered, as it comes. A stream that breaks resets the connection: see `error-answer.ts`. */
export function respond(ctx: Context, answer: Answer): void {
  ctx.status = 200
  ctx.type = answer.contentType ?? 'application/json; charset=utf-8'
  ctx.body =
    answer.kind === 'text'
      ? answer.text
      : Readable.from(answer.chunks, { objectMode: false, highWaterMark: 128 * 1024 })
}

/** The form of answer that a client asks for first; JSON unless it is one of the other two. */
export function wantedFormat(ctx: Context): Call['format'] {
  const first = ctx.get('Accept').split(',')[0]?.split(';')[0]?.trim().toLowerCase()
  if (first === 'application/x-ndjson') return 'ndjson'
  return first === 'text/csv' ? 'csv' : 'json'
}
