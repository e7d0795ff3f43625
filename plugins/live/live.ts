import {
  type Answer,
  type Call,
  callOf,
  type Data,
  type Exchange,
  internalFor,
  isAdmin,
  type Operations,
  type Request,
  ServiceError,
  serviceError,
  type Services,
  type Session,
} from 'rowhouse'
import { isObject, type Json, type JsonObject, parseFailed, at } from 'rowhouse/plan'
import { EventStream, eventOf } from './event-stream.js'
import { type Group, Groups, type Listener, type Told } from './groups.js'
import { Notes } from './notes.js'

export interface LiveOptions {
  readonly tickMs: number
  readonly pollMs: number
  readonly heartbeatMs: number
  readonly maxStreamMinutes: number
  readonly maxQueries: number
  readonly maxQueriesPerCaller: number
  readonly maxAnswerBytes: number
}

/** Why a stream ends. */
type End = 'expired' | 'changed' | 'closing' | 'slow'

const NAME = /^[A-Za-z0-9_.-]{1,64}$/
const MAX_NAMES = 32
/** How long a client may leave events unread. */
const UNREAD_MS = 60_000
/** While the database does not answer. */
const PAUSE_MS = 1000

/** One query of a stream. */
interface Watching {
  readonly name: string
  readonly query: Json
  listener: Listener
  group: Group
  hash: string
}

interface Stream {
  readonly body: EventStream
  readonly session: Session
  readonly call: Call
  readonly watching: Watching[]
  readonly closesAt: number
  isClosed: boolean
}

/** Streams of answers that are sent again when they change. */
export class Live {
  private readonly streams = new Set<Stream>()
  /** Live queries, and those of each caller. */
  private total = 0
  private readonly perCaller = new Map<string, number>()
  private readonly notes: Notes
  readonly groups: Groups
  private isTicking = false
  private isClosing = false
  private started: Promise<unknown> | undefined
  private catalog: Data['catalog']

  constructor(
    private readonly data: Data,
    private readonly operations: Operations,
    private readonly log: Services['log'],
    private readonly options: LiveOptions,
    onRead: (ms: number, isNew: boolean) => void,
  ) {
    this.notes = new Notes(data)
    this.groups = new Groups(data, options, onRead)
    this.catalog = data.catalog
  }

  get count(): number {
    return this.streams.size
  }

  /**
   * Answers with a stream of the answers to some reads, each under its name.
   * @param queries as `POST /v1/query` takes them; the name `''` gives events without a name
   * @throws ServiceError 400, 429
   */
  async open(exchange: Exchange, queries: ReadonlyMap<string, Json>): Promise<Answer> {
    const { session } = exchange.state
    if (this.isClosing) throw serviceError('unavailable', 'the server is shutting down', '$', { retryAfter: 1 })
    const release = this.reserve(session, queries.size)
    try {
      await this.start()
      const call: Call = { ...callOf(exchange), signal: NEVER, headers: undefined }
      const lifted: { name: string; query: Json; request: Request; watched: Awaited<ReturnType<Data['watch']>> }[] = []
      for (const [name, query] of queries) {
        lifted.push({ name, query, ...(await this.lift(query, call).catch(underName(name))) })
      }
      const known = knownHashes(exchange.get('Last-Event-ID'))
      const body = new EventStream()
      const now = performance.now()
      const age = this.options.maxStreamMinutes * 60_000 * (0.9 + Math.random() * 0.1)
      const left = session.expiresAt === undefined ? Infinity : session.expiresAt - Date.now()
      const stream: Stream = { body, session, call, watching: [], closesAt: now + Math.min(age, left), isClosed: false }
      // Its place among the requests in progress is for requests that end.
      exchange.state.leave?.()
      body.once('close', () => {
        this.drop(stream)
        release()
      })
      this.streams.add(stream)
      for (const { name, query, request, watched } of lifted) {
        this.watch(stream, name, query, request, watched, known.get(name) ?? '')
      }
      const polled = stream.watching.filter(({ group }) => group.isPolled).map(({ name }) => name)
      if (polled.length > 0) {
        body.send('polled', eventOf('polled', undefined, JSON.stringify({ queries: polled, ms: this.options.pollMs })))
      }
      exchange.set('Cache-Control', 'no-store')
      // nginx would collect the events otherwise.
      exchange.set('X-Accel-Buffering', 'no')
      return { kind: 'stream', contentType: 'text/event-stream; charset=utf-8', chunks: body }
    } catch (error) {
      release()
      throw error
    }
  }

  /** Ends all streams, so that their clients go to another server. */
  close(): void {
    this.isClosing = true
    for (const stream of this.streams) this.finish(stream, 'closing')
  }

