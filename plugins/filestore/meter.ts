import { createHash, type Hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { Readable, type Writable } from 'node:stream'
import { type ServiceError, serviceError } from 'rowhouse'
import { badRequest, TooLarge } from './errors.js'

/** The period over which the speed of a client is measured. */
const WINDOW_MS = 30_000
const CHUNK_BYTES = 1024 * 1024
/** Up to `MAX_SMALL` smaller chunks are merged, because a buffer has about a hundred bytes of overhead. */
const SMALL_BYTES = 4096
const MAX_SMALL = 256

/** Counts and hashes bytes on their way to the store. Fails when there are too many. */
export class Meter extends Readable {
  size = 0
  private readonly chunks = new Chunks((chunk) => this.pass(chunk))

  /**
   * @param source the stream to measure. The caller handles its errors
   * @param hash null to compute no hash. Chunks are then not merged, so that none is held back when the body breaks off
   */
  constructor(
    private readonly source: Readable,
    private readonly maxBytes: number,
    private readonly hash: Hash | null = createHash('sha256'),
  ) {
    super({ highWaterMark: CHUNK_BYTES })
    // The reader gets the error.
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

  /** Returns the hash of all bytes. Call it once. */
  sha256(): Buffer {
    if (!this.hash) throw new Error('these bytes were not hashed')
    return this.hash.digest()
  }

  private readonly measure = (chunk: Buffer): void => {
    this.size += chunk.length
    if (this.size > this.maxBytes) this.destroy(new TooLarge(this.maxBytes))
    else if (!this.hash) this.pass(chunk)
    else this.chunks.add(chunk)
  }
  private readonly finish = (): void => {
    this.chunks.flush()
    this.push(null)
  }

  private pass(chunk: Buffer): void {
    this.hash?.update(chunk)
    if (!this.push(chunk)) this.source.pause()
  }
}

/** Passes chunks on, many small ones merged. */
class Chunks {
  private small: Buffer[] = []

  constructor(private readonly pass: (chunk: Buffer) => void) {}

  add(chunk: Buffer): void {
    if (chunk.length >= SMALL_BYTES) {
      this.flush()
      this.pass(chunk)
    } else if (this.small.push(chunk) === MAX_SMALL) this.flush()
  }

  /** Call it at the end, too. */
  flush(): void {
    const [only] = this.small
    if (!only) return
    this.pass(this.small.length === 1 ? only : Buffer.concat(this.small))
    this.small = []
  }
}

/** Measures the body of a request. @param hash as for `Meter` */
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
 * Reads the body of a request with a small announced size into memory, and measures it.
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

    function receive(chunk: Buffer): void {
      size += chunk.length
      if (size > maxBytes) fail(new TooLarge(maxBytes))
      else chunks.add(chunk)
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
      req.off('data', receive).off('end', finish)
      signal.removeEventListener('abort', aborted)
      unwatch()
    }

    const unwatch = watch(req, fail, minBytesPerSecond, () => false)
    signal.addEventListener('abort', aborted)
    if (signal.aborted) aborted()
    else req.on('data', receive).once('end', finish)
  })
}

/** Pipes the body of a request into a parser, and watches its speed. */
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
 * Reports when the body of a request is too slow or cut off. Leaves the connection open for the answer.
 * @param isPaused returns whether this server keeps the client waiting, which then does not count as slow
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

/** Measures a stream other than a request. @param failure converts the stream's error into one for the client */
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

const tooSlow = () => serviceError('request-timeout', 'the upload is too slow (plugins.filestore.minBytesPerSecond)')
