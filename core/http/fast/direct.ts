import type { IncomingMessage, ServerResponse } from 'node:http'
import type Router from '@koa/router'
import type { Answer, BytesAnswer, TextAnswer } from '../../answer.js'
import type { Exchange, Handler } from '../exchange.js'
import { LONG } from '../../json/rows.js'
import { isChunked } from '../body.js'
import { JSON_TYPE } from '../respond.js'
import type { PluginRoutes } from '../router.js'
import { SECURITY_HEADERS } from '../response-headers.js'
import type { RequestState } from '../request-state.js'

interface DirectOptions {
  readonly plugins: readonly PluginRoutes[]
  /** Routes of the core. */
  readonly core: Router
  /** Authenticates the caller. */
  readonly enter: (exchange: Exchange) => Promise<void> | void
  /** Returns the CORS headers for an origin. */
  readonly corsHeaders: (origin: string) => readonly string[]
  /** Called with the size of each response, in bytes. */
  readonly sent: (res: ServerResponse, state: RequestState, bytes: number) => void
  /** Lets Koa send a known response or error. */
  readonly throughKoa: (req: IncomingMessage, res: ServerResponse, state: RequestState, outcome: () => Answer) => void
}

/**
 * Handles requests that need nothing but the handler of their route without Koa and its routers, when the response is
 * one string or a small buffer. Unusual requests go through Koa, which runs the same handlers.
 * @returns whether the request is handled here; otherwise pass it to Koa
 */
export function answerPastKoa(
  options: DirectOptions,
): (req: IncomingMessage, res: ServerResponse, state: RequestState) => boolean {
  const find = directRoutes(options.plugins, options.core)

  /** Without `async`: each function that waits takes a kilobyte. */
  function answer(direct: Direct, req: IncomingMessage, res: ServerResponse, state: RequestState): void {
    const { plugin, route, handler } = direct.found
    const exchange = new DirectExchange(req, res, state, direct.params)
    const run = (): Promise<Answer> => {
      state.plugin = plugin
      state.route = route
      return handler(exchange)
    }
    const send = (answer: Answer): void => {
      if (answer.kind === 'stream' || isBodiless(answer)) options.throughKoa(req, res, state, () => answer)
      else if (!res.destroyed) {
        options.sent(res, state, sendDirectly(res, state, answer, options.corsHeaders(exchange.get('origin'))))
      }
    }
    const refuse = (error: unknown): void =>
      options.throughKoa(req, res, state, () => {
        throw error
      })
    try {
      const entering = options.enter(exchange)
      // A handler in JavaScript may return its answer itself.
      Promise.resolve(entering ? entering.then(run) : run())
        .then(send)
        .catch(refuse)
    } catch (error) {
      refuse(error)
    }
  }

  return (req, res, state) => {
    const direct = find(req)
    if (direct) answer(direct, req, res, state)
    return direct !== undefined
  }
}

/** A route of `host.route`. */
interface Known {
  readonly plugin: string
  readonly route: string
  readonly handler: Handler
  readonly parameter?: string
  /** Of a route without parameters. */
  readonly itself: Direct
}
interface Direct {
  readonly found: Omit<Known, 'itself'>
  readonly params: Exchange['params']
}

/** Routes by method and path. */
type Routes = ReadonlyMap<string, ReadonlyMap<string, Known>>

/**
 * Matches requests that need nothing but the handler of their route. Unusual requests go through Koa, which runs the
 * same handlers.
 */
function directRoutes(plugins: readonly PluginRoutes[], core: Router): (req: IncomingMessage) => Direct | undefined {
  let known: Routes | undefined
  return (req) => {
    known ??= routesOf(plugins, core)
    const path = pathOf(req)
    const ofMethod = known.get(req.method ?? '')
    const exact = ofMethod?.get(path)
    if (exact) return isOrdinary(req) ? exact.itself : undefined
    const slash = path.lastIndexOf('/') + 1
    const found = ofMethod?.get(`${path.slice(0, slash)}:`)
    if (!found?.parameter || slash === path.length || !/^[\w.-]+$/.test(path.slice(slash)) || !isOrdinary(req)) return
    return { found, params: { [found.parameter]: path.slice(slash) } }
  }
}

const NONE = Object.freeze({})

function pathOf({ url = '' }: IncomingMessage): string {
  const query = url.indexOf('?')
  return query < 0 ? url : url.slice(0, query)
}

