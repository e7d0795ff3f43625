import type { Context } from 'koa'
import type { StoredFile } from './files.js'

/**
 * What the conditions of a GET or HEAD say of a file (RFC 9110 section 13.2.2): send it, it is the one that the client
 * has (304), or it is not the one that it wants (412).
 */
export function readCondition(ctx: Context, { etag, updatedAt }: StoredFile): 200 | 304 | 412 {
  const match = ctx.get('If-Match')
  if (match !== '' && !lists(match, etag)) return 412
  if (match === '' && isLater(updatedAt, ctx.get('If-Unmodified-Since'))) return 412
  const noneMatch = ctx.get('If-None-Match')
  if (noneMatch !== '') return lists(noneMatch, etag, true) ? 304 : 200
  const since = Date.parse(ctx.get('If-Modified-Since'))
  return Number.isNaN(since) || seconds(updatedAt) > since / 1000 ? 200 : 304
}

/** Whether a range may be sent: the client has a part of this very version, or does not say of which. */
export function mayContinue(ctx: Context, { etag, updatedAt }: StoredFile): boolean {
  const version = ctx.get('If-Range')
  if (version === '') return true
  if (/^(?:W\/)?"/.test(version)) return version === etag
  return Date.parse(version) / 1000 === seconds(updatedAt)
}

/** @param weak whether `W/"a"` is `"a"` */
function lists(header: string, etag: string, weak = false): boolean {
  if (header.trim() === '*') return true
  const tags = header.match(/(?:W\/)?"[^"]*"/g) ?? []
  return tags.some((tag) => (weak ? tag.replace(/^W\//, '') : tag) === etag)
}

const seconds = (date: Date): number => Math.floor(date.getTime() / 1000)

function isLater(updatedAt: Date, header: string): boolean {
  const limit = Date.parse(header)
  return !Number.isNaN(limit) && seconds(updatedAt) > limit / 1000
}
