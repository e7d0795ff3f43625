import { parse } from 'node:querystring'
import { isPassive } from './content-type.js'

/**
 * How a browser is to show a file (RFC 6266): saved where the query asks for it by `download`, or where the browser could
 * run it.
 * @param querystring of the request, without its question mark
 * @returns the header; undefined: as its type says
 */
export function dispositionOf(querystring: string, contentType: string): string | undefined {
  const { download } = querystring === '' ? {} : parse(querystring)
  if (download !== undefined) return attachment(String(Array.isArray(download) ? download[0] : download))
  return isPassive(contentType) ? undefined : 'attachment'
}

/** @param path what the file is to be called, or a path that ends with that */
function attachment(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1)
  if (name === '') return 'attachment'
  const plain = name.replace(/[^ -~]/g, '?')
  const quoted = /^[\w.!#$&+^`|~-]+$/.test(plain) ? plain : `"${plain.replace(/["\\]/g, '\\$&')}"`
  // A percent sign would be taken for a part of an escape.
  const whole = plain === name && !plain.includes('%')
  return `attachment; filename=${quoted}${whole ? '' : `; filename*=UTF-8''${encoded(name)}`}`
}

/** RFC 8187. */
const encoded = (name: string): string =>
  encodeURIComponent(name).replace(/['()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)
