import type { IncomingMessage } from 'node:http'
import { parseFailed, type ServiceError, serviceError } from '../errors.js'
import type { Eventual } from '../deadline.js'
import { ADMIN_LIMITS, decodeUtf8, DEFAULT_LIMITS, type Json, type JsonLimits, parseJson } from '../json/parse.js'
import { LONG } from '../json/rows.js'
import { sha256 } from '../request-headers.js'
import { isAdmin, type Session } from '../session.js'
import { timed } from '../observe/timing.js'
import type { HttpConfig } from './config.js'
import { assertSameOrigin, requireJson } from './identity.js'
import type { Exchange } from './exchange.js'
import { LARGE } from './traffic.js'

export interface JsonReading {
  /** Matches the paths, such as `/args/objects`, of arrays of rows to insert. They are checked but not parsed. */
  readonly rowsAt?: RegExp | undefined
  /** Allows the role admin `http.maxAdminJsonBytes`, for routes that take whole metadata or rows. */
  readonly largeForAdmin?: boolean
  /** Value of an empty body. Without it, an empty body is invalid JSON. */
  readonly empty?: Json
}

/** Larger bodies, in bytes, may take a millisecond to read, lift and bind, and so are taken in turns. */
const SHORT = 4 * 1024

/**
 * Reads the JSON body of a request that may change something. Enforces the configured limits and same-origin.
 * @throws ServiceError 400, 403, 408, 413, 415, 429
 */
export function readJson(ctx: Omit<Exchange, 'params'>, reading: JsonReading = {}): Eventual<Json> {
  const { req, state } = ctx
  requireJson(ctx, state.session)
  assertSameOrigin(ctx, state.session)
  const limits = limitsFor(state.limits, state.session, reading.largeForAdmin)
  // Small bodies usually arrive together with the headers.
  if (!req.complete || req.readableLength > SHORT) return readLong(ctx, reading, limits)
  assertNotCoded(req)
  return parseShort(readComplete(req, limits), ctx, reading, limits)
}

function parseShort(
  body: Buffer,
  { state: { timing, keyed } }: Pick<Exchange, 'state'>,
  { rowsAt, empty }: JsonReading,
  { json }: JsonBodyLimits,
): Json {
  keyed?.add(sha256(body).toString('hex'))
  if (body.length === 0 && empty !== undefined) return empty
  return timing
    ? timed(timing, 'parse', () => parseJson(decodeUtf8(body), json, rowsAt))
    : parseJson(decodeUtf8(body), json, rowsAt)
}

async function readLong(
  ctx: Omit<Exchange, 'params'>,
  reading: JsonReading,
  limitsOfBody: JsonBodyLimits,
): Promise<Json> {
  const { session, limits, held, timing, keyed } = ctx.state
  const { maxBytes, setting, json } = limitsOfBody
  const { rowsAt } = reading
  const body = await readBody(ctx.req, {
    maxBytes,
    setting,
    timeoutMs: limits.jsonTimeoutMs,
    hold: (bytes, size) => held.receive(session, bytes, size),
    turn: (bytes) => held.turn(session, ctx.res, bytes, limits.jsonTimeoutMs),
  })
  if (body.length <= SHORT) return parseShort(body, ctx, reading, limitsOfBody)
  keyed?.add(sha256(body).toString('hex'))
  if (body.length <= LONG) {
    await held.round(session)
    return timed(timing, 'parse', () => parseJson(decodeUtf8(body), json, rowsAt))
  }
  held.keep(session, ctx.res, body.length)
  if (body.length <= LARGE) await held.turn(session, ctx.res, body.length, limits.jsonTimeoutMs)
  const { parseInWorker } = await import('../long/pool.js')
  const { signal } = ctx.state
  const value = await timed(timing, 'parse', () =>
    parseInWorker(body, json, rowsAt, { caller: session.caller, signal }),
  )
  await held.round(session)
  return value
}

/** What a JSON body may have. */
interface JsonBodyLimits {
  readonly maxBytes: number
  readonly setting: string
  readonly json: JsonLimits
}
type Callers = 'admin' | 'largeAdmin' | 'anonymous' | 'others'
const known = new WeakMap<HttpConfig, Readonly<Record<Callers, JsonBodyLimits>>>()

function limitsFor(config: HttpConfig, session: Session, largeForAdmin: boolean | undefined): JsonBodyLimits {
  let limits = known.get(config)
  if (!limits) known.set(config, (limits = limitsOf(config)))
  if (isAdmin(session)) return largeForAdmin ? limits.largeAdmin : limits.admin
  return session.role === 'anonymous' ? limits.anonymous : limits.others
}

function limitsOf(config: HttpConfig): Readonly<Record<Callers, JsonBodyLimits>> {
  const of = (
    bytes: 'maxJsonBytes' | 'maxAdminJsonBytes' | 'maxAnonymousJsonBytes',
    values?: 'maxJsonValues' | 'maxAnonymousJsonValues',
  ): JsonBodyLimits => ({
    maxBytes: config[bytes],
    setting: `http.${bytes}`,
    json: {
      ...(bytes === 'maxAdminJsonBytes' ? ADMIN_LIMITS : DEFAULT_LIMITS),
      ...(values ? { maxValues: config[values], setting: `http.${values}` } : {}),
    },
  })
  return {
    admin: of('maxJsonBytes'),
    largeAdmin: of('maxAdminJsonBytes'),
    anonymous: of(
      config.maxAnonymousJsonBytes < config.maxJsonBytes ? 'maxAnonymousJsonBytes' : 'maxJsonBytes',
      config.maxAnonymousJsonValues < config.maxJsonValues ? 'maxAnonymousJsonValues' : 'maxJsonValues',
    ),
    others: of('maxJsonBytes', 'maxJsonValues'),
  }
}

