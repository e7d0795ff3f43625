import { signal } from '@preact/signals'
import { type Json, type JsonObject, parse, textAt } from './json.js'
import { type Acting, acting, callerHeaders, readSession } from './session.js'

/** Why a request failed, as the server says. */
export class Failure extends Error {
  readonly status: number
  readonly code: string
  /** Place in the request, e.g. `$.args.where.id`. */
  readonly path: string
  /** For an admin who acts as another role: why, as `explain_permission` says. */
  readonly internal: Json | undefined
  /** The whole answer. */
  readonly body: JsonObject

  constructor(status: number, body: JsonObject) {
    super(textAt(body, 'error') ?? textAt(body, 'message') ?? `the server answered ${status}`)
    this.status = status
    this.code = textAt(body, 'code') ?? ''
    this.path = textAt(body, 'path') ?? '$'
    this.internal = body['internal']
    this.body = body
  }
}

/** Why requests cannot succeed now; empty when they can. */
export const trouble = signal('')

export interface Asking {
  readonly signal?: AbortSignal | undefined
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly body?: BodyInit
  /** The caller to ask as; `null` for the one who signed in. Defaults to the one whom the admin acts as. */
  readonly as?: Acting | null
  /** Statuses that are no failure, beside 2xx. */
  readonly answers?: readonly number[]
}

const POSITION = 'Rowhouse-Position'
/** Position of the last write, which later reads must see, even if a standby answers them. */
let position = ''

/**
 * Sends a request to this server.
 * @throws Failure
 */
export async function send(path: string, { as, headers, answers, ...rest }: Asking = {}): Promise<Response> {
  const caller = callerHeaders(as === undefined ? acting.value : as)
  const after: Record<string, string> = position === '' ? {} : { [POSITION]: position }
  let response: Response
  try {
    response = await fetch(path, { ...rest, headers: { ...caller, ...after, ...headers } })
  } catch (error) {
    if (rest.signal?.aborted) throw error
    lost('The server does not answer.')
    throw new Failure(0, { error: 'the server does not answer', code: 'no-answer' })
  }
  position = response.headers.get(POSITION) ?? position
  if (response.ok || answers?.includes(response.status)) return response
  const failure = new Failure(response.status, await bodyOf(response))
  if (response.status === 503) lost(`The database is unavailable: ${failure.message}.`)
  if (response.status === 401 || (response.status === 403 && failure.code === 'access-denied'))
    readSession().catch(() => {})
  throw failure
}

/** Sends a request and parses the answer. */
export async function ask<T = Json>(path: string, asking: Asking & { readonly json?: unknown } = {}): Promise<T> {
  const { json, ...rest } = asking
  const body = json === undefined ? {} : { method: 'POST', body: JSON.stringify(json), headers: JSON_TYPE }
  const response = await send(path, { ...body, ...rest, headers: { ...body.headers, ...rest.headers } })
  const text = await response.text()
  return (text === '' ? null : parse(text)) as T
}

const JSON_TYPE = { 'Content-Type': 'application/json' }

/** Runs an operation of the JSON query API. */
export const query = <T = Json>(type: string, args: unknown, asking: Asking = {}): Promise<T> =>
  ask<T>('/v1/query', { ...asking, json: { type, args } })

async function bodyOf(response: Response): Promise<JsonObject> {
  try {
    return reasonIn(JSON.parse(await response.text()) as JsonObject)
  } catch {
    return {}
  }
}

/** Returns the first error of a GraphQL response in the form of other errors. */
export function reasonIn(body: JsonObject): JsonObject {
  const [first] = (body['errors'] ?? []) as readonly JsonObject[]
  return first ? { ...(first['extensions'] as JsonObject), error: first['message'] } : body
}

/** Says why requests cannot succeed now, until the server is ready again. */
export function lost(why: string): void {
  if (trouble.value === '') setTimeout(() => void retry(), RETRY_MS)
  trouble.value = why
}

const RETRY_MS = 2000

/** Asks until the server is ready again. */
async function retry(): Promise<void> {
  const isReady = await fetch('/readyz').then(
    ({ ok }) => ok,
    () => false,
  )
  if (isReady) {
    trouble.value = ''
    recovered.value++
  } else setTimeout(() => void retry(), RETRY_MS)
}

/** Grows whenever the server is ready again after trouble. Panels that depend on it load again. */
export const recovered = signal(0)
