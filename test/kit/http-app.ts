import { once } from 'node:events'
import { Readable, Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { permissionDenied, serviceError, ServiceError } from '../../core/errors.js'
import { resolveSection } from '../../core/host/resolve-section.js'
import { type AppOptions, createApp } from '../../core/http/app.js'
import { readBody } from '../../core/http/body.js'
import { httpConfig, type HttpConfig } from '../../core/http/config.js'
import { assertSameOrigin, requireJson } from '../../core/http/identity.js'
import { createRouter } from '../../core/http/router.js'
import type { Authenticate } from '../../core/http/admission.js'
import { createTraffic } from '../../core/http/traffic.js'
import { createLogger } from '../../core/observe/log.js'
import { createMetrics } from '../../core/observe/metrics.js'
import type { Schema } from '../../core/json/schema.js'
import type { Session } from '../../core/session.js'
import { HELD } from './held.js'
import { rawRequest } from './raw-http.js'

/** Trusts the header that names `via` and role: these tests are not about proof. */
const trusting: Authenticate = async (req) => {
  const role = String(req.headers['x-test-role'] ?? 'user')
  const via = String(req.headers['x-test-via'] ?? 'token') as Session['via']
  if (role === 'wrong') throw new ServiceError(401, 'access-denied', 'wrong')
  return { role, via, variables: new Map() }
}

/**
 * The HTTP front with two plugins of its own, which answer, fail, wait and break off, and no database.
 * @param http its section of the configuration
 * @param more other options of the app
 */
export async function httpApp(
  t: Test,
  http: object = {},
  more: Partial<AppOptions> = {},
  authenticate: (log: AppOptions['log']) => Authenticate = () => trusting,
) {
  const config = filled(httpConfig, http) as HttpConfig
  const calls: string[] = []
  const errors: unknown[] = []
  const released = new AbortController()
  let text = ''
  const destination = new Writable({
    write(chunk: Buffer, _, done) {
      text += chunk.toString()
      done()
    },
  })
  const log = createLogger({ level: 'info', destination })
  const metrics = createMetrics()
  const app = createApp({
    fast: true,
    config,
    log,
    traffic: createTraffic(config, metrics, HELD),
    authenticate: authenticate(log),
    ready: async () => ({ ready: true, probes: [] }),
    about: () => ({ version: '0.0.0', build: 'abc', database: 'up', links: [] }),
    ...more,
  })
  const one = createRouter()
  one.post('/echo', async (ctx) => {
    calls.push('post')
    const timeoutMs = ctx.get('X-Test-Slow') ? 600_000 : config.jsonTimeoutMs
    try {
      ctx.body = await readBody(ctx.req, { maxBytes: config.maxJsonBytes, timeoutMs })
    } catch (error) {
      errors.push(error)
      throw error
    }
  })
  one.get('/echo', (ctx) => {
    if (ctx.state.session.role === 'head') calls.push('get')
    ctx.body = 'hello'
  })
  one.all('/any', (ctx) => {
    calls.push('any')
    ctx.body = ''
  })
  one.get('/with-head', () => void calls.push('get'))
  one.head('/with-head', (ctx) => {
    calls.push('head')
    ctx.body = 'x'
  })
  one.get('/busy', () => {
    throw serviceError('unavailable', 'all is busy', '$', { cause: new Error('its pool') })
  })
  one.get('/denied', () => {
    throw permissionDenied('not for you', '$.args.columns[0]')
  })
  one.get('/internal', () => {
    throw new ServiceError(400, 'data-exception', 'bad', '$', { internal: { sqlstate: '22012' } })
  })
  one.get('/bug', () => {
    throw Object.assign(new TypeError('a detail of ours'), { detail: 'a bound value' })
  })
  one.get('/half', (ctx) => {
    ctx.set({
      ETag: '"a"',
      'Content-Disposition': 'attachment',
      'Content-Encoding': 'gzip',
      'Cache-Control': 'max-age=60',
    })
    throw new ServiceError(503, 'unavailable', 'later', '$', { retryAfter: 6.2 })
  })
  one.post('/write', (ctx) => {
    requireJson(ctx, ctx.state.session)
    assertSameOrigin(ctx, ctx.state.session)
    ctx.body = 'written'
  })
  one.get('/wait', async (ctx) => {
    calls.push('wait')
    ctx.state.signal.addEventListener('abort', () => calls.push('aborted'))
    await once(released.signal, 'abort', { signal: ctx.state.signal })
    ctx.body = 'done'
  })
  one.get('/endless', (ctx) => {
    ctx.state.signal.addEventListener('abort', () => calls.push('aborted'))
    ctx.body = Readable.from(zeros(), { objectMode: false }).on('close', () => calls.push('ended'))
  })
  one.get('/breaks', (ctx) => {
    ctx.body = Readable.from(breaks('first part'), { objectMode: false })
  })
  one.get('/breaks-at-once', (ctx) => {
    ctx.body = Readable.from(breaks(), { objectMode: false })
  })
  const two = createRouter()
  two.get('/other/denied', () => {
    throw new ServiceError(403, 'access_denied', 'access denied')
  })
  app.use({ name: 'one', router: one })
  app.use({
    name: 'two',
    router: two,
    formatError: ({ code, message }, session) => ({ code, message, to: session?.role }),
  })
  t.teardown(() => app.close())
  if (config.socket) await app.listenOn(config.socket)
  else await app.listen('127.0.0.1', 0)
  const base = `http://127.0.0.1:${app.address?.port}`
  return {
    app,
    base,
    calls,
    errors,
    release: () => released.abort(),
    get: (path: string, headers: Record<string, string> = {}, method = 'GET') =>
      fetch(base + path, { method, headers }),
    post: (body: string, headers: Record<string, string> = {}, path = '/echo') =>
      fetch(base + path, { method: 'POST', body, headers }),
    raw: (bytes: string) => rawRequest(base, bytes),
    lines: () =>
      text
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as Record<string, unknown>),
  }
}

function* zeros() {
  for (;;) yield Buffer.alloc(64 * 1024)
}

async function* breaks(first?: string) {
  if (first !== undefined) {
    yield Buffer.from(first)
    await sleep(50)
  }
  throw new Error('the source is gone')
}

/** A section of the configuration with its defaults. */
export function filled(schema: Schema, config: object): unknown {
  const resolved = resolveSection({ path: '$', schema, value: config, settings: [], where: 'a test' })
  if (!resolved.ok) throw new Error(JSON.stringify(resolved.mistakes))
  return resolved.value
}