interface BodyLimits {
  readonly maxBytes: number
  /** Name of the setting for `maxBytes`, used in the message. */
  readonly setting?: string
  /** Maximum time to receive the whole body, in milliseconds. */
  readonly timeoutMs: number
  /**
   * Counts bytes buffered for the rest of the body; a negative number releases them.
   * @param size bytes received so far
   * @throws ServiceError when too much is buffered
   */
  hold?(bytes: number, size: number): void
  /**
   * Waits until a body of more than `LARGE` bytes may be received.
   * @param bytes its size, as far as it is known
   * @throws ServiceError when this takes too long
   */
  turn?: ((bytes: number) => Promise<void>) | undefined
}

/**
 * Reads a body into memory, up to the limit.
 * @throws ServiceError 413 payload-too-large: declared or actual size exceeds the limit; 415 unsupported-media-type:
 *   compressed; 408 request-timeout: not received in time; 400 parse-failed: it ended early; and what `hold` throws
 */
export async function readBody(req: IncomingMessage, limits: BodyLimits): Promise<Buffer> {
  assertNotCoded(req)
  const length = Number(req.headers['content-length'] ?? 0)
  if (length > limits.maxBytes) throw tooLarge(limits)
  if (req.complete) return readComplete(req, limits)
  if (length > LARGE) {
    await limits.turn?.(length)
    limits = { ...limits, turn: undefined }
  }
  const body = await collect(req, limits)
  if (!req.complete) throw endedEarly()
  return body
}

/** Returns whether a body is in chunks and not in another transfer coding, such as `gzip, chunked`. */
export const isChunked = (coding: string): boolean => coding.toLowerCase() === 'chunked'

/** Returns whether the body is compressed. `identity` means that it is not. */
export const isCoded = ({ headers }: IncomingMessage): boolean =>
  headers['content-encoding'] !== undefined && !/^[\s,]*(identity[\s,]*)*$/i.test(headers['content-encoding'])

/** @throws ServiceError 415 unsupported-media-type for a compressed body; the answer has `Accept-Encoding` */
export function assertNotCoded(req: IncomingMessage): void {
  if (!isCoded(req)) return
  const coding = req.headers['content-encoding']
  throw serviceError('unsupported-media-type', `Content-Encoding "${coding}" is not supported`)
}

/** Reads a body that has arrived completely, as small bodies usually do together with the headers. */
function readComplete(req: IncomingMessage, limits: Pick<BodyLimits, 'maxBytes' | 'setting'>): Buffer {
  if (req.readableLength > limits.maxBytes) throw tooLarge(limits)
  return (req.read() as Buffer | null) ?? NOTHING
}
const NOTHING = Buffer.alloc(0)

/**
 * Reads a body with event listeners. The iterator and the pipeline of a stream destroy it when they stop early, and the
 * socket is still needed to send the error.
 */
function collect(req: IncomingMessage, limits: BodyLimits): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    /** Of a long body. To put its chunks together at its end would take long. */
    let whole: Buffer | undefined
    let size = 0
    let { turn } = limits
    let isDone = false

    let timer = setTimeout(onLate, limits.timeoutMs)
    req.on('data', onData).on('end', onEnd).on('error', onGone).on('close', onGone)
    if (req.destroyed) onGone()

    function onData(chunk: Buffer) {
      const start = size
      size += chunk.length
      try {
        limits.hold?.(chunk.length, size)
        if (size > limits.maxBytes) throw tooLarge(limits)
        if (size <= LONG) chunks.push(chunk)
        else (whole ??= startOf(chunks, req, limits)).set(chunk, start)
        if (size > LARGE && turn) void wait(turn)
      } catch (error) {
        stop(error as ServiceError)
      }
    }
    async function wait(forTurn: (bytes: number) => Promise<void>) {
      turn = undefined
      req.pause()
      clearTimeout(timer)
      try {
        // The size of a body in chunks is not known.
        await forTurn(limits.maxBytes)
        if (isDone) return
        timer = setTimeout(onLate, limits.timeoutMs)
        req.resume()
      } catch (error) {
        stop(error as ServiceError)
      }
    }
    function onLate() {
      stop(tooSlow(limits))
    }
    function onEnd() {
      detach()
      resolve(whole?.subarray(0, size) ?? (chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size)))
    }
    function onGone() {
      stop(endedEarly())
    }
    function stop(error: ServiceError) {
      if (isDone) return
      detach()
      req.pause()
      reject(error)
    }
    function detach() {
      isDone = true
      clearTimeout(timer)
      limits.hold?.(-size, 0)
      // Later errors are ignored: the response has been sent.
      req.on('error', ignore).off('data', onData).off('end', onEnd).off('error', onGone).off('close', onGone)
    }
  })
}

/** Returns the memory for a long body, with its first chunks. The system provides it as it is written to. */
function startOf(chunks: readonly Buffer[], { headers }: IncomingMessage, { maxBytes }: BodyLimits): Buffer {
  const whole = Buffer.allocUnsafeSlow(Number(headers['content-length'] ?? maxBytes))
  let at = 0
  for (const chunk of chunks) {
    whole.set(chunk, at)
    at += chunk.length
  }
  return whole
}

const ignore = () => {}

const tooLarge = ({ maxBytes, setting = 'http.maxJsonBytes' }: Pick<BodyLimits, 'maxBytes' | 'setting'>) =>
  serviceError('payload-too-large', `the body is longer than ${maxBytes} bytes (${setting})`)
const tooSlow = ({ timeoutMs }: BodyLimits) =>
  serviceError('request-timeout', `the body did not arrive within ${timeoutMs} ms (http.jsonTimeoutMs)`)
const endedEarly = () => parseFailed('the body ended early', '$')
