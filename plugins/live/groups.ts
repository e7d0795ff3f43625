import { createHash } from 'node:crypto'
import {
  type Call,
  type Data,
  type Request,
  ServiceError,
  serviceError,
  type Watched,
  type WatchedSource,
} from 'rowhouse'
import { tableKey } from 'rowhouse/plan'
import type { Changed } from './notes.js'
import { Topics } from './topics.js'

/** What a group knows: the answer as JSON with its hash, or why there is none. */
export type Told =
  | { readonly kind: 'answer'; readonly json: string; readonly hash: string }
  | { readonly kind: 'error'; readonly error: ServiceError }

/** One who waits for the answers to a query. */
export interface Listener {
  readonly request: Request
  /** Whose permissions, share and limits apply. */
  readonly call: Call
  tell(told: Told): void
}

/** Queries with the same answer, which is read once for all of them. */
export interface Group {
  readonly key: string
  readonly listeners: Set<Listener>
  /** Those who know no answer yet. */
  readonly fresh: Set<Listener>
  /** What wakes it. */
  readonly sources: readonly WatchedSource[]
  /** Whether it also has to be read at intervals, because not all that it depends on says when it changes. */
  readonly isPolled: boolean
  told: Told | undefined
  /** Whether it has to be read again. */
  isDirty: boolean
  isRunning: boolean
  /** When it may be read again, and should be if it is polled, in milliseconds of `performance.now()`. */
  notBefore: number
  pollAt: number
}

export interface GroupOptions {
  readonly pollMs: number
  readonly maxAnswerBytes: number
}

/** Groups read at the same time. */
const CONCURRENCY = 16
/** A group is read at most a fifth of the time, so that a slow query does not take a connection for itself. */
const REST = 4
const RETRY_MS = 1000

/** The groups by what wakes them. */
export class Groups {
  private readonly byKey = new Map<string, Group>()
  private readonly topics: Topics<Group>
  /** Groups that wait to be read, in order. */
  private readonly queue = new Set<Group>()
  private running = 0
  private timer: NodeJS.Timeout | undefined

  constructor(
    private readonly data: Data,
    private readonly options: GroupOptions,
    /** Called with the number of milliseconds that a reading took, and whether the answer was another one. */
    private readonly onRead: (ms: number, isNew: boolean) => void,
  ) {
    this.topics = new Topics(data)
  }

  get size(): number {
    return this.byKey.size
  }

  /** Adds a listener, and tells it the answer as soon as there is one. */
  join(listener: Listener, { key, sources, isComplete }: Watched): Group {
    let group = this.byKey.get(key)
    if (!group) {
      const isLive = ({ table }: WatchedSource) =>
        this.data.catalog.tables.get(tableKey(table))?.captures?.includes('live') === true
      const live = sources.filter(isLive)
      group = {
        key,
        listeners: new Set(),
        fresh: new Set(),
        sources: live,
        isPolled: !isComplete || live.length < sources.length,
        told: undefined,
        isDirty: false,
        isRunning: false,
        notBefore: 0,
        pollAt: Infinity,
      }
      this.byKey.set(key, group)
      this.topics.add(group, live)
    }
    group.listeners.add(listener)
    if (group.told && !group.isDirty && !group.isRunning) listener.tell(group.told)
    else {
      group.fresh.add(listener)
      this.wake(group)
    }
    return group
  }

  leave(listener: Listener, group: Group): void {
    group.listeners.delete(listener)
    group.fresh.delete(listener)
    if (group.listeners.size > 0) return
    this.byKey.delete(group.key)
    this.queue.delete(group)
    this.topics.delete(group, group.sources)
  }

  /** Reads again what a change may have changed, and what is polled. */
  async changed(changed: Changed): Promise<void> {
    if (changed === 'anything') for (const group of this.byKey.values()) this.wake(group)
    else {
      for (const each of changed) {
        for (const group of await this.topics.woken(each)) if (group.listeners.size > 0) this.wake(group)
      }
    }
    const now = performance.now()
    for (const group of this.byKey.values()) if (group.isPolled && group.pollAt <= now) this.wake(group)
  }

  private wake(group: Group): void {
    group.isDirty = true
    if (!group.isRunning) this.queue.add(group)
    this.next()
  }

  private next(): void {
    const now = performance.now()
    let soonest = Infinity
    for (const group of this.queue) {
      if (this.running >= CONCURRENCY) return
      if (group.notBefore > now) soonest = Math.min(soonest, group.notBefore)
      else {
        this.queue.delete(group)
        void this.read(group)
      }
    }
    clearTimeout(this.timer)
    if (soonest < Infinity) this.timer = setTimeout(() => this.next(), Math.max(1, soonest - now)).unref()
  }

  private async read(group: Group): Promise<void> {
    const [listener] = group.listeners
    if (!listener) return
    this.running++
    group.isRunning = true
    group.isDirty = false
    const start = performance.now()
    const told = await this.ask(listener)
    const now = performance.now()
    this.running--
    group.isRunning = false
    group.notBefore = now + (told ? REST * (now - start) : RETRY_MS)
    group.pollAt = group.isPolled ? now + this.options.pollMs : Infinity
    const isNew = told !== undefined && !isSame(told, group.told)
    this.onRead(now - start, isNew)
    if (told === undefined) group.isDirty = true
    else {
      group.told = told
      for (const each of isNew ? group.listeners : group.fresh) each.tell(told)
      group.fresh.clear()
    }
    if (group.isDirty && group.listeners.size > 0) this.queue.add(group)
    this.next()
  }

  /** @returns undefined when it has to be tried again */
  private async ask({ request, call }: Listener): Promise<Told | undefined> {
    try {
      // It is never cancelled; its statement has a time limit.
      const { signal } = new AbortController()
      const json = (await this.data.run(request, { ...call, signal })) ?? 'null'
      if (Buffer.byteLength(json) > this.options.maxAnswerBytes) {
        const message = `the answer has more than ${this.options.maxAnswerBytes} bytes (plugins.live.maxAnswerBytes)`
        return { kind: 'error', error: serviceError('answer-too-large', message, '$') }
      }
      return { kind: 'answer', json, hash: createHash('sha256').update(json).digest('base64url').slice(0, 16) }
    } catch (error) {
      return error instanceof ServiceError && error.status < 500 && error.status !== 429
        ? { kind: 'error', error }
        : undefined
    }
  }
}

const isSame = (told: Told, before: Told | undefined): boolean =>
  told.kind === 'answer'
    ? before?.kind === 'answer' && before.hash === told.hash
    : before?.kind === 'error' && before.error.message === told.error.message
