import { type Answer, isAdmin, type ServiceError, type Session } from 'rowhouse'
import type { Dialect } from './plan/names.js'
import { InvalidDocument } from './execute.js'
import type { Failure } from './plan/prepare.js'

/** What a request came to: a status, and the body as text, in chunks when it is long. */
export interface Outcome {
  readonly status: number
  readonly body: string | AsyncIterable<Buffer>
  /** Nothing of it could be read as a GraphQL request. */
  readonly unread?: boolean
}

export const ok = (data: string | AsyncIterable<Buffer>): Outcome => ({
  status: 200,
  body: typeof data === 'string' ? `{"data":${data}}` : around(data),
})

async function* around(data: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, undefined> {
  yield Buffer.from('{"data":')
  yield* data
  yield Buffer.from('}')
}

/**
 * Errors as the dialect has them. A fault of ours keeps its words for the log.
 * @param prefix where the request stands in the body: `$`, or `$[2]` in a batch
 */
export function failed(error: ServiceError, dialect: Dialect, session: Session | undefined, prefix: string): Outcome {
  const internal = error.internal !== undefined && session && isAdmin(session) ? { internal: error.internal } : {}
  const errors = failuresOf(error).map(({ message, path: below, code, locations }) => {
    const path = prefix + below.slice(1)
    const places = locations.length > 0 ? { locations } : {}
    return dialect === 'alpha'
      ? { path, error: message, code, message, ...places, ...internal, extensions: { path, code } }
      : { message, ...places, extensions: { path, code, ...internal } }
  })
  return { status: error.status, body: JSON.stringify({ errors }) }
}

function failuresOf(error: ServiceError): readonly Failure[] {
  if (error instanceof InvalidDocument) return error.failures
  const { code, message, path } = error
  return [{ code, message, path, locations: [] }]
}

/** @param type without its charset */
export function asAnswer(body: Outcome['body'], type: string, status: number): Answer {
  const contentType = `${type}; charset=utf-8`
  return typeof body === 'string'
    ? { kind: 'text', text: body, contentType, status }
    : { kind: 'stream', chunks: body, contentType, status }
}
