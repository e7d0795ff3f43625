import type { Answer, ServiceError, Session } from 'rowhouse'
import type { Dialect } from './plan/exposed.js'
import { InvalidDocument } from './execute.js'
import type { Failure } from './plan/prepare.js'

/** What a request came to: a status, and the body as text. */
export interface Outcome {
  readonly status: number
  readonly body: string
  /** Nothing of it could be read as a GraphQL request. */
  readonly unread?: boolean
}

export const ok = (data: string): Outcome => ({ status: 200, body: `{"data":${data}}` })

/**
 * Errors as the dialect has them. A fault of ours keeps its words for the log.
 * @param prefix where the request stands in the body: `$`, or `$[2]` in a batch
 */
export function failed(error: ServiceError, dialect: Dialect, session: Session | undefined, prefix: string): Outcome {
  const internal = error.internal !== undefined && session?.role === 'admin' ? { internal: error.internal } : {}
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
export const asAnswer = (body: string, type: string, status: number): Answer => ({
  kind: 'text',
  text: body,
  contentType: `${type}; charset=utf-8`,
  status,
})