/** Returns the routes whose paths no other route can match, by method and path. A colon replaces the parameter. */
function routesOf(plugins: readonly PluginRoutes[], core: Router): Routes {
  const layers = [core, ...plugins.map(({ router }) => router)].flatMap(({ stack }) => stack)
  const known = new Map<string, Map<string, Known>>()
  for (const { name, router, handlers = [] } of plugins) {
    for (const { method, path, handler } of handlers) {
      const [, prefix = path, one, rest] = /^(.*\/)(?::(\w+)|\{\*(\w+)\})$/.exec(path) ?? []
      const parameter = one ?? rest
      const alone = layers.every(
        (layer) => (layer.path === path && router.stack.includes(layer)) || !mayShare(layer.path, prefix, !parameter),
      )
      if (!alone) continue
      const verb = method.toUpperCase()
      const ofMethod = known.get(verb) ?? new Map<string, Known>()
      known.set(verb, ofMethod)
      const found = { plugin: name, route: path, handler, parameter }
      ofMethod.set(`${prefix}${parameter ? ':' : ''}`, { ...found, itself: { found, params: NONE } })
    }
  }
  return known
}

/** Returns whether another route may match the path `own`, or, unless `whole`, a path that starts with it. */
function mayShare(other: string | RegExp, own: string, whole: boolean): boolean {
  if (typeof other !== 'string') return true
  const [fixed = ''] = other.split(/[:*({\\]/)
  // A parameter is never empty.
  if (fixed === other) return whole ? other === own : other.startsWith(own) && other !== own
  return own.startsWith(fixed) || (!whole && fixed.startsWith(own))
}

function isOrdinary({ httpVersionMinor, headers }: IncomingMessage): boolean {
  const { expect, host, accept, 'transfer-encoding': coding } = headers
  const isPlain = coding === undefined || isChunked(coding)
  return httpVersionMinor >= 1 && expect === undefined && host !== undefined && isPlain && likesJson(accept)
}

/** Returns whether the client accepts any type, or prefers JSON. */
const likesJson = (accept: string | undefined): boolean =>
  accept === undefined ||
  accept === ANY ||
  ((accept === JSON || accept.startsWith(`${JSON},`)) && !accept.includes(';'))
const JSON = 'application/json'
const ANY = '*/*'

/** The exchange of a direct route. Behaves like Koa's context. */
class DirectExchange implements Exchange {
  constructor(
    readonly req: IncomingMessage,
    readonly res: ServerResponse,
    readonly state: RequestState,
    readonly params: Exchange['params'],
  ) {}

  get method(): string {
    return this.req.method ?? ''
  }

  get path(): string {
    return pathOf(this.req)
  }

  get querystring(): string {
    const url = this.req.url ?? ''
    const query = url.indexOf('?')
    return query < 0 ? '' : url.slice(query + 1)
  }

  get(name: string): string {
    const value = this.req.headers[name.toLowerCase()]
    return (typeof value === 'string' ? value : value?.[0]) ?? ''
  }

  set(name: string, value: string): void {
    this.res.setHeader(name, value)
  }

  accepts(...types: string[]): string | false {
    const { accept = ANY } = this.req.headers
    if (accept === ANY) return types[0] ?? false
    const liked = accept.split(',').map((type) => type.trim())
    for (const like of liked) {
      const found = types.find((type) => like === type || like === ANY || like === type.replace(/[^/]+$/, '*'))
      if (found !== undefined) return found
    }
    return false
  }
}

/** Returns whether a status has no body, whatever the handler returned. */
const isBodiless = ({ status }: { readonly status?: number }): boolean =>
  status === 204 || status === 205 || status === 304

/** Maximum size of a body that is sent in one piece with its headers, in bytes. */
const SMALL = 4096

/** Returns the bytes of a long text, which Node would encode twice: to measure it, and to send it. */
const encodedOnce = (text: string): string | Buffer => (text.length > LONG ? Buffer.from(text) : text)

/** Sends a complete response. @returns the size of its body in bytes */
function sendDirectly(
  res: ServerResponse,
  state: RequestState,
  answer: (TextAnswer | BytesAnswer) & { readonly status?: number },
  more: readonly string[],
): number {
  if (state.timing?.hasSteps) res.setHeader('Server-Timing', String(state.timing))
  const whole = answer.kind === 'text' ? encodedOnce(answer.text) : answer.bytes
  const bytes = Buffer.byteLength(whole)
  const own = res.getHeaderNames()
  const headers = SECURITY_HEADERS.filter(
    (_, i) => own.length === 0 || !own.includes(SECURITY_HEADERS[i - (i % 2)]!.toLowerCase()),
  )
  headers.push(...more, 'X-Request-Id', state.requestId)
  headers.push('Content-Type', answer.contentType ?? JSON_TYPE, 'Content-Length', String(bytes))
  res.writeHead(answer.status ?? 200, headers)
  // Each character of the header text is one byte, so latin1 preserves any body.
  if (typeof whole !== 'string' && whole.length <= SMALL) res.end(whole.toString('latin1'), 'latin1')
  else res.end(whole)
  return bytes
}
