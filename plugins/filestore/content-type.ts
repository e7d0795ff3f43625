import { badRequest, missingHeader } from './errors.js'

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
const TYPE = new RegExp(
  `^${TOKEN}/${TOKEN}(?:[ \\t]*;[ \\t]*${TOKEN}=(?:${TOKEN}|"(?:[^"\\\\\\x00-\\x1f\\x7f-\\uffff]|\\\\[ -~])*"))*[ \\t]*;?$`,
)
const MAX = 255

/**
 * Reads the media type of an upload (RFC 9110 section 8.3.1), which every download sends back.
 * @throws ServiceError 400 when it is missing, or not valid in a header
 */
export function readContentType(header: string | undefined): string {
  const type = header?.trim()
  if (type === undefined || type === '') throw missingHeader('Content-Type')
  if (type.length > MAX || !TYPE.test(type)) throw badRequest('Content-Type is not a media type')
  return type.replaceAll('\t', ' ')
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

export const isPassive = (contentType: string): boolean =>
  PASSIVE.has((contentType.split(';', 1)[0] as string).trim().toLowerCase())
