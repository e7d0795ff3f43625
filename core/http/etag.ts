import type { Answer, RowVersion } from '../answer.js'
import type { Exchange } from './exchange.js'

/** Adds the version of the row that an answer has as an `ETag`. A GET whose `If-None-Match` lists it gets 304. */
export function tagged(exchange: Exchange, answer: Answer): Answer {
  const tag = answer.version && etagOf(answer.version)
  if (tag === undefined || tag.length > MAX_TAG) return answer
  exchange.set('ETag', tag)
  const isKnown =
    exchange.method === 'GET' && answer.version?.isWhole && listsTag(exchange.get('If-None-Match'), tag, true)
  return isKnown ? { kind: 'text', text: '', status: 304 } : answer
}

/** Maximum length of an ETag. Proxies limit the length of headers. */
const MAX_TAG = 1024

/** Characters other than those that an ETag can hold (RFC 9110 section 8.8.3), and `%`, which begins an encoded one. */
const UNUSUAL = /[^!#$&-~]+/g
const etagOf = ({ text }: RowVersion): string => `"${text.replaceAll(UNUSUAL, (part) => encodeURIComponent(part))}"`

/**
 * Returns whether the value of `If-Match` or `If-None-Match` lists an ETag.
 * @param weak whether `W/"a"` equals `"a"`
 */
export function listsTag(header: string, etag: string, weak = false): boolean {
  if (header.trim() === '*') return true
  const tags = header.match(/(?:W\/)?"[^"]*"/g) ?? []
  return tags.some((tag) => (weak ? tag.replace(/^W\//, '') : tag) === etag)
}
