import { parse } from 'node:querystring'
import { isPassive } from './content-type.js'

/**
 * Returns the `Content-Disposition` of a download (RFC 6266): an attachment if the query has `download`, or if a browser
 * could execute the file.
 * @param querystring of the request, without its question mark
 * @returns undefined: the browser decides by the type
 */
export function dispositionOf(querystring: string, contentType: string): string | undefined {
  const { download } = querystring === '' ? {} : parse(querystring)
  if (download !== undefined) return attachment(String(Array.isArray(download) ? download[0] : download))
  return isPassive(contentType) ? undefined : 'attachment'
}

/** @param path the file name, or a path that ends with it */
function attachment(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1)
  if (name === '') return 'attachment'
  const plain = name.replace(/[^ -~]/g, '?')
  const quoted = /^[\w.!#$&+^`|~-]+$/.test(plain) ? plain : `"${plain.replace(/["\\]/g, '\\$&')}"`
  // Some browsers decode a percent sign in `filename` as an escape.
  const whole = plain === name && !plain.includes('%')
  return `attachment; filename=${quoted}${whole ? '' : `; filename*=UTF-8''${encoded(name)}`}`
}

/** RFC 8187. */
const encoded = (name: string): string =>
  encodeURIComponent(name).replace(/['()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)
