import type { IncomingMessage } from 'node:http'
import type * as Api from '@opentelemetry/api'
import type { Logger } from './log.js'

/** Attributes of a span. Never values of requests. */
export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>

/** Adds attributes to a span. */
export type Note = (attributes: Attributes) => void

/** Set when an OpenTelemetry SDK is registered. One per process, as in the API itself. */
let tracing: { readonly api: typeof Api; readonly tracer: Api.Tracer } | undefined

/** Where the API keeps the SDK that is registered in this process. */
const REGISTERED = Symbol.for('opentelemetry.js.api.1')

/** Loads the OpenTelemetry API if an SDK is registered in this process. Without one, tracing costs nothing. */
export async function loadTracing(log: Logger): Promise<void> {
  const registered = (globalThis as { [REGISTERED]?: { readonly trace?: unknown; readonly version?: string } })[
    REGISTERED
  ]
  if (!registered?.trace || tracing) return
  const api = await import('@opentelemetry/api').catch(() => undefined)
  // The API ignores an SDK of an older version.
  if (api?.trace.getTracerProvider() === registered.trace) {
    tracing = { api, tracer: api.trace.getTracer('rowhouse') }
    isTracing = true
  } else {
    const version = registered.version ?? ''
    log.warn({ version }, 'no traces: install @opentelemetry/api beside rowhouse, in the version of the tracing SDK')
  }
}

/** Whether spans are recorded. */
export let isTracing = false

/** Returns the pattern of a request's route, once it is known. */
type Route = () => string | undefined

/** The span of a request. */
export interface RequestSpan {
  /** Runs `fn` as part of the request. */
  run(fn: () => void): void
  readonly traceId: string
  end(status: number, attributes: Attributes): void
}

/** Probes ask every few seconds, and say nothing about the clients. */
const UNTRACED = new Set(['/healthz', '/readyz'])
const MAX_METHOD = 32
const MAX_AGENT = 256
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH'])

/**
 * Starts the span of a request, as a part of the trace that its header `traceparent` names.
 * @param route called when it ends
 * @param client returns what is known of the client and of the address that it used
 * @returns undefined without a tracing SDK, and for health checks
 */
export function startRequest(
  { method = '', url, headers, httpVersion }: Pick<IncomingMessage, 'method' | 'url' | 'headers' | 'httpVersion'>,
  route: Route,
  client: () => Attributes,
): RequestSpan | undefined {
  if (!tracing || UNTRACED.has(url ?? '')) return undefined
  const { context, propagation, trace, SpanKind, SpanStatusCode } = tracing.api
  const active = context.active()
  // An instrumentation of node:http has read the headers already. Baggage would go on to providers.
  const parent = trace.getSpan(active) ? active : propagation.extract(active, headers)
  const known = METHODS.has(method) ? method : '_OTHER'
  const attributes = {
    ...client(),
    'http.request.method': known,
    'http.request.method_original': known === method ? undefined : method.slice(0, MAX_METHOD),
    'network.protocol.version': httpVersion,
    'user_agent.original': headers['user-agent']?.slice(0, MAX_AGENT),
  }
  const span = tracing.tracer.startSpan(known, { kind: SpanKind.SERVER, attributes }, parent)
  const inside = trace.setSpan(propagation.deleteBaggage(parent), span).setValue(routeKey(), route)
  return {
    traceId: span.spanContext().traceId,
    run: (fn) => context.with(inside, fn),
    end(status, more) {
      const pattern = route()
      if (pattern !== undefined) span.updateName(`${known === '_OTHER' ? 'HTTP' : known} ${pattern}`)
      span.setAttributes({ ...more, 'http.route': pattern, 'http.response.status_code': status })
      if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR }).setAttribute('error.type', String(status))
      span.end()
    },
  }
}

let key: symbol | undefined
const routeKey = (): symbol => (key ??= tracing!.api.createContextKey('rowhouse route'))
let innermost: symbol | undefined
const innermostKey = (): symbol => (innermost ??= tracing!.api.createContextKey('rowhouse innermost'))

