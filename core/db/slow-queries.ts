import { createHash } from 'node:crypto'
import type { Logger } from '../observe/log.js'
import type { Reader } from './disclosure.js'

/** A statement that was slow for a role, and figures of its slow runs in this process. */
export interface SlowQuery {
  /** Same on all servers. */
  readonly id: string
  readonly role: string
  readonly kind: Reader['kind']
  readonly planner: string
  /** Name of the last query template or GraphQL operation that ran it. */
  readonly name: string | undefined
  /** SQL without values. */
  readonly sql: string
  /** Whether only the start of the SQL was kept. */
  readonly isCut: boolean
  readonly count: number
  readonly totalMs: number
  readonly maxMs: number
  readonly lastSeen: Date
}

/** Where a statement ran. */
interface Where {
  readonly lane: string
  readonly server?: string | undefined
}

/** The request that a statement is part of. */
export interface Origin {
  /** Front end that planned it. */
  readonly planner: string
  /** Shape of the request. */
  readonly shape?: unknown
  /** Whether its plan was in the cache. */
  readonly isCached?: boolean
  /** Name of its query template or GraphQL operation. */
  readonly name?: string | undefined
  readonly reader: Pick<Reader, 'role' | 'kind' | 'log'>
}

export interface Statement {
  /** Unique per text. */
  readonly name: string
  readonly text: string
  /** Tables and functions that its request is about. */
  readonly about?: string
}

const MAX_QUERIES = 200
const MAX_SQL = 32 * 1024
const MAX_NAME = 100
const MAX_ABOUT = 200

/** The slow statements of this process. Keeps those that took the most time in total. */
export class SlowQueries {
  private readonly byId = new Map<string, SlowQuery>()

  /** @param thresholdMs duration above which a statement is slow */
  constructor(
    readonly thresholdMs: number,
    private readonly log: Logger,
  ) {}

  /** Returns the slow statements, those with the most total time first. */
  get all(): readonly SlowQuery[] {
    return [...this.byId.values()].sort((a, b) => b.totalMs - a.totalMs)
  }

  get(id: string): SlowQuery | undefined {
    return this.byId.get(id)
  }

  record({ name: hash, text, about }: Statement, origin: Origin, ms: number, { lane, server }: Where): void {
    const { planner, name, shape, isCached, reader } = origin
    const { role, kind, log } = reader
    const id = `${role}:${hash}`
    const title = name?.slice(0, MAX_NAME)
    const known = this.byId.get(id)
    if (!known && this.byId.size >= MAX_QUERIES) this.byId.delete(this.all.at(-1)!.id)
    this.byId.set(id, {
      id,
      role,
      kind,
      planner,
      name: title ?? known?.name,
      sql: known?.sql ?? start(text),
      isCut: text.length > MAX_SQL,
      count: (known?.count ?? 0) + 1,
      totalMs: (known?.totalMs ?? 0) + ms,
      maxMs: Math.max(known?.maxMs ?? 0, ms),
      lastSeen: new Date(),
    })
    const to = log?.() ?? this.log
    const how = { shape: hashOf(shape), plan: isCached ? 'cached' : 'compiled', lane, server }
    const table = about?.slice(0, MAX_ABOUT)
    to.warn({ query: id, ms: Math.round(ms), role, kind, planner, table, name: title, ...how }, 'slow query')
  }
}

/** Returns a hash of a shape, which is the same for all roles. */
const hashOf = (shape: unknown): string =>
  createHash('sha256')
    .update(JSON.stringify(shape) ?? '')
    .digest('base64url')
    .slice(0, 22)

/** Returns the start of a long text as a copy, because a part of a string keeps the whole in memory. */
const start = (text: string): string => (text.length > MAX_SQL ? Buffer.from(text.slice(0, MAX_SQL)).toString() : text)
