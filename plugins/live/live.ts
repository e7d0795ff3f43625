import {
  type Call,
  type Data,
  isAdmin,
  type Operations,
  type Request,
  ServiceError,
  serviceError,
  type Services,
  type Session,
  type Watched,
} from 'rowhouse'
import { isObject, type Json, type JsonObject } from 'rowhouse/plan'
import { type Group, Groups, type Listener, type Told } from './groups.js'
import { Notes } from './notes.js'
import { Views } from './views.js'

export interface LiveOptions {
  readonly tickMs: number
  readonly pollMs: number
  readonly heartbeatMs: number
  readonly maxStreamMinutes: number
  readonly maxQueries: number
  readonly maxQueriesPerCaller: number
  readonly maxAnswerBytes: number
}

/**
 * A read as `POST /v1/query` takes it; or what lifts a read of another front end for the caller's role, which is called again
 * after each change of the metadata.
 */
export type LiveQuery = Json | (() => Promise<Lifted>)

/** The request of a read, and what its answer depends on. */
export interface Lifted {
  readonly request: Request
  readonly watched: Watched
}

/** One who listens to a live query. */
export interface LiveListener {
  /** Hash of the answer that it has already. */
  readonly known?: string | undefined
  /**
   * Gets the answer, and again whenever it is another one; or why there is none, after which answers may follow.
   * @returns a promise if the query now means something else: when it is fulfilled, the query is lifted again. Until then nothing
   *   is told
   */
  tell(told: Told): Promise<void> | void
  /** Called once when it is over, unless `close` was called before. After `changed`, the last that was told is the error. */
  end(code: End): void
}

/** Why a live query is over: the credentials or its time, a lost right, or the server. */
export type End = 'expired' | 'changed' | 'closing'

export interface Subscription {
  /** Whether it also depends on what is not live, and is read at intervals. */
  readonly isPolled: boolean
  close(): void
}

/** While the database does not answer. */
const PAUSE_MS = 1000

interface Subscribed {
  readonly query: LiveQuery
  readonly call: Call
  readonly to: LiveListener
  /** In milliseconds of `performance.now()`. */
  readonly closesAt: number
  readonly release: () => void
  listener: Listener
  /** Absent while it is being lifted again. */
  group: Group | undefined
  hash: string
  isClosed: boolean
}