/** How a step is traced. */
export interface Step {
  readonly name: string
  /** `client`: a request to another system. */
  readonly kind?: 'client'
  readonly attributes: Attributes
  /** Whether it is also traced outside of requests, as a trace of its own. */
  readonly isRoot?: true
  /** Whether such a step inside of it has no span of its own, as for a statement that is part of another. */
  readonly isInnermost?: true
}

export const ignore: Note = () => {}

/** Runs a step in a span. @see traced */
export function inSpan<T>({ name, kind, attributes, isRoot, isInnermost }: Step, run: (note: Note) => T): T {
  const { api, tracer } = tracing!
  if (!isRoot && !api.trace.getActiveSpan()) return run(ignore)
  const active = api.context.active()
  if (isInnermost && active.getValue(innermostKey())) return run(ignore)
  const options = { kind: kind ? api.SpanKind.CLIENT : api.SpanKind.INTERNAL, attributes }
  const inside = isInnermost ? active.setValue(innermostKey(), true) : active
  return tracer.startActiveSpan(name, options, inside, (span) => {
    const result = run((more) => span.setAttributes(more))
    // A span that does not end is not exported.
    if (!(result instanceof Promise)) return result
    return result
      .catch((error: unknown) => {
        span.setStatus({ code: api.SpanStatusCode.ERROR }).setAttributes(reasonOf(error))
        throw error
      })
      .finally(() => span.end()) as T
  })
}

function reasonOf(error: unknown): Attributes {
  if (!(error instanceof Error)) return { 'error.type': '_OTHER' }
  const { cause = error } = error
  const isOfDatabase = cause instanceof Error && 'severity' in cause
  const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name
  return {
    'error.type': code,
    'db.response.status_code': isOfDatabase && 'code' in cause ? String(cause.code) : undefined,
  }
}

/** Returns the headers that make a request to another system part of the current trace. */
export function traceHeaders(): Record<string, string> {
  const headers: Record<string, string> = {}
  if (tracing) tracing.api.propagation.inject(tracing.api.context.active(), headers)
  return headers
}

/** The trace of the current request, if it is recorded. */
export function currentTrace(): { readonly traceparent: string; readonly route: string | undefined } | undefined {
  if (!tracing) return undefined
  const { context, trace, TraceFlags } = tracing.api
  const active = context.active()
  const span = trace.getSpanContext(active)
  if (!span || (span.traceFlags & TraceFlags.SAMPLED) === 0) return undefined
  const route = active.getValue(routeKey()) as Route | undefined
  return { traceparent: `00-${span.traceId}-${span.spanId}-01`, route: route?.() }
}

/** The server that an object asks. */
export interface AskedServer {
  readonly address: string
  readonly port: number
}

/**
 * Returns an object whose asynchronous methods run in spans named after them.
 * @param name `email` for a span `email.send`
 * @param server the server that the methods ask, if they ask one
 */
export function tracedMethods<T extends object>(
  object: T,
  name: string,
  given: Attributes,
  server: AskedServer | undefined,
): T {
  if (!isTracing) return object
  const attributes = server ? { ...given, 'server.address': server.address, 'server.port': server.port } : given
  const kind = server && { kind: 'client' as const }
  const methods = new Map<string | symbol, unknown>()
  const wrap = (method: (...args: unknown[]) => unknown, property: string) => {
    const step: Step = { name: `${name}.${property}`, attributes, isRoot: true, ...kind }
    return (...args: unknown[]) => inSpan(step, () => Reflect.apply(method, object, args))
  }
  // The object itself may be frozen, and then no method could be replaced.
  return new Proxy(Object.create(object) as T, {
    get(_, property) {
      const value: unknown = Reflect.get(object, property, object)
      if (typeof value !== 'function' || typeof property !== 'string') return value
      const known = methods.get(property)
      if (known) return known
      const made = wrap(value as (...args: unknown[]) => unknown, property)
      methods.set(property, made)
      return made
    },
  })
}
