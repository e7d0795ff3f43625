import { setTimeout as sleep } from 'node:timers/promises'
import type { Query } from '../../kit/live-world.js'
import { type As, ADMIN_SECRET } from '../../kit/server.js'

const PAUSE_MS = 100

/** A client of live queries that connects again, to any server, and keeps what it knows. */
export class Follower {
  readonly headers: Readonly<Record<string, string>>
  events = 0
  streams = 0
  private readonly over = new AbortController()
  private readonly known = new Map<string, unknown>()
  private id = ''

  constructor(
    readonly queries: Readonly<Record<string, Query>>,
    { role, variables }: As = {},
    private readonly url: () => Promise<string>,
  ) {
    this.headers = role === undefined ? {} : { 'x-service-role': role, ...variables }
    void this.follow()
  }

  last(name: string): unknown {
    return this.known.get(name)
  }

  stop(): void {
    this.over.abort()
  }

  private async follow(): Promise<void> {
    const { signal } = this.over
    while (!signal.aborted) {
      try {
        const response = await fetch(`${await this.url()}/v1/live`, {
          method: 'POST',
          body: JSON.stringify(this.queries),
          headers: {
            'x-service-admin-secret': ADMIN_SECRET,
            ...this.headers,
            ...(this.id === '' ? {} : { 'last-event-id': this.id }),
          },
          signal,
        })
        if (response.status === 200) {
          this.streams++
          await this.read(response)
        }
      } catch {}
      await sleep(PAUSE_MS)
    }
  }

  private async read(response: Response): Promise<void> {
    const decoder = new TextDecoder()
    let rest = ''
    for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
      const blocks = (rest + decoder.decode(chunk, { stream: true })).split('\n\n')
      rest = blocks.pop() ?? ''
      for (const block of blocks) {
        const fields = new Map(block.split('\n').map((line) => [line.split(':')[0], line.slice(line.indexOf(':') + 2)]))
        const name = fields.get('event') ?? ''
        if (!Object.hasOwn(this.queries, name)) continue
        this.events++
        this.known.set(name, JSON.parse(fields.get('data') ?? 'null'))
        this.id = fields.get('id') ?? this.id
      }
    }
  }
}
