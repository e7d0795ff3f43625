import type { Test } from 'tap'
import { ADMIN_SECRET, type As, GATEWAY_SECRET, type TestServer } from './server.js'

/** A server-sent event. */
export interface Event {
  readonly event: string
  readonly id: string | undefined
  readonly data: unknown
}

/** A client of a stream. */
export class EventClient {
  readonly events: Event[] = []
  isOver = false
  constructor(private readonly stop: () => void) {}

  /** Waits until the last event of a name has this data. */
  async has(t: Test, name: string, data: unknown, message: string): Promise<void> {
    const wanted = JSON.stringify(data)
    for (let tries = 0; tries < 600; tries++) {
      if (JSON.stringify(this.last(name)) === wanted) return void t.pass(message)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    t.same(this.last(name), data, message)
  }

  last(name: string): unknown {
    return this.events.findLast(({ event }) => event === name)?.data
  }

  count(name: string): number {
    return this.events.filter(({ event }) => event === name).length
  }

  close(): void {
    this.stop()
  }
}

/** Opens a stream of events. @throws Error with the answer, if it is none */
export async function openEvents(server: TestServer, path: string, init: RequestInit, as?: As): Promise<EventClient> {
  const controller = new AbortController()
  const response = await fetch(`${server.url}${path}`, {
    ...init,
    headers: { ...headersOf(as), ...(init.headers as Record<string, string>) },
    signal: controller.signal,
  })
  const client = new EventClient(() => controller.abort())
  if (response.status !== 200) throw new Error(await response.text())
  void read(response, client)
  return client
}

const headersOf = ({ role, variables }: As = {}): Record<string, string> => ({
  ...(role === undefined
    ? { 'x-service-admin-secret': ADMIN_SECRET }
    : { 'x-service-gateway-secret': GATEWAY_SECRET, 'x-service-role': role }),
  ...variables,
})

async function read(response: Response, client: EventClient): Promise<void> {
  let rest = ''
  const decoder = new TextDecoder()
  try {
    for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
      rest += decoder.decode(chunk, { stream: true })
      for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
        const lines = rest.slice(0, end).split('\n')
        rest = rest.slice(end + 2)
        const field = (name: string) =>
          lines
            .filter((line) => line.startsWith(`${name}:`))
            .map((line) => line.slice(name.length + 1).replace(/^ /, ''))
        if (field('data').length > 0) {
          const [event = 'message'] = field('event')
          const data = field('data').join('\n')
          client.events.push({ event, id: field('id')[0], data: data === '' ? '' : JSON.parse(data) })
        }
      }
    }
  } catch {}
  client.isOver = true
}
