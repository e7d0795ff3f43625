import { type Answer, callOf, type Exchange, internalFor, ServiceError, type Session } from 'rowhouse'
import { at, isObject, type Json, parseFailed } from 'rowhouse/plan'
import { EventStream, eventOf } from './event-stream.js'
import type { Told } from './groups.js'
import type { End, Live, LiveOptions, LiveQuery, Subscription } from './live.js'

/**
 * How a stream says what a live query told, or why it is over. Absent: it says nothing.
 * @param name of the query in its stream; may be empty
 * @returns `again` if the query then means something else: it is lifted again when the client has read so far
 */
export type Say = (
  told: Told | { readonly kind: 'end'; readonly code: End },
  name: string,
) => { readonly event: string; readonly data: string; readonly again?: true | undefined } | undefined

const NAME = /^[A-Za-z0-9_.-]{1,64}$/
const MAX_NAMES = 32
/** How long a client may leave events unread. */
const UNREAD_MS = 60_000

/** Streams of server-sent events with the answers to live queries. */
export class Streams {
  private readonly bodies = new Set<EventStream>()
  private beating: NodeJS.Timeout | undefined

  constructor(
    private readonly live: Live,
    private readonly options: LiveOptions,
  ) {}

  get count(): number {
    return this.bodies.size
  }

  /**
   * Answers with a stream of the answers to some reads, each under its name.
   * @param queries by name; the name `''` gives events without a name
   * @throws ServiceError 400, 429, 503
   */
  async open(exchange: Exchange, queries: ReadonlyMap<string, LiveQuery>, say?: Say): Promise<Answer> {
    const body = new EventStream()
    const hashes = new Map([...queries.keys()].map((name) => [name, '']))
    const known = knownHashes(exchange.get('Last-Event-ID'))
    const opened = new Map<string, Subscription>()
    const saying = say ?? inOwnWords(exchange.state.session)
    const close = (): void => {
      for (const each of opened.values()) each.close()
      opened.clear()
    }
    const tell = (told: Told, name: string): Promise<void> | void => {
      hashes.set(name, told.kind === 'answer' ? told.hash : '')
      const said = saying(told, name)
      if (!said) return
      const { event, data, again } = said
      const id = [...hashes].map(([each, hash]) => `${each}:${hash}`).join(' ')
      body.send(name, eventOf(event, again ? undefined : id, data))
      if (again) return body.isTaken()
    }
    const end = (code: End): void => {
      close()
      const said = saying({ kind: 'end', code }, '')
      body.end(said && eventOf(said.event, undefined, said.data))
    }
    try {
      for (const [name, query] of queries) {
        hashes.set(name, known.get(name) ?? '')
        const listener = { known: known.get(name), tell: (told: Told) => tell(told, name), end }
        opened.set(name, await this.live.subscribe(callOf(exchange), query, listener).catch(underName(name)))
      }
    } catch (error) {
      close()
      throw error
    }
    const polled = [...opened].filter(([, { isPolled }]) => isPolled).map(([name]) => name)
    if (polled.length > 0 && !say) {
      body.send('polled', eventOf('polled', undefined, JSON.stringify({ queries: polled, ms: this.options.pollMs })))
    }
    this.follow(body, close)
    // Its place among the requests in progress is for requests that end.
    exchange.state.leave?.()
    exchange.set('Cache-Control', 'no-store')
    // nginx would collect the events otherwise.
    exchange.set('X-Accel-Buffering', 'no')
    return { kind: 'stream', contentType: 'text/event-stream; charset=utf-8', chunks: body }
  }

  private follow(body: EventStream, close: () => void): void {
    this.bodies.add(body)
    this.beating ??= setInterval(() => this.beat(), this.options.heartbeatMs).unref()
    body.once('close', () => {
      close()
      this.bodies.delete(body)
      if (this.bodies.size > 0) return
      clearInterval(this.beating)
      this.beating = undefined
    })
  }

  private beat(): void {
    const now = performance.now()
    for (const body of this.bodies) {
      if (now - body.behindSince > UNREAD_MS) body.destroy()
      else body.beat()
    }
  }
}

/** Returns how `POST /v1/live` and templates say it. */
const inOwnWords =
  (session: Session): Say =>
  (told, name) => {
    switch (told.kind) {
      case 'answer':
        return { event: name, data: told.json }
      case 'error':
        return { event: name, data: errorText(told.error, session) }
      case 'end':
        return { event: 'end', data: JSON.stringify({ code: told.code }) }
    }
  }

function errorText(error: ServiceError, session: Session): string {
  const { path, message, code } = error
  const internal = internalFor(error, session)
  return JSON.stringify({ error: { path, error: message, code, ...(internal === undefined ? {} : { internal }) } })
}

/** Returns what throws an error about a query with the path of the query. */
const underName =
  (name: string) =>
  (error: unknown): never => {
    throw error instanceof ServiceError && name !== '' && error.status < 429 ? error.under(at('$', name)) : error
  }

/** Reads `name:hash name:hash`. */
const knownHashes = (id: string): ReadonlyMap<string, string> =>
  new Map(id.split(' ').map((each) => [each.slice(0, each.lastIndexOf(':')), each.slice(each.lastIndexOf(':') + 1)]))

/** Reads the body of `POST /v1/live`. @throws ServiceError 400 */
export function queriesIn(body: Json): ReadonlyMap<string, Json> {
  if (!isObject(body) || Object.keys(body).length === 0) {
    throw parseFailed('expecting an object of queries by name: {"orders": {"type": "select", "args": {...}}}', '$')
  }
  const all = Object.entries(body)
  if (all.length > MAX_NAMES) throw parseFailed(`a stream has at most ${MAX_NAMES} queries`, '$')
  for (const [name] of all) {
    if (!NAME.test(name) || name === 'end' || name === 'polled') {
      throw parseFailed(
        'the name of a query has up to 64 letters, digits, "_", "." and "-", and is not "end" or "polled"',
        `$`,
      )
    }
  }
  return new Map(all)
}
