export const API = '/v1/send'
const SECRET = 'rowhouse-admin-secret'
const PATIENCE_MS = 15_000

/** The admin secret that was typed in this tab; null: none was. Nothing outlives the tab. */
export const known = () => sessionStorage.getItem(SECRET)
export const remember = (secret) => sessionStorage.setItem(SECRET, secret)
export const forget = () => sessionStorage.removeItem(SECRET)

/** The server does not know who asks. */
export class Refused extends Error {}

export async function ask(path, init = {}) {
  const answer = await fetch(API + path, {
    ...init,
    cache: 'no-store',
    headers: {
      Accept: 'application/json',
      ...(known() ? { 'X-Service-Admin-Secret': known() } : {}),
      ...(init.body === undefined ? {} : { 'Content-Type': 'application/json' }),
    },
    signal: AbortSignal.timeout(PATIENCE_MS),
  })
  const body = await answer.json().catch(() => ({}))
  if (answer.status === 401) throw new Refused(body.message ?? 'unauthorized')
  if (!answer.ok) throw new Error(body.message ?? `the server answered ${answer.status}`)
  return body
}
