import { createHash, type Hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { type Readable, Transform, type TransformCallback, type Writable } from 'node:stream'
import { ServiceError } from 'rowhouse'
import { badRequest } from './errors.js'

/** Over this time a client has to be as fast as it must. */
const WINDOW_MS = 30_000
const CHUNK_BYTES = 1024 * 1024

/** Bytes on their way to the store: counted, hashed, and ended with an error when they are too many. */
export class Meter extends Transform {
  size = 0
  private readonly hash: Hash | null
  private readonly maxBytes: number

  /** @param hash null: nobody will ask for it */
  constructor(maxBytes: number, hash: Hash | null = createHash('sha256')) {
    super({ highWaterMark: CHUNK_BYTES })
    this.hash = hash
    this.maxBytes = maxBytes
    // The error is told to who reads.
    this.on('error', () => {})
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.size += chunk.length
    if (this.size > this.maxBytes) return done(tooLarge(this.maxBytes))
    this.hash?.update(chunk)
    done(null, chunk)
  }

  /** Of all that came through; once. */
  sha256(): Buffer {
    if (!this.hash) throw new Error('these bytes were not hashed')
    return this.hash.digest()
  }
}

/** Measures the body of a request. @param hash null: none */
export function meterRequest(
  req: IncomingMessage,
  maxBytes: number,
  minBytesPerSecond: number,
  hash?: Hash | null,
): Meter {
  const meter = new Meter(maxBytes, hash)
  feed(req, meter, minBytesPerSecond)
  return meter
}

/**
 * Sends the body of a request into a stream, and ends that with an error when the body is too slow or cut off. The
 * connection stays as it is, for the answer.
 */
export function feed(req: IncomingMessage, into: Writable, minBytesPerSecond: number): void {
  const { socket } = req
  let before = socket.bytesRead
  const watch = setInterval(() => {
    // Who waits for the store is not slow.
    const slow = socket.bytesRead - before < (minBytesPerSecond * WINDOW_MS) / 1000
    if (slow && !into.writableNeedDrain) into.destroy(tooSlow())
    before = socket.bytesRead
  }, WINDOW_MS)
  const cut = () => {
    if (!req.complete) into.destroy(badRequest('the body ended early'))
  }
  // Stays: the error of a connection that broke comes a moment after its end.
  req.on('error', cut).on('close', cut)
  into.once('close', () => {
    clearInterval(watch)
    req.unpipe(into)
    if (!req.complete) req.pause()
  })
  req.pipe(into)
}

/** Measures another stream. @param failure what an error of that is to the client */
export function meterStream(
  bytes: Readable,
  maxBytes: number,
  failure: (error: Error) => Error = (error) => error,
): Meter {
  const meter = new Meter(maxBytes)
  const fail = (error: Error) => meter.destroy(failure(error))
  if (bytes.errored) fail(bytes.errored)
  bytes.once('error', fail)
  meter.once('close', () => bytes.unpipe(meter).destroy())
  bytes.pipe(meter)
  return meter
}

export const tooLarge = (maxBytes: number): ServiceError =>
  new ServiceError(
    413,
    'payload_too_large',
    `there is room for ${maxBytes} bytes at most (plugins.filestore.maxBytes, and limits)`,
  )
const tooSlow = () =>
  new ServiceError(408, 'request_timeout', 'the upload is too slow (plugins.filestore.minBytesPerSecond)')
