import type { Answer } from '../answer.js'
import { AFTER_VERSION, sha256 } from '../request-headers.js'
import type { Exchange } from './exchange.js'

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
