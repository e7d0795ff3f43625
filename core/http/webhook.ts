import { serviceError } from '../errors.js'
import type { Session } from '../session.js'
import { ALLOWED_ROLES, isRole, readClaims, rolesIn, rolesOf, variablesOf } from './claims.js'
import type { WebhookConfig } from './config.js'
import { fetchJson, createOutbound, type OutboundRequest } from './outbound.js'
import { type RequestHeaders, chosenRole, invalidToken, makeSession, ownName, requestedRole } from './identity.js'

const MAX_BYTES = 64 * 1024

/**
 * Authenticates requests with the configured service. It returns 200 with a JSON object of `X-Service-*` values, or
 * 401.
 * @param hasura whether `X-Hasura-*` means `X-Service-*`
 * @throws ServiceError 500 unexpected: any other response, or a timeout
 */
export function createWebhook(
  config: WebhookConfig,
  hasura: boolean,
): (headers: RequestHeaders, raw: readonly string[]) => Promise<Session> {
  const url = new URL(config.url)
  const outbound = createOutbound({
    timeoutMs: config.timeoutMs,
    maxBytes: MAX_BYTES,
    purpose: 'authorization webhook',
  })
  return async (headers, raw) => {
    const { status, json } = await fetchJson(outbound, question(url, config, forwarded(raw, hasura))).catch(
      (error: unknown) => {
        throw badAnswer(error)
      },
    )
    if (status === 401) throw invalidToken(new Error('the authorization webhook refused the credentials'))
    if (status !== 200 || typeof json !== 'object' || json === null) throw badAnswer()
    return sessionOf(json, headers, hasura)
  }
}

function question(url: URL, { method }: WebhookConfig, forward: Headers): OutboundRequest {
  const headers = Object.fromEntries(forward)
  if (method === 'GET') return { method, url, headers }
  // The service only judges the request, so it is safe to retry.
  return {
    method,
    url,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ headers }),
    repeatable: true,
  }
}

/**
 * Headers not to forward: they describe the message or connection, not the caller (RFC 9110 7.6.1), or are ambiguous.
 */
const KEPT_BACK = new Set([
  'accept-encoding',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'origin',
  'proxy-authorization',
  'proxy-connection',
  'referer',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'user-agent',
])

/**
 * Returns the caller's headers for the service. Of `X-Service-*` only the requested role, because the rest is
 * unverified.
 */
function forwarded(raw: readonly string[], hasura: boolean): Headers {
  const headers = new Headers()
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase()
    const own = ownName(name, hasura)
    if (KEPT_BACK.has(name) || (own.startsWith('x-service-') && own !== 'x-service-role')) continue
    if (name === 'cookie' && headers.has(name)) headers.set(name, `${headers.get(name)}; ${raw[i + 1]!}`)
    else headers.append(name, raw[i + 1]!)
  }
  return headers
}

function sessionOf(answer: object, headers: RequestHeaders, hasura: boolean): Session {
  const { list, named, variables } = read(answer, hasura)
  const held = typeof list === 'string' ? rolesIn(list) : list && rolesOf(list)
  if (held?.length === 0) throw invalidToken(new Error('the authorization webhook allows no role'))
  const usual = isRole(named) ? named : held?.[0]
  if (usual === undefined) throw badAnswer(new Error('the answer names no role'))
  const session = makeSession(chosenRole(requestedRole(headers), held ?? [usual], usual), variables, via(headers))
  return Object.freeze({ ...session, ...(held && { roles: held }) })
}

function read(answer: object, hasura: boolean) {
  try {
    const claims = readClaims(answer, hasura)
    const list = claims.get(ALLOWED_ROLES) ?? undefined
    if (list !== undefined && typeof list !== 'string' && !Array.isArray(list))
      throw new Error(`the value of "${ALLOWED_ROLES}" is not a list of roles`)
    return {
      list: list as string | readonly unknown[] | undefined,
      named: claims.get('x-service-role'),
      variables: variablesOf(claims),
    }
  } catch (error) {
    throw badAnswer(error)
  }
}

/** Browsers send cookies and passwords automatically, so these callers are subject to the cookie rules. */
function via(headers: RequestHeaders): Session['via'] {
  const authorization = headers.get('authorization')
  if (authorization !== undefined) return /^bearer /i.test(authorization) ? 'webhook' : 'cookie'
  return headers.get('cookie') === undefined ? 'webhook' : 'cookie'
}

const badAnswer = (cause?: unknown) =>
  serviceError('unexpected', 'invalid response from the authorization webhook', '$', { cause })