/** Live queries: calls a listener with the answer to a read, and again whenever the answer changes. */
export class Live {
  private readonly subscribed = new Set<Subscribed>()
  /** Live queries, and those of each caller. */
  private total = 0
  private readonly perCaller = new Map<string, number>()
  private readonly notes: Notes
  private readonly views: Views
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
    this.views = new Views(data)
    this.groups = new Groups(data, options, onRead)
    this.catalog = data.catalog
  }

  /**
   * Tells the answer to a read, and again whenever it is another one. The first may be told before this returns.
   * @throws ServiceError 400, 429, 503
   */
  async subscribe(from: Call, query: LiveQuery, to: LiveListener): Promise<Subscription> {
    const { session } = from
    const release = this.reserve(session)
    try {
      await this.start()
      const call: Call = { ...from, signal: NEVER, headers: undefined, timing: undefined }
      const { request, watched } = await this.resolve(query, call)
      if (this.isClosing) throw closing()
      const age = this.options.maxStreamMinutes * 60_000 * (0.9 + Math.random() * 0.1)
      const left = session.expiresAt === undefined ? Infinity : session.expiresAt - Date.now()
      const closesAt = performance.now() + Math.min(age, left)
      const state = { hash: to.known ?? '', isClosed: false }
      const subscribed = { query, call, to, closesAt, release, ...state } as Subscribed
      this.subscribed.add(subscribed)
      this.join(subscribed, request, watched)
      return { isPolled: subscribed.group?.isPolled === true, close: () => this.drop(subscribed) }
    } catch (error) {
      release()
      throw error
    }
  }

  /** Ends all live queries, so that their clients go to another server. */
  close(): void {
    this.isClosing = true
    for (const each of this.subscribed) this.finish(each, 'closing')
  }

  private reserve({ caller }: Session): () => void {
    const { maxQueries, maxQueriesPerCaller } = this.options
    if (this.isClosing) throw closing()
    if (this.total >= maxQueries) {
      throw serviceError('too-busy', 'too many live queries (plugins.live.maxQueries)', '$', { retryAfter: 5 })
    }
    const own = this.perCaller.get(caller ?? '') ?? 0
    if (caller !== undefined && own >= maxQueriesPerCaller) {
      const message = `this caller has too many live queries (plugins.live.maxQueriesPerCaller)`
      throw serviceError('too-many-requests', message, '$', { retryAfter: 5 })
    }
    this.total++
    if (caller !== undefined) this.perCaller.set(caller, own + 1)
    return () => {
      this.total--
      if (caller === undefined) return
      const rest = (this.perCaller.get(caller) ?? 0) - 1
      if (rest > 0) this.perCaller.set(caller, rest)
      else this.perCaller.delete(caller)
    }
  }

  /** Lifts a query for the present metadata, and finds what its views read. */
  private async resolve(query: LiveQuery, call: Call): Promise<Lifted> {
    for (;;) {
      const { catalog } = this.data
      const { request, watched } = await this.lift(query, call)
      const resolved = { request, watched: await this.views.resolve(watched) }
      if (catalog === this.data.catalog) return resolved
    }
  }

  private async lift(query: LiveQuery, call: Call): Promise<Lifted> {
    if (typeof query === 'function') return query()
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

  private join(subscribed: Subscribed, request: Request, watched: Watched): void {
    subscribed.listener = { request, call: subscribed.call, tell: (told) => this.tell(subscribed, told) }
    subscribed.group = this.groups.join(subscribed.listener, watched)
  }

  private tell(subscribed: Subscribed, told: Told): void {
    const hash = told.kind === 'answer' ? told.hash : ''
    if (subscribed.isClosed || (told.kind === 'answer' && hash === subscribed.hash)) return
    subscribed.hash = hash
    const ready = subscribed.to.tell(told)
    if (ready) void this.again(subscribed, ready)
  }

  /** Lifts a query again when its listener is ready. */
  private async again(subscribed: Subscribed, ready: Promise<void>): Promise<void> {
    // The group may be telling all its listeners.
    await Promise.resolve()
    this.leave(subscribed)
    await ready
    while (!subscribed.isClosed) {
      try {
        return await this.liftAgain(subscribed)
      } catch {
        await pause(PAUSE_MS)
      }
    }
  }

  private finish(subscribed: Subscribed, code: End): void {
    if (subscribed.isClosed) return
    this.drop(subscribed)
    subscribed.to.end(code)
  }

  private drop(subscribed: Subscribed): void {
    if (subscribed.isClosed) return
    subscribed.isClosed = true
    this.subscribed.delete(subscribed)
    this.leave(subscribed)
    subscribed.release()
  }

  private leave(subscribed: Subscribed): void {
    if (subscribed.group) this.groups.leave(subscribed.listener, subscribed.group)
    subscribed.group = undefined
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
    // A live query that is being opened counts: its answer is read after the last look.
    for (let idle = 0; idle < 2 || this.total > 0;) {
      await pause(this.options.tickMs)
      idle = this.total === 0 ? idle + 1 : 0
      const now = performance.now()
      for (const each of this.subscribed) if (each.closesAt <= now) this.finish(each, 'expired')
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
    for (const each of this.subscribed) if (each.group) await this.liftAgain(each)
    this.catalog = catalog
  }

  /** @throws Error if it has to be tried again */
  private async liftAgain(subscribed: Subscribed): Promise<void> {
    const { group } = subscribed
    try {
      const { request, watched } = await this.resolve(subscribed.query, subscribed.call)
      // Meanwhile an answer may have made it another query.
      if (subscribed.isClosed || subscribed.group !== group) return
      this.leave(subscribed)
      this.join(subscribed, request, watched)
    } catch (error) {
      if (!(error instanceof ServiceError) || error.status >= 500 || error.status === 429) throw error
      this.tell(subscribed, { kind: 'error', error })
      this.finish(subscribed, 'changed')
    }
  }
}

/** Live queries are not cancelled: their statements have limits. */
const NEVER = new AbortController().signal

const pause = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms))

const closing = (): ServiceError => serviceError('unavailable', 'the server is shutting down', '$', { retryAfter: 1 })
