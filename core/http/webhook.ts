import { serviceError } from '../errors.js'
import { isUserId, ROLE_NAME, USER_ID, VARIABLE_NAME } from '../session.js'
import type { Session } from '../session.js'
import type { WebhookConfig } from './config.js'
import { fetchJson } from './fetch-json.js'
import type { RequestHeaders } from './headers.js'
import { chosenRole, invalidToken, isVariableValue, makeSession, requestedRole } from './identity.js'
import { createOutbound, type OutboundRequest } from './outbound.js'

const MAX_BYTES = 64 * 1024

/**
 * Asks the configured service who the caller is. 200 with a JSON object of `X-Service-*` is a session, 401 is a 401.
 * @throws ServiceError 500 unexpected: any other answer, or none in time
 */
export function createWebhook(
  config: WebhookConfig,
): (headers: RequestHeaders, raw: readonly string[]) => Promise<Session> {
  const url = new URL(config.url)
  const outbound = createOutbound({ timeoutMs: config.timeoutMs, maxBytes: MAX_BYTES })
  return async (headers, raw) => {
    const { status, json } = await fetchJson(outbound, question(url, config, forwarded(raw))).catch(
      (error: unknown) => {
        throw badAnswer(error)
      },
    )
    if (status === 401) throw invalidToken()
    if (status !== 200 || typeof json !== 'object' || json === null) throw badAnswer()
    return sessionOf(json, headers)
  }
}

function question(url: URL, { method }: WebhookConfig, forward: Headers): OutboundRequest {
  const headers = Object.fromEntries(forward)
  if (method === 'GET') return { method, url, headers }
  // It judges and changes nothing.
  return {
    method,
    url,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ headers }),
    repeatable: true,
  }
}

/** What describes the message or the connection and not the caller (RFC 9110 7.6.1), and what could be mistaken. */
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

/** The caller's headers for the service to judge. Of `X-Service-*` only the wish for a role: the rest is unproven. */
function forwarded(raw: readonly string[]): Headers {
  const headers = new Headers()
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase()
    if (KEPT_BACK.has(name) || (name.startsWith('x-service-') && name !== 'x-service-role')) continue
    if (name === 'cookie' && headers.has(name)) headers.set(name, `${headers.get(name)}; ${raw[i + 1]!}`)
    else headers.append(name, raw[i + 1]!)
  }
  return headers
}

function sessionOf(answer: object, headers: RequestHeaders): Session {
  const named = new Map<string, string>()
  for (const [key, value] of Object.entries(answer)) {
    const name = key.toLowerCase()
    if (!name.startsWith('x-service-')) continue
    const text = Number.isSafeInteger(value) ? String(value) : value
    if (!VARIABLE_NAME.test(name) || typeof text !== 'string' || !isVariableValue(text)) throw badAnswer()
    named.set(name, text)
  }
  const list = named
    .get('x-service-allowed-roles')
    ?.split(',')
    .map((role) => role.trim())
  const usual = named.get('x-service-role') ?? list?.[0]
  const userId = named.get(USER_ID)
  if (usual === undefined || ![usual, ...(list ?? [])].every((role) => ROLE_NAME.test(role))) throw badAnswer()
  if (userId !== undefined && !isUserId(userId)) throw badAnswer()
  named.delete('x-service-allowed-roles')
  return makeSession(chosenRole(requestedRole(headers), list ?? [usual], usual), named, via(headers))
}

/** Cookies and passwords are sent by browsers unasked, so those callers fall under the rule for cookies. */
function via(headers: RequestHeaders): Session['via'] {
  const authorization = headers.get('authorization')
  if (authorization !== undefined) return /^bearer /i.test(authorization) ? 'webhook' : 'cookie'
  return headers.get('cookie') === undefined ? 'webhook' : 'cookie'
}

const badAnswer = (cause?: unknown) =>
  serviceError('unexpected', 'invalid response from the authorization webhook', '$', { cause })
