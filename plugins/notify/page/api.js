export const API = '/v1/send'
const SECRET = 'rowhouse-admin-secret'
const TIMEOUT_MS = 15_000

/** Returns the admin secret entered in this tab, or null. The browser discards it with the tab. */
export const savedSecret = () => sessionStorage.getItem(SECRET)
export const saveSecret = (secret) => sessionStorage.setItem(SECRET, secret)
export const clearSecret = () => sessionStorage.removeItem(SECRET)

/** The server answered 401. */
export class Unauthorized extends Error {}

export async function request(path, init = {}) {
  const response = await fetch(API + path, {
    ...init,
    cache: 'no-store',
    headers: {
      Accept: 'application/json',
      ...(savedSecret() ? { 'X-Service-Admin-Secret': savedSecret() } : {}),
      ...(init.body === undefined ? {} : { 'Content-Type': 'application/json' }),
    },
    signal: AbortSignal.timeout(TIMEOUT_MS),
  })
  const body = await response.json().catch(() => ({}))
  if (response.status === 401) throw new Unauthorized(body.message ?? 'unauthorized')
  if (!response.ok) throw new Error(body.message ?? `the server answered ${response.status}`)
  return body
}
