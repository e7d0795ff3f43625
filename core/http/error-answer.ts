import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Readable } from 'node:stream'
import type { Context, Middleware } from 'koa'
import { isCoded } from './body.js'
import { ServiceError, serviceError } from '../errors.js'
import { internalFor } from '../session.js'
import { reset } from './traffic.js'
import { hasRoute, type PluginRoutes } from './router.js'

/** Converts thrown errors into responses. No other code does. */
export function answerErrors(plugins: readonly PluginRoutes[]): Middleware {
  return async (ctx, next) => {
    try {
      await next()
      if (ctx.body instanceof Readable) await firstBytes(ctx, ctx.body)
    } catch (thrown) {
      // The response has started, or the client is gone.
      if (ctx.res.headersSent || !ctx.writable) throw thrown
      const error = toServiceError(ctx, thrown)
      setHeaders(ctx, error)
      send(ctx, JSON.stringify(bodyOf(ctx, error, plugins)))
    }
  }
}

/**
 * Waits for the first bytes of a streamed response, so that an early failure gets an ordinary error response. Also
 * listens for later failures before the pipeline does, which would end the connection normally.
 */
async function firstBytes(ctx: Context, body: Readable): Promise<void> {
  if (body.errored) throw body.errored
  // A middleware with a data listener has started the stream already: waiting would lose data.
  const waits = !ctx.res.headersSent && body.readableFlowing !== true
  if (waits && body.readableLength === 0 && !body.readableEnded && !body.destroyed) {
    const settled = new AbortController()
    const { signal } = settled
    await Promise.race([once(body, 'readable', { signal }), once(body, 'close', { signal })]).finally(() =>
      settled.abort(),
    )
  }
  body.once('error', (error) => answerLateError(ctx, error))
}

/**
 * Handles an error after the middleware has returned, while the response is being sent. Resets the connection, so that
 * the client cannot mistake the partial response for a complete one.
 */
export function answerLateError(ctx: Context, thrown: unknown): void {
  const { res } = ctx
  if (res.writableFinished || res.destroyed || ctx.req.socket.destroyed) return
  const error = toServiceError(ctx, thrown)
  if (res.headersSent) {
    reset(ctx.req.socket)
    return
  }
  setHeaders(ctx, error)
  res.end(JSON.stringify(coreFormat(ctx, error)))
}

function toServiceError(ctx: Context, thrown: unknown): ServiceError {
  const error =
    thrown instanceof ServiceError ? thrown : serviceError('unexpected', 'internal error', '$', { cause: thrown })
  ctx.state.failed(error.code)
  const { code, status } = error
  if (status >= 500) ctx.state.log.error({ err: thrown, code }, 'request failed')
  return error
}

/** Headers that describe the body that was replaced. */
const OF_THE_BODY = [
  'Accept-Ranges',
  'Cache-Control',
  'Content-Disposition',
  'Content-Encoding',
  'Content-Length',
  'Content-Range',
  'Content-Type',
  'ETag',
  'Expires',
  'Last-Modified',
  'Transfer-Encoding',
]

function setHeaders(ctx: Context, error: ServiceError): void {
  for (const name of OF_THE_BODY) ctx.remove(name)
  ctx.status = error.status
  ctx.set('Cache-Control', 'no-store')
  ctx.set('Content-Type', 'application/json; charset=utf-8')
  if (error.retryAfter !== undefined) ctx.set('Retry-After', String(Math.ceil(error.retryAfter)))
  if (error.status === 401) ctx.set('WWW-Authenticate', 'Bearer')
  if (error.status === 415 && isCoded(ctx.req)) ctx.set('Accept-Encoding', 'identity')
  // The rest of the body stays unread, so this connection cannot carry another request.
  if (!ctx.req.complete) ctx.set('Connection', 'close')
}

function bodyOf(ctx: Context, error: ServiceError, plugins: readonly PluginRoutes[]): unknown {
  const { session, plugin } = ctx.state
  const format = plugins.find((each) =>
    plugin === undefined ? session && hasRoute(each.router, ctx) : each.name === plugin,
  )?.formatError
  if (format) return format(error, session)
  return plugin === undefined ? coreFormat(ctx, error) : defaultFormat(ctx, error)
}

/** Formats errors that no route throws, at paths of no plugin that has a format. Contains both `error` and `message` for different clients. */
function coreFormat(ctx: Context, { path, message, code, status }: ServiceError): object {
  const { refusalReason: reason } = ctx.state
  return {
    path,
    error: message,
    code,
    message,
    ...(reason === undefined ? {} : { internal: { reason } }),
    ...(status === 500 ? { request_id: ctx.state.requestId } : {}),
  }
}

/** Statuses that a proxy in front may also return; they get the same format. */
const GATEWAY_STATUSES = new Set([401, 403, 404, 405, 408, 413, 415, 429, 431, 503])

/** Formats errors of plugins without a format of their own. */
function defaultFormat(ctx: Context, error: ServiceError): object {
  const { path, message, code, status } = error
  const { session } = ctx.state
  const internal = session && internalFor(error, session)
  return {
    path,
    error: message,
    code,
    ...(GATEWAY_STATUSES.has(status) ? { message } : {}),
    ...(internal === undefined ? {} : { internal }),
    ...(status === 500 ? { request_id: ctx.state.requestId } : {}),
  }
}

function send(ctx: Context, body: string): void {
  if (ctx.req.complete) {
    ctx.body = body
    return
  }
  ctx.body = Readable.from(lingering(ctx, Buffer.from(body)), { objectMode: false })
  ctx.length = Buffer.byteLength(body)
}

const LINGER_MS = 2_000

/**
 * Delays the end of a complete response. Closing a connection with unread bytes resets it, and a client that is still
 * sending would see the reset before the response.
 */
async function* lingering(ctx: Context, body: Buffer): AsyncGenerator<Buffer> {
  yield body
  ctx.state.answered = true
  await sleep(LINGER_MS, undefined, { signal: ctx.state.signal }).catch(() => {})
}
