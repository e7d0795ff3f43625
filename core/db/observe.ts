import { traced } from '../observe/timing.js'
import { EventEmitter } from 'node:events'
import type pg from 'pg'
import type { DatabaseConfig } from './config.js'
import { hostUrls } from './host-urls.js'
import type { Metrics } from '../observe/metrics.js'
import { type Attributes, currentTrace, isTracing, type Step } from '../observe/tracing.js'
import { type QuerySummary, summaryOf } from './query-summary.js'
import type { Origin, SlowQueries, Statement } from './slow-queries.js'

/** Where a statement runs. */
export interface Place {
  /** On a pooled connection, on a shared one, or as a cursor. */
  readonly lane: 'pool' | 'shared' | 'stream'
  /** `primary` or `standby db2:5432`; absent without standbys. */
  readonly server?: string | undefined
  /** What spans say of the server. */
  readonly target: Attributes
}

interface Server {
  /** Empty for the primary. */
  readonly name: string
  readonly standbys: readonly unknown[]
  readonly config: Pick<DatabaseConfig, 'url'>
}

export const placeOn = ({ name, standbys, config }: Server, lane: Place['lane']): Place => ({
  lane,
  server: name || (standbys.length > 0 ? 'primary' : undefined),
  target: targetOf(config.url),
})

/** Observes the statements of requests: their spans, their durations, and those that are slow. */
export interface Observer {
  readonly slow: SlowQueries
  /** Runs a statement in a span. */
  trace<T>(statement: Statement, origin: Origin, place: Place, run: () => Promise<T>): Promise<T>
  /** Measures a statement. */
  time(origin: Origin, place: Place, ms: number): void
  /** Measures a statement, and records it if it was slow. */
  ran(statement: Statement, origin: Origin, place: Place, ms: number): void
}

export function createObserver(slow: SlowQueries, metrics: Metrics): Observer {
  const durations = metrics.durations(
    'database_query_duration_seconds',
    'Time from sending a statement of a request to its result, or to its first rows.',
    ['kind', 'lane'],
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  )
  const time: Observer['time'] = ({ reader: { kind } }, { lane }, ms) => {
    if (ms >= 0) durations.observe(ms / 1000, kind ?? '', lane)
  }
  return {
    slow,
    trace: (statement, origin, place, run) => (isTracing ? traced(() => stepOf(statement, origin, place), run) : run()),
    time,
    ran(statement, origin, place, ms) {
      time(origin, place, ms)
      if (ms > slow.thresholdMs) slow.record(statement, origin, ms, place)
    },
  }
}

/** Summaries of the statements of plans. */
const summaries = new WeakMap<Statement, QuerySummary>()

function stepOf(statement: Statement, { planner, name }: Origin, { lane, target }: Place): Step {
  const known = summaries.get(statement) ?? summaryOf(statement.text)
  summaries.set(statement, known)
  return statementStep(target, known, {
    // Values are never part of the SQL of plans.
    'db.query.text': statement.text.slice(0, MAX_TEXT),
    'rowhouse.planner': planner,
    'rowhouse.operation': name?.slice(0, MAX_NAME),
    'rowhouse.lane': lane,
  })
}

/** Returns the span of a statement. One that is sent for it, such as its cancellation, is part of it. */
const statementStep = (target: Attributes, { summary, verb, table, text }: QuerySummary, more: Attributes): Step => ({
  name: summary || 'postgresql',
  kind: 'client',
  isInnermost: true,
  attributes: {
    ...target,
    'db.operation.name': verb,
    'db.collection.name': table,
    'db.query.summary': summary || undefined,
    'db.query.text': text,
    ...more,
  },
})

/** Gives each statement of a connection a span, except for those that an observer traces. */
export function traceStatements(client: pg.ClientBase, url: string | undefined): void {
  if (!isTracing) return
  const target = targetOf(url)
  const query = client.query.bind(client) as (...args: unknown[]) => unknown
  client.query = ((...args: unknown[]) => {
    const [sent] = args as [string | { readonly text?: string }]
    const text = typeof sent === 'string' ? sent : sent.text
    if (text === undefined) return query(...args)
    let result: unknown
    const ended = traced(
      () => statementStep(target, summaryOf(text), {}),
      () => {
        result = query(...args)
        return result instanceof EventEmitter ? endOf(result) : result
      },
    )
    if (!(result instanceof EventEmitter)) return ended
    ;(ended as Promise<unknown>).catch(() => undefined)
    return result
  }) as typeof client.query
}

/** Resolves with the end of one of pg's queries. Its owner handles its errors. */
const endOf = (query: EventEmitter): Promise<unknown> =>
  new Promise((resolve, reject) => {
    query.once('end', resolve)
    query.once('error', reject)
  })

/** Returns the attributes of the database. Leaves out user and password. */
function targetOf(url = ''): Attributes {
  const system = { 'db.system.name': 'postgresql' }
  const [first, ...others] = hostUrls(url)
  if (!URL.canParse(first)) return system
  const { hostname, port, pathname } = new URL(first)
  const named = { ...system, 'db.namespace': decodeURIComponent(pathname.slice(1)) || undefined }
  // Of several hosts, any may be the one.
  if (others.length > 0) return named
  return { ...named, 'server.address': hostname || undefined, 'server.port': Number(port || 5432) }
}

const MAX_NAME = 100
/** Maximum length of the SQL in a span. */
const MAX_TEXT = 8 * 1024

/**
 * Returns an SQL comment in the format of sqlcommenter, with the trace of the current request and the names of its route
 * and its operation. Each value is percent-encoded, so none can end the comment.
 * @returns undefined unless the request is traced and its trace is recorded
 */
export function queryTags(name: string | undefined): string | undefined {
  const current = isTracing ? currentTrace() : undefined
  if (!current) return undefined
  const tags = { action: name?.slice(0, MAX_NAME), route: current.route, traceparent: current.traceparent }
  const pairs = Object.entries(tags).flatMap(([key, value]) => (value ? [`${key}='${encoded(value)}'`] : []))
  return ` /*${pairs.join(',')}*/`
}

/** Also encodes what the standard function leaves as it is: quotes, and the characters of comments. Half characters become U+FFFD. */
const encoded = (value: string): string =>
  encodeURIComponent(Buffer.from(value).toString()).replace(/['*!()]/g, (each) => `%${each.charCodeAt(0).toString(16)}`)
