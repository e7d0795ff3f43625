import type { Mail } from '../../core/index.js'
import type { NotifyServer } from './notify.js'
import type { Expected, Step } from './promises.js'
import { until } from './until.js'

/** Queued messages are tried again soon, and those of other transactions are found soon. */
export const FAST = { queue: { retrySeconds: 0.01, pollMs: 20 } }

/** `POST /v1/send/<what>`. @param body a text is sent as it is */
export const send = (what: string, body: unknown, expected: Expected, headers?: Step['headers']): Step => ({
  path: `/v1/send/${what}`,
  method: 'POST',
  body: typeof body === 'string' ? body : JSON.stringify(body),
  expected,
  ...(headers ? { headers } : {}),
})

/** `GET /v1/send<path>`. */
export const get = (path: string, expected: Expected): Step => ({ path: `/v1/send${path}`, method: 'GET', expected })

/** 400 `invalid_payload`. @param path of the wrong value, when the message does not have it */
export const invalid = (message: string | RegExp, path?: string): Expected => {
  const source = typeof message === 'string' ? escaped(message) : message.source
  const whole = path === undefined ? message : new RegExp(`^Error in ${escaped(path)}: .*${source}`)
  return { status: 400, like: { code: 'invalid_payload', message: whole } }
}
const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)

/** 400 of a payload without a key. */
export const missing = (key: string): Expected => ({
  status: 400,
  body: { code: 'invalid_payload', message: `Error in $: the key '${key}' was not present` },
})

export const key = (value: string) => ({ 'Idempotency-Key': value })

/** The last mail that a provider got. */
export const last = ({ email }: Pick<NotifyServer, 'email'>) => email.handed.at(-1) as Mail

/** A stored message. */
export const stateOf = async (server: NotifyServer, id: string) => (await server.fetch(`/v1/send/${id}`)).body

export const becomes = (server: NotifyServer, id: string, state: string) =>
  until(`${id} becomes ${state}`, async () => (await stateOf(server, id)).state === state)
