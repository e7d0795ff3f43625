import { computed, effect, signal } from '@preact/signals'
import { type JsonObject, textAt } from './json.js'

/** Who is signed in. */
interface Session {
  /** The role of the sign-in, or the one that the user chose since. */
  readonly role: string
  /** The roles among which the user may choose. */
  readonly roles?: readonly string[]
  readonly via: string
  readonly variables: Readonly<Record<string, string>>
}

/** Another caller as whom an admin asks. */
export interface Acting {
  readonly role: string
  /** Session variables by lower-case name, such as `x-service-user-id`. */
  readonly variables: Readonly<Record<string, string>>
}

/** The signed-in caller: undefined until it is read, null if the browser is not signed in. */
export const session = signal<Session | null | undefined>(undefined)
export const isAdmin = computed(() => session.value?.role === 'admin')

const SAVED = 'rowhouse-acting'

/** The caller as whom an admin asks; undefined for the admin. */
export const acting = signal<Acting | undefined>(JSON.parse(sessionStorage.getItem(SAVED) ?? 'null') ?? undefined)
/** The role that a user with several roles chose; undefined for that of the sign-in. */
const chosen = signal<Acting | undefined>(undefined)
// Both are kept for the tab, where framed pages read them too.
effect(() => {
  const asked = acting.value ?? chosen.value
  if (asked) sessionStorage.setItem(SAVED, JSON.stringify(asked))
  else sessionStorage.removeItem(SAVED)
})

/** Asks in another role of the user. */
export function chooseRole(name: string): void {
  chosen.value = { role: name, variables: {} }
  session.value = { ...session.value!, role: name }
}

/** The role whose permissions apply. */
export const role = computed(() => acting.value?.role ?? session.value?.role ?? 'anonymous')

/** A text that changes with the caller. As the key of a component, it makes sure that no data of another caller stays. */
export const callerKey = computed(() => JSON.stringify([session.value, acting.value]))

/** Headers of requests for the caller. They name the role, so that an ended session is refused instead of anonymous. */
export function callerHeaders(as: Acting | null | undefined): Record<string, string> {
  return { 'X-Service-Role': as?.role ?? session.value?.role ?? 'anonymous', ...as?.variables }
}

/** Why a sign-in link did not work; empty if it did. */
export const linkRefusal = signal('')

/** Reads who is signed in from the server. */
export async function readSession(): Promise<void> {
  const response = await fetch('/console/session')
  const { signed_in: isSignedIn, ...found } = (await response.json()) as JsonObject
  if (!response.ok) throw new Error(textAt(found, 'error'))
  session.value = isSignedIn ? (found as unknown as Session) : null
  if (isAdmin.value) return
  // Another user may have signed in since the tab acted as somebody.
  const { role: former = '' } = acting.value ?? chosen.value ?? {}
  acting.value = chosen.value = undefined
  if (session.value?.roles?.includes(former)) chooseRole(former)
}

/**
 * @param credentials the code of a sign-in link, or headers
 * @throws Error with the reason of the server
 */
export async function signIn({
  code,
  headers = {},
}: {
  readonly code?: string
  readonly headers?: Record<string, string>
}): Promise<void> {
  const response = await fetch('/console/session', {
    method: 'POST',
    headers: { ...headers, 'Content-Type': 'application/json' },
    body: JSON.stringify({ code }),
  })
  if (!response.ok) throw new Error(textAt((await response.json()) as JsonObject, 'error'))
  acting.value = chosen.value = undefined
  await readSession()
}

/**
 * @param where only in this browser, or in all browsers of the user
 * @throws Error if the server could not end the session
 */
export async function signOut(where: 'here' | 'everywhere'): Promise<void> {
  const response = await fetch(where === 'here' ? '/console/session' : '/console/sessions', { method: 'DELETE' })
  if (!response.ok) throw new Error(textAt((await response.json()) as JsonObject, 'error'))
  forget()
  acting.value = chosen.value = undefined
  session.value = null
}

/** Removes what panels keep in the browser. */
function forget(): void {
  for (const storage of [sessionStorage, localStorage]) {
    for (const key of Object.keys(storage)) if (/^(rowhouse|tus)/.test(key)) storage.removeItem(key)
  }
}
