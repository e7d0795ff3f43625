import { ADMIN_LIMITS, decodeUtf8, DEFAULT_LIMITS, type Json, parseJson } from '../json/parse.js'
import { timed } from '../timing.js'
import { readBody } from './body.js'
import { assertSameOrigin, requireJson } from './csrf.js'
import { isAdmin } from '../session.js'
import type { Exchange } from './exchange.js'

export interface JsonReading {
  /** Selects the arrays of rows to insert. They are checked but not parsed. */
  readonly isRows?: (path: readonly (string | number)[]) => boolean
  /** Allows the role admin `http.maxAdminJsonBytes`, for routes that take whole metadata or rows. */
  readonly largeForAdmin?: boolean
  /** Value of an empty body. Without it, an empty body is invalid JSON. */
  readonly empty?: Json
}

/**
 * Reads the JSON body of a request that may change something. Enforces the configured limits and same-origin.
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
