import type { Context } from 'koa'
import { decodeUtf8, type Json, parseJson } from '../json/parse.js'
import { readBody } from './body.js'
import { assertSameOrigin, requireJson } from './csrf.js'

/**
 * Reads the JSON body of a request that may change something: within the limits of the configuration, and not on behalf
 * of another site.
 * @param isRows says which arrays are rows to insert, which are checked but not taken apart
 * @param empty what an empty body stands for; without it, it is no JSON
 * @throws ServiceError 400, 403, 408, 413, 415
 */
export async function readJson(
  ctx: Context,
  isRows?: (path: readonly (string | number)[]) => boolean,
  empty?: Json,
): Promise<Json> {
  const { session, limits, signal } = ctx.state
  requireJson(ctx, session)
  assertSameOrigin(ctx, session)
  const admin = session.role === 'admin'
  const body = await readBody(ctx.req, {
    maxBytes: admin ? limits.maxAdminJsonBytes : limits.maxJsonBytes,
    setting: admin ? 'http.maxAdminJsonBytes' : 'http.maxJsonBytes',
    timeoutMs: limits.jsonTimeoutMs,
    signal,
  })
  if (body.length === 0 && empty !== undefined) return empty
  return parseJson(decodeUtf8(body), undefined, isRows)
}
