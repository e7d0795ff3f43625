import type { IncomingMessage } from 'node:http'
import { serviceError } from '../errors.js'
import { ownName } from './identity.js'

/**
 * Headers that a client sends in its first message over an upgraded connection. Browsers let no page set the headers of a
 * WebSocket.
 */
export type LaterHeaders = Readonly<Record<string, unknown>>

/** Returns whether a header is one of `X-Service-*`. @param name in lower case */
export const isService = (name: string, hasura: boolean): boolean => ownName(name, hasura).startsWith('x-service-')

const MAX = 100

/**
 * Adds to the headers of a request the credentials among later ones. If the request has any credentials but cookies, it keeps
 * its own: a gateway or proxy proves its headers with a secret that stands beside them, and the later ones come past it.
 * @param isCredential tells from the name, in lower case
 * @throws ServiceError 400 parse-failed
 */
export function joined(
  { rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>,
  later: LaterHeaders,
  isCredential: (name: string) => boolean,
): string[] {
  if (rawHeaders.some((name, i) => i % 2 === 0 && isCredential(name.toLowerCase()))) return rawHeaders
  const all = Object.entries(later).map(([name, value]) => [name.toLowerCase(), value] as const)
  const given = all.filter(([name, value]) => isCredential(name) && value !== null && value !== undefined)
  if (given.length > MAX) throw serviceError('too-many-headers', `more than ${MAX} headers`, '$.payload.headers')
  return [...rawHeaders, ...given.flatMap(([name, value]) => [name, textOf(name, value)])]
}

function textOf(name: string, value: unknown): string {
  const text = typeof value === 'number' || typeof value === 'boolean' ? String(value) : value
  if (typeof text === 'string' && /^[\t -~\x80-\xff]*$/.test(text)) return text
  throw serviceError('parse-failed', `header "${name}" has a value that no header can have`, '$.payload.headers')
}
