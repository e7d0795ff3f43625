import { setTimeout as sleep } from 'node:timers/promises'
import { ADMIN_SECRET } from '../../kit/server.js'

/** Longer than any answer of a server that is not held. */
const GIVE_UP_MS = 6000

export interface Answer {
  readonly status: number
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any
  readonly headers: Headers
}

/** @returns undefined: there was no whole answer */
export async function ask(
  url: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer | undefined> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'X-Service-Admin-Secret': ADMIN_SECRET, ...headers },
      signal: AbortSignal.timeout(GIVE_UP_MS),
    })
    return { status: response.status, body: await response.json(), headers: response.headers }
  } catch {
    return undefined
  }
}

export interface Crowd {
  readonly clients: number
  /** The longest break between two requests of a client. */
  readonly breakMs: number
  readonly random: () => number
}

/** Does something for each number below `count`, some at once. */
export async function each(
  count: number,
  { clients, breakMs, random }: Crowd,
  fn: (n: number) => Promise<void>,
): Promise<void> {
  let next = 0
  const client = async () => {
    while (next < count) {
      await fn(next++)
      await sleep(random() * breakMs)
    }
  }
  await Promise.all(Array.from({ length: clients }, client))
}
