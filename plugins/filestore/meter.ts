import { createHash, type Hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { Readable, type Writable } from 'node:stream'
import { ServiceError } from 'rowhouse'
import { badRequest } from './errors.js'

/** Over this time a client has to be as fast as it must. */
const WINDOW_MS = 30_000
const CHUNK_BYTES = 1024 * 1024
/** A buffer costs about a hundred bytes beside its own: so many smaller ones are made one. */
const SMALL_BYTES = 4096
const MOST_SMALL = 256

/** Bytes on their way to the store: counted, hashed, and ended with an error when they are too many. */
export class Meter extends Readable {
  size = 0
  private readonly hash: Hash | null
  private readonly maxBytes: number
  private readonly source: Readable
  /** Chunks that are not given on yet. */
  private small: Buffer[] = []

  /**
   * @param source what it measures; its end is the end, its errors are for the caller to tell
   * @param hash null: nobody will ask for it, and each chunk is given on as it comes, for who keeps a part of the bytes
   */
  constructor(source: Readable, maxBytes: number, hash: Hash | null = createHash('sha256')) {
    super({ highWaterMark: CHUNK_BYTES })
    this.source = source
    this.hash = hash
    this.maxBytes = maxBytes
    // The error is told to who reads.
    this.on('error', () => {})
    source.on('data', this.measure).once('end', this.finish)
  }

  override _read(): void {
    this.source.resume()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.source.off('data', this.measure).off('end', this.finish)
    done(error)
  }

  /** Of all that came through; once. */
  sha256(): Buffer {
    if (!this.hash) throw new Error('these bytes were not hashed')
    return this.hash.digest()
  }

  private readonly measure = (chunk: Buffer): void => {
    this.size += chunk.length
    if (this.size > this.maxBytes) this.destroy(tooLarge(this.maxBytes))
    else if (!this.hash) this.give(chunk)
    else if (chunk.length >= SMALL_BYTES) {
      this.giveSmall()
      this.give(chunk)
    } else if (this.small.push(chunk) === MOST_SMALL) this.giveSmall()
  }
  private readonly finish = (): void => {
    this.giveSmall()
    this.push(null)
  }

  private giveSmall(): void {
    const [only] = this.small
    if (!only) return
    this.give(this.small.length === 1 ? only : Buffer.concat(this.small))
    this.small = []
  }

  private give(chunk: Buffer): void {
    this.hash?.update(chunk)
    if (!this.push(chunk)) this.source.pause()
  }
}

/** Measures the body of a request. @param hash null: none */
export function meterRequest(
  req: IncomingMessage,
  maxBytes: number,
  minBytesPerSecond: number,
  hash?: Hash | null,
): Meter {
  const meter = new Meter(req, maxBytes, hash)
  watch(req, meter, minBytesPerSecond, () => req.isPaused())
  return meter
}

/** Sends the body of a request into a stream that takes it apart, and watches it. */
export function feed(req: IncomingMessage, into: Writable, minBytesPerSecond: number): void {
  watch(req, into, minBytesPerSecond, () => into.writableNeedDrain)
  into.once('close', () => req.unpipe(into))
  req.pipe(into)
}

/**
 * Ends a stream with an error when the body of the request that it is made of is too slow or cut off. The connection stays
 * as it is, for the answer.
 * @param waits for the store: then it is not slow
 */
function watch(
  req: IncomingMessage,
  stream: Readable | Writable,
  minBytesPerSecond: number,
  waits: () => boolean,
): void {
  const { socket } = req
  let before = socket.bytesRead
  const timer = setInterval(() => {
    const slow = socket.bytesRead - before < (minBytesPerSecond * WINDOW_MS) / 1000
    if (slow && !waits()) stream.destroy(tooSlow())
    before = socket.bytesRead
  }, WINDOW_MS)
  const cut = () => {
    if (!req.complete) stream.destroy(badRequest('the body ended early'))
  }
  // Stays: the error of a connection that broke comes a moment after its end.
  req.on('error', cut).on('close', cut)
  stream.once('close', () => {
    clearInterval(timer)
    if (!req.complete) req.pause()
  })
}

/** Measures another stream. @param failure what an error of that is to the client */
export function meterStream(
  bytes: Readable,
  maxBytes: number,
  failure: (error: Error) => Error = (error) => error,
): Meter {
  const meter = new Meter(bytes, maxBytes)
  const fail = (error: Error) => meter.destroy(failure(error))
  if (bytes.errored) fail(bytes.errored)
  bytes.once('error', fail)
  meter.once('close', () => bytes.destroy())
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
