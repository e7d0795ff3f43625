import { createHash, type Hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { Readable, type Writable } from 'node:stream'
import { type ServiceError, serviceError } from 'rowhouse'
import { badRequest } from './errors.js'

/** The period over which the speed of a client is measured. */
const WINDOW_MS = 30_000
const CHUNK_BYTES = 1024 * 1024
/** A buffer has about a hundred bytes of overhead, so this many smaller ones are merged. */
const SMALL_BYTES = 4096
const MAX_SMALL = 256

/** Bytes on their way to the store: counted, hashed, and ended with an error when there are too many. */
export class Meter extends Readable {
  size = 0
  private readonly chunks = new Chunks((chunk) => this.give(chunk))

  /**
   * @param source what it measures; it ends with the source, errors of which the caller handles
   * @param hash null: no hash is needed, and chunks are not merged, so that a consumer may keep a part of the bytes
   */
  constructor(
    private readonly source: Readable,
    private readonly maxBytes: number,
    private readonly hash: Hash | null = createHash('sha256'),
  ) {
    super({ highWaterMark: CHUNK_BYTES })
    // Its reader gets the error.
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

  /** Returns the hash of all bytes; only once. */
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
    this.chunks.flush()
    this.push(null)
  }

  private give(chunk: Buffer): void {
    this.hash?.update(chunk)
    if (!this.push(chunk)) this.source.pause()
  }
}

/** Passes chunks on, many small ones merged. */
class Chunks {
  private small: Buffer[] = []

  constructor(private readonly give: (chunk: Buffer) => void) {}

  take(chunk: Buffer): void {
    if (chunk.length >= SMALL_BYTES) {
      this.flush()
      this.give(chunk)
    } else if (this.small.push(chunk) === MAX_SMALL) this.flush()
  }

  /** Must be called at the end, too. */
  flush(): void {
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
  const fail = (error: Error) => void meter.destroy(error)
  meter.once(
    'close',
    watch(req, fail, minBytesPerSecond, () => req.isPaused()),
  )
  return meter
}

/** A body in memory. */
export interface BufferedBody {
  readonly pieces: readonly Buffer[]
  /** In bytes. */
  readonly size: number
  readonly sha256: Buffer
}

/**
 * Reads and measures the body of a request that has announced a small size.
 * @throws ServiceError as a `Meter` does; the reason of `signal`
 */
export function bufferRequest(
  req: IncomingMessage,
  maxBytes: number,
  minBytesPerSecond: number,
  signal: AbortSignal,
): Promise<BufferedBody> {
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
      chunks.flush()
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

/** Pipes the body of a request into a parser, and watches it. */
export function pipeRequest(req: IncomingMessage, into: Writable, minBytesPerSecond: number): void {
  const fail = (error: Error) => void into.destroy(error)
  into.once(
    'close',
    watch(req, fail, minBytesPerSecond, () => into.writableNeedDrain),
  )
  into.once('close', () => req.unpipe(into))
  req.pipe(into)
}

/**
 * Reports when the body of a request is too slow or cut off. It leaves the connection open for the answer.
 * @param isPaused whether this server keeps the client waiting, which then is not too slow
 * @returns a function that ends the watch
 */
function watch(
  req: IncomingMessage,
  fail: (error: ServiceError) => void,
  minBytesPerSecond: number,
  isPaused: () => boolean,
): () => void {
  const { socket } = req
  let before = socket.bytesRead
  const timer = setInterval(() => {
    const slow = socket.bytesRead - before < (minBytesPerSecond * WINDOW_MS) / 1000
    if (slow && !isPaused()) fail(tooSlow())
    before = socket.bytesRead
  }, WINDOW_MS)
  const cut = () => {
    if (!req.complete) fail(badRequest('the body ended early'))
  }
  // These listeners stay: the error of a broken connection is emitted shortly after its end.
  req.on('error', cut).on('close', cut)
  return () => {
    clearInterval(timer)
    if (!req.complete) req.pause()
  }
}

/** Measures another stream than a request. @param failure turns an error of it into one for the client */
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
  serviceError(
    'payload-too-large',
    `there is room for ${maxBytes} bytes at most (plugins.filestore.maxBytes, and limits)`,
  )
const tooSlow = () => serviceError('request-timeout', 'the upload is too slow (plugins.filestore.minBytesPerSecond)')