  private reserve({ caller }: Session, queries: number): () => void {
    const { maxQueries, maxQueriesPerCaller } = this.options
    if (this.total + queries > maxQueries) {
      throw serviceError('too-busy', 'too many live queries (plugins.live.maxQueries)', '$', { retryAfter: 5 })
    }
    const own = (this.perCaller.get(caller ?? '') ?? 0) + queries
    if (caller !== undefined && own > maxQueriesPerCaller) {
      const message = `this caller has too many live queries (plugins.live.maxQueriesPerCaller)`
      throw serviceError('too-many-requests', message, '$', { retryAfter: 5 })
    }
    this.total += queries
    if (caller !== undefined) this.perCaller.set(caller, own)
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      this.total -= queries
      if (caller === undefined) return
      const rest = (this.perCaller.get(caller) ?? 0) - queries
      if (rest > 0) this.perCaller.set(caller, rest)
      else this.perCaller.delete(caller)
    }
  }

  /** Returns the request of a query, and what its answer depends on. */
  private async lift(
    query: Json,
    call: Call,
  ): Promise<{ request: Request; watched: Awaited<ReturnType<Data['watch']>> }> {
    const { type, args = null } = isObject(query) ? query : ({} as JsonObject)
    const named = typeof type === 'string' ? type : ''
    const operation = this.operations.get(named)
    if (operation?.resolve) return operation.resolve(args, call, (inner) => this.lift(inner, call))
    if (operation?.admin && !isAdmin(call.session)) {
      throw serviceError('access-denied', 'only the role admin may do this', '$.type')
    }
    const lifted = this.operations.lift(query)
    if (!lifted) throw serviceError('not-supported', `"${named}" is no read, so it cannot be live`, '$.type')
    // A standby could have less than the note of a change says.
    const { onStandby: _, ...request } = lifted
    return { request, watched: await this.data.watch(request, call) }
  }

  private watch(
    stream: Stream,
    name: string,
    query: Json,
    request: Request,
    watched: Awaited<ReturnType<Data['watch']>>,
    hash: string,
  ): void {
    const watching: Watching = { name, query, hash } as Watching
    watching.listener = { request, call: stream.call, tell: (told) => this.tell(stream, watching, told) }
    stream.watching.push(watching)
    watching.group = this.groups.join(watching.listener, watched)
  }

  private tell(stream: Stream, watching: Watching, told: Told): void {
    const hash = told.kind === 'answer' ? told.hash : ''
    if (stream.isClosed || (told.kind === 'answer' && hash === watching.hash)) return
    watching.hash = hash
    const { name } = watching
    const id = stream.watching.map((each) => `${each.name}:${each.hash}`).join(' ')
    stream.body.send(
      name,
      eventOf(name, id, told.kind === 'answer' ? told.json : errorText(told.error, stream.session)),
    )
  }

  private finish(stream: Stream, code: End): void {
    if (stream.isClosed) return
    this.drop(stream)
    stream.body.end(eventOf('end', undefined, JSON.stringify({ code })))
  }

  private drop(stream: Stream): void {
    if (stream.isClosed) return
    stream.isClosed = true
    this.streams.delete(stream)
    for (const { listener, group } of stream.watching) this.groups.leave(listener, group)
  }

  /** Starts to look for changes, unless it does already. */
  private start(): Promise<unknown> {
    this.started ??= this.notes.look().then(
      () => void this.tick(),
      (error: unknown) => {
        this.started = undefined
        throw error
      },
    )
    return this.started
  }

  private async tick(): Promise<void> {
    if (this.isTicking) return
    this.isTicking = true
    let isFailing = false
    let beatAt = performance.now() + this.options.heartbeatMs
    // A stream that is being opened counts: its answers are read after the last look.
    for (let idle = 0; idle < 2 || this.total > 0;) {
      await pause(this.options.tickMs)
      idle = this.total === 0 ? idle + 1 : 0
      const now = performance.now()
      for (const stream of this.streams) {
        if (stream.closesAt <= now) this.finish(stream, 'expired')
        else if (now - stream.body.behindSince > UNREAD_MS) stream.body.destroy()
      }
      if (now >= beatAt) {
        beatAt = now + this.options.heartbeatMs
        for (const { body } of this.streams) body.beat()
      }
      try {
        const changed = await this.notes.look()
        if (this.data.catalog !== this.catalog) await this.watchAgain()
        await this.groups.changed(changed)
        isFailing = false
      } catch (error) {
        if (!isFailing) this.log.warn({ err: error }, 'cannot look for changes; will retry')
        isFailing = true
        await pause(PAUSE_MS)
      }
    }
    this.isTicking = false
    this.started = undefined
    this.notes.rest()
  }

  /** After a change of the metadata, queries may mean something else, or be refused. */
  private async watchAgain(): Promise<void> {
    const { catalog } = this.data
    for (const stream of this.streams) {
      for (const watching of stream.watching) {
        try {
          const { request, watched } = await this.lift(watching.query, stream.call)
          if (stream.isClosed) break
          const { listener, group } = watching
          this.groups.leave(listener, group)
          watching.listener = { ...listener, request }
          watching.group = this.groups.join(watching.listener, watched)
        } catch (error) {
          if (!(error instanceof ServiceError) || error.status >= 500) throw error
          this.tell(stream, watching, { kind: 'error', error })
          this.finish(stream, 'changed')
          break
        }
      }
    }
    this.catalog = catalog
  }
}

/** Returns what throws an error about a query with the path of the query. */
const underName =
  (name: string) =>
  (error: unknown): never => {
    throw error instanceof ServiceError && name !== '' ? error.under(at('$', name)) : error
  }

/** Live queries are not cancelled: their statements have limits. */
const NEVER = new AbortController().signal

const pause = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms))

function errorText(error: ServiceError, session: Session): string {
  const { path, message, code } = error
  const internal = internalFor(error, session)
  return JSON.stringify({ error: { path, error: message, code, ...(internal === undefined ? {} : { internal }) } })
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
