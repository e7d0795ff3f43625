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
  private readonly chunks = new Chunks((chunk) => this.give(chunk))

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
    else this.chunks.take(chunk)
  }
  private readonly finish = (): void => {
    this.chunks.giveSmall()
    this.push(null)
  }

  private give(chunk: Buffer): void {
    this.hash?.update(chunk)
    if (!this.push(chunk)) this.source.pause()
  }
}

/** Gives chunks on as they come, and many small ones as one. */
class Chunks {
  private small: Buffer[] = []
  private readonly give: (chunk: Buffer) => void

  constructor(give: (chunk: Buffer) => void) {
    this.give = give
  }

  take(chunk: Buffer): void {
    if (chunk.length >= SMALL_BYTES) {
      this.giveSmall()
      this.give(chunk)
    } else if (this.small.push(chunk) === MOST_SMALL) this.giveSmall()
  }

  /** Also at the end. */
  giveSmall(): void {
    const [only] = this.small
    if (!only) return
    this.give(this.small.length === 1 ? only : Buffer.concat(this.small))
    this.small = []
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
  meter.once(
    'close',
    watch(
      req,
      (error) => meter.destroy(error),
      minBytesPerSecond,
      () => req.isPaused(),
    ),
  )
  return meter
}

/** A body that is kept in memory as a whole. */
export interface Gathered {
  readonly pieces: readonly Buffer[]
  /** In bytes. */
  readonly size: number
  readonly sha256: Buffer
}

/**
 * Reads the body of a request to its end, and measures it: for one that says that it is short.
 * @throws ServiceError as a `Meter` is ended; the reason of `signal`
 */
export function gatherRequest(
  req: IncomingMessage,
  maxBytes: number,
  minBytesPerSecond: number,
  signal: AbortSignal,
): Promise<Gathered> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = []
    const hash = createHash('sha256')
    const chunks = new Chunks((chunk) => {
      hash.update(chunk)
      pieces.push(chunk)
    })
    let size = 0

    function take(chunk: Buffer): void {
      size += chunk.length
      if (size > maxBytes) fail(tooLarge(maxBytes))
      else chunks.take(chunk)
    }
    function finish(): void {
      release()
      chunks.giveSmall()
      resolve({ pieces, size, sha256: hash.digest() })
    }
    function fail(error: unknown): void {
      release()
      reject(error as Error)
    }
    const aborted = () => fail(signal.reason)
    function release(): void {
      req.off('data', take).off('end', finish)
      signal.removeEventListener('abort', aborted)
      unwatch()
    }

    const unwatch = watch(req, fail, minBytesPerSecond, () => false)
    signal.addEventListener('abort', aborted)
    if (signal.aborted) aborted()
    else req.on('data', take).once('end', finish)
  })
}

/** Sends the body of a request into a stream that takes it apart, and watches it. */
export function feed(req: IncomingMessage, into: Writable, minBytesPerSecond: number): void {
  into.once(
    'close',
    watch(
      req,
      (error) => into.destroy(error),
      minBytesPerSecond,
      () => into.writableNeedDrain,
    ),
  )
  into.once('close', () => req.unpipe(into))
  req.pipe(into)
}

/**
 * Tells when the body of a request is too slow or cut off. The connection stays as it is, for the answer.
 * @param fail is told why
 * @param waits for the store: then it is not slow
 * @returns to be called when nothing more is read
 */
function watch(
  req: IncomingMessage,
  fail: (error: ServiceError) => void,
  minBytesPerSecond: number,
  waits: () => boolean,
): () => void {
  const { socket } = req
  let before = socket.bytesRead
  const timer = setInterval(() => {
    const slow = socket.bytesRead - before < (minBytesPerSecond * WINDOW_MS) / 1000
    if (slow && !waits()) fail(tooSlow())
    before = socket.bytesRead
  }, WINDOW_MS)
  const cut = () => {
    if (!req.complete) fail(badRequest('the body ended early'))
  }
  // Stays: the error of a connection that broke comes a moment after its end.
  req.on('error', cut).on('close', cut)
  return () => {
    clearInterval(timer)
    if (!req.complete) req.pause()
  }
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
