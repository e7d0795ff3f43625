import { admin } from './files.js'
import type { Expected, Step } from './promises.js'
import type { As } from './server.js'

/** Steps of promises about files; as admin unless told otherwise. */

type Headers = Readonly<Record<string, string>>

export const pathOf = (id: string): string => `/v1/file/${encodeURIComponent(id)}`

/** @param method PUT unless told otherwise */
export const put = (
  id: string,
  body: string,
  expected: Expected,
  as: As = admin,
  headers: Headers = {},
  method = 'PUT',
): Step => ({
  path: pathOf(id),
  method,
  body,
  headers: { 'Content-Type': 'text/plain; charset=utf-8', ...headers },
  as,
  expected,
})

export const post = (id: string, body: string, expected: Expected, as: As = admin, headers: Headers = {}): Step =>
  put(id, body, expected, as, headers, 'POST')

export const get = (id: string, expected: Expected, headers: Headers = {}, as: As = admin): Step => ({
  path: pathOf(id),
  method: 'GET',
  headers,
  as,
  expected,
})

export const remove = (id: string, expected: Expected, as: As = admin, headers: Headers = {}): Step => ({
  ...get(id, expected, headers, as),
  method: 'DELETE',
})

export const head = (id: string, expected: Expected, headers: Headers = {}, as: As = admin): Step => ({
  ...get(id, expected, headers, as),
  method: 'HEAD',
})

export const OK: Expected = { status: 200 }

/** An error of the filestore: nothing but `code` and `message`. */
export const wrong = (status: number, code: string, message: string | RegExp): Expected =>
  typeof message === 'string' ? { status, body: { code, message } } : { status, like: { code, message } }
export const bad = (message: string | RegExp): Expected => wrong(400, 'bad_request', message)
/** The body is compressed. */
export const coded = (coding: string): Expected => ({
  ...wrong(415, 'unsupported_media_type', `Content-Encoding "${coding}" is not supported`),
  headers: { 'accept-encoding': 'identity' },
})
export const hidden = (id: string): Expected => wrong(404, 'not_found', `file not found : ${id}`)
/** The role has no entry or no rule. */
export const denied = (role: string): Expected => wrong(403, 'access_denied', `no permission for role ${role}`)
/** A rule or the hook refuses. */
export const REFUSED: Expected = wrong(403, 'access_denied', 'access denied')
