import { setMaxListeners } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

/** Sends a few requests in turn over a few connections, each when the answer to the last one has come. */
export interface Attacker {
  /** The address that it calls from; without one, what the system chooses. */
  readonly from?: string
  readonly headers: Readonly<Record<string, string>>
  readonly bodies: readonly string[]
  /** Leaves answers of 200 unread, and their connections open. */
  readonly unread?: boolean
}

export interface Attack {
  /** Answers so far, by status; 0 is a connection that broke. */
  readonly answers: ReadonlyMap<number, number>
  /** Of refusals with 400: the longest time to one, in ms. */
  readonly slowestRefusal: number
  /** Resolves when all connections are closed. */
  stop(): Promise<void>
}

const CONNECTIONS = 6
/** After an answer other than 200, so that refusals alone do not take the processors. */
const PAUSE_MS = 500

/** Asks `POST /v1/query` of a server on this machine until it is stopped. */
export function startAttack(port: number, attackers: readonly Attacker[]): Attack {
  const answers = new Map<number, number>()
  const stopped = new AbortController()
  const { signal } = stopped
  setMaxListeners(attackers.length * CONNECTIONS * 2, signal)
  let slowestRefusal = 0

  async function client({ from, headers, bodies, unread = false }: Attacker, first: number): Promise<void> {
    for (let n = first; !signal.aborted; n++) {
      const since = performance.now()
      const to = { host: '127.0.0.1', port, path: '/v1/query', method: 'POST', agent: false, signal }
      const sent = request({ ...to, headers, ...(from === undefined ? {} : { localAddress: from }) })
      const status = await statusOf(sent, bodies[n % bodies.length] as string, unread)
      if (signal.aborted) return
      answers.set(status, (answers.get(status) ?? 0) + 1)
      if (status === 400) slowestRefusal = Math.max(slowestRefusal, performance.now() - since)
      if (status !== 200) await sleep(PAUSE_MS)
    }
  }
  const going = attackers.flatMap((attacker) => Array.from({ length: CONNECTIONS }, (_, n) => client(attacker, n)))
  return {
    answers,
    get slowestRefusal() {
      return slowestRefusal
    },
    async stop() {
      stopped.abort()
      await Promise.all(going)
    },
  }
}

/** @returns when the whole answer has come, or its connection has ended; 0 when it broke before an answer */
function statusOf(sent: ClientRequest, body: string, unread: boolean): Promise<number> {
  return new Promise((resolve) => {
    let status = 0
    sent.once('response', (answer: IncomingMessage) => {
      status = answer.statusCode ?? 0
      answer.once('error', () => {})
      if (!unread || status !== 200) answer.resume()
    })
    sent.once('error', () => {})
    sent.once('close', () => resolve(status))
    sent.end(body)
  })
}
