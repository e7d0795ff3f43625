import type { IncomingMessage } from 'node:http'
import { parseFailed, type ServiceError, serviceError } from '../errors.js'

export interface BodyLimits {
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
}

/**
 * Reads a body into memory, up to the limit.
 * @throws ServiceError 413 payload-too-large: declared or actual size exceeds the limit; 415 unsupported-media-type:
 *   compressed; 408 request-timeout: not received in time; 400 parse-failed: it ended early; and what `hold` throws
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

/** Reads a body that has arrived completely, as small bodies usually do together with the headers. */
function whole(req: IncomingMessage, limits: BodyLimits): Buffer {
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
      // Later errors are ignored: the response has been sent.
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
