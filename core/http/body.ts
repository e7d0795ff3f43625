import type { IncomingMessage } from 'node:http'
import { parseFailed, type ServiceError, serviceError } from '../errors.js'

export interface BodyLimits {
  readonly maxBytes: number
  /** The setting that `maxBytes` comes from, for the message. */
  readonly setting?: string
  /** For the whole body. */
  readonly timeoutMs: number
  /**
   * Counts bytes that wait for the rest of the body, or with a negative number takes them back.
   * @param size of the body so far
   * @throws ServiceError too many wait
   */
  hold?(bytes: number, size: number): void
}

/**
 * Reads a body into memory, never more of it than allowed.
 * @throws ServiceError 413 payload-too-large: declared or found to be longer; 415 unsupported-media-type: compressed;
 *   408 request-timeout: not here in time; 400 parse-failed: it ended early; and what `hold` throws
 */
export async function readBody(req: IncomingMessage, limits: BodyLimits): Promise<Buffer> {
  const encoding = req.headers['content-encoding']
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw serviceError('unsupported-media-type', `Content-Encoding "${encoding}" is not supported`)
  }
  if (Number(req.headers['content-length'] ?? 0) > limits.maxBytes) throw tooLarge(limits)
  if (req.complete) return whole(req, limits)
  const body = await collect(req, limits)
  if (!req.complete) throw endedEarly()
  return body
}

/** A small body mostly comes with its headers: there is nothing to wait for. */
function whole(req: IncomingMessage, limits: BodyLimits): Buffer {
  if (req.readableLength > limits.maxBytes) throw tooLarge(limits)
  return (req.read() as Buffer | null) ?? NOTHING
}
const NOTHING = Buffer.alloc(0)

/**
 * Listens by hand, because the iterator and the pipeline of a stream destroy it when they stop early, and with it the
 * socket that has to carry the error.
 */
function collect(req: IncomingMessage, limits: BodyLimits): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0

    const timer = setTimeout(() => stop(tooSlow(limits)), limits.timeoutMs)
    req.on('data', onData).on('end', onEnd).on('error', onGone).on('close', onGone)
    if (req.destroyed) onGone()

    function onData(chunk: Buffer) {
      size += chunk.length
      chunks.push(chunk)
      try {
        limits.hold?.(chunk.length, size)
        if (size > limits.maxBytes) throw tooLarge(limits)
      } catch (error) {
        stop(error as ServiceError)
      }
    }
    function onEnd() {
      detach()
      resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size))
    }
    function onGone() {
      stop(endedEarly())
    }
    function stop(error: ServiceError) {
      detach()
      req.pause()
      reject(error)
    }
    function detach() {
      clearTimeout(timer)
      limits.hold?.(-size, 0)
      // What breaks from here on has been answered.
      req.on('error', ignore).off('data', onData).off('end', onEnd).off('error', onGone).off('close', onGone)
    }
  })
}

const ignore = () => {}

const tooLarge = ({ maxBytes, setting = 'http.maxJsonBytes' }: BodyLimits) =>
  serviceError('payload-too-large', `the body is longer than ${maxBytes} bytes (${setting})`)
const tooSlow = ({ timeoutMs }: BodyLimits) =>
  serviceError('request-timeout', `the body did not arrive within ${timeoutMs} ms (http.jsonTimeoutMs)`)
const endedEarly = () => parseFailed('the body ended early', '$')
