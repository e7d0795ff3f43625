import { ADMIN_LIMITS, decodeUtf8, DEFAULT_LIMITS, type Json, parseJson } from '../json/parse.js'
import { timed } from '../timing.js'
import { readBody } from './body.js'
import { assertSameOrigin, requireJson } from './csrf.js'
import { isAdmin } from '../session.js'
import type { Exchange } from './exchange.js'

export interface JsonReading {
  /** Says which arrays are rows to insert, which are checked but not taken apart. */
  readonly isRows?: (path: readonly (string | number)[]) => boolean
  /** Lets the role admin send `http.maxAdminJsonBytes`: for a route that takes metadata or rows as a whole. */
  readonly largeForAdmin?: boolean
  /** What an empty body stands for; without it, it is no JSON. */
  readonly empty?: Json
}

/**
 * Reads the JSON body of a request that may change something: within the limits of the configuration, and not on behalf
 * of another site.
 * @throws ServiceError 400, 403, 408, 413, 415
 */
export async function readJson(
  ctx: Omit<Exchange, 'params'>,
  { isRows, largeForAdmin, empty }: JsonReading = {},
): Promise<Json> {
  const { session, limits, held, timing } = ctx.state
  requireJson(ctx, session)
  assertSameOrigin(ctx, session)
  const large = largeForAdmin === true && isAdmin(session)
  const body = await readBody(ctx.req, {
    maxBytes: large ? limits.maxAdminJsonBytes : limits.maxJsonBytes,
    setting: large ? 'http.maxAdminJsonBytes' : 'http.maxJsonBytes',
    timeoutMs: limits.jsonTimeoutMs,
    hold: (bytes, size) => held.receive(session, bytes, size),
  })
  if (body.length === 0 && empty !== undefined) return empty
  return timed(timing, 'parse', () => parseJson(decodeUtf8(body), large ? ADMIN_LIMITS : DEFAULT_LIMITS, isRows))
}
