import { parse } from 'node:querystring'
import { badRequest, missingHeader } from './errors.js'

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
const QUOTED = String.raw`"(?:[^"\\\x00-\x08\x0a-\x1f\x7f-\uffff]|\\[\t -~])*"`
const PARAMETER = `${TOKEN}=(?:${TOKEN}|${QUOTED})`
/** With empty parameters, as in `a/b;;c=d;`. */
const TYPE = new RegExp(`^${TOKEN}/${TOKEN}(?:[ \\t]*;(?:[ \\t]*${PARAMETER})?)*[ \\t]*$`)
const PARAMETERS = new RegExp(`;[ \\t]*(${PARAMETER})`, 'g')
const MAX_LENGTH = 255

/**
 * Reads the media type of an upload (RFC 9110 section 8.3.1). Downloads send it back.
 * @returns the type as sent, each tab as a blank
 * @throws ServiceError 400 when it is missing or invalid
 */
export function readContentType(header: string | undefined): string {
  const type = header?.trim()
  if (type === undefined || type === '') throw missingHeader('Content-Type')
  if (type.length > MAX_LENGTH || !TYPE.test(type)) throw badRequest('Content-Type is not a media type')
  return type.replaceAll('\t', ' ')
}

/** Returns a media type without its parameters, in lower case. */
export const essenceOf = (contentType: string): string => (contentType.split(';', 1)[0] as string).trim().toLowerCase()

/** Leaves out empty parameters, which not every parser knows. @param contentType a valid one */
export const withoutEmptyParameters = (contentType: string): string =>
  [essenceOf(contentType), ...Array.from(contentType.matchAll(PARAMETERS), ([, parameter]) => parameter)].join('; ')

/**
 * Returns the `Content-Disposition` of a download (RFC 6266): an attachment if the query has `download`, or if a browser
 * could execute the file.
 * @param querystring of the request, without its question mark
 * @returns undefined to let the browser decide by the type
 */
export function dispositionOf(querystring: string, contentType: string): string | undefined {
  const { download } = querystring === '' ? {} : parse(querystring)
  if (download !== undefined) return attachment(String(Array.isArray(download) ? download[0] : download))
  return PASSIVE.has(essenceOf(contentType)) ? undefined : 'attachment'
}

/** Types that a browser displays and never executes. */
const PASSIVE = new Set([
  'image/png',
  'image/jpeg',
  'image/gif',
  'image/webp',
  'image/avif',
  'video/mp4',
  'video/webm',
  'audio/mpeg',
  'audio/ogg',
  'text/plain',
])

/** @param path the file name, or a path that ends with it */
function attachment(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1)
  if (name === '') return 'attachment'
  const plain = name.replace(/[^ -~]/g, '?')
  const quoted = /^[\w.!#$&+^`|~-]+$/.test(plain) ? plain : `"${plain.replace(/["\\]/g, '\\$&')}"`
  // Some browsers decode a percent sign in `filename` as an escape.
  const complete = plain === name && !plain.includes('%')
  return `attachment; filename=${quoted}${complete ? '' : `; filename*=UTF-8''${encoded(name)}`}`
}

/** Encodes a header parameter (RFC 8187). */
const encoded = (name: string): string =>
  encodeURIComponent(name).replace(/['()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)
