import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

/** Longer than the server waits. */
const LATE_MS = 800

/** An event as it arrived, in this order. */
export interface Arrived {
  readonly id: string
  readonly trigger: string
  /** What changed: operation, key, and the values before and after. */
  readonly change: string
}

export interface Receiver {
  readonly url: string
  /** What was taken, whether the answer arrived or not. */
  readonly arrived: readonly Arrived[]
  /** Whether it fails as often as it does not. */
  isWell: boolean
  readonly requests: number
  close(): void
}

/** The name of a change, as the receiver and the database know it. */
export const nameOf = (op: string, id: unknown, before: unknown, after: unknown): string =>
  JSON.stringify([op, id, before ?? null, after ?? null])

/** A receiver of a webhook that now and then fails, hangs, cuts the connection, or answers too late. */
export async function startReceiver(random: () => number): Promise<Receiver> {
  const arrived: Arrived[] = []
  const receiver = { arrived, isWell: false, requests: 0 }
  const answer = (response: ServerResponse, status: number) => response.writeHead(status).end()
  const server = createServer(async (request, response) => {
    receiver.requests++
    const fate = receiver.isWell ? 1 : random()
    if (fate < 0.05) return request.socket.destroy()
    const body = await text(request).catch(() => '')
    if (body === '') return
    if (fate < 0.15) return answer(response, 500)
    const { id, trigger, op, old, new: now } = JSON.parse(body)
    arrived.push({ id, trigger, change: nameOf(op, (now ?? old).id, old?.v, now?.v) })
    if (fate < 0.2) return request.socket.destroy()
    if (fate < 0.23) return undefined
    if (fate < 0.26) return setTimeout(() => answer(response, 204), LATE_MS)
    answer(response, 204)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return Object.assign(receiver, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.closeAllConnections()
      server.close()
    },
  })
}
