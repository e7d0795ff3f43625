import { createHash, type Hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { Transform, type TransformCallback } from 'node:stream'
import { ServiceError } from 'rowhouse'
import type { FilestoreConfig } from './config.js'
import { badRequest } from './errors.js'

/** Over this time a client has to be as fast as it must. */
const WINDOW_MS = 30_000
const CHUNK_BYTES = 256 * 1024

/**
 * The body of an upload on its way to the store: counted, hashed, and ended with an error when it is too long, too slow
 * or cut off. The connection stays as it is, for the answer.
 */
export class Meter extends Transform {
  size = 0
  private readonly hash: Hash = createHash('sha256')
  private readonly maxBytes: number

  constructor(
    req: IncomingMessage,
    { maxBytes, minBytesPerSecond }: Pick<FilestoreConfig, 'maxBytes' | 'minBytesPerSecond'>,
  ) {
    super({ highWaterMark: CHUNK_BYTES })
    this.maxBytes = maxBytes
    let before = 0
    const watch = setInterval(() => {
      // Who waits for the store is not slow.
      if (this.size - before < (minBytesPerSecond * WINDOW_MS) / 1000 && !this.writableNeedDrain)
        this.destroy(tooSlow())
      before = this.size
    }, WINDOW_MS)
    // Stays: the error of a connection that broke comes a moment after its end.
    const cut = () => {
      if (!req.complete) this.destroy(badRequest('the body ended early'))
    }
    req.on('error', cut).on('close', cut)
    this.once('close', () => {
      clearInterval(watch)
      req.unpipe(this)
      if (!req.complete) req.pause()
    })
    // The error is told to who reads.
    this.on('error', () => {})
    req.pipe(this)
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.size += chunk.length
    if (this.size > this.maxBytes) return done(tooLarge(this.maxBytes))
    this.hash.update(chunk)
    done(null, chunk)
  }

  /** Of all that came through; once. */
  sha256(): Buffer {
    return this.hash.digest()
  }
}

export const tooLarge = (maxBytes: number): ServiceError =>
  new ServiceError(413, 'payload_too_large', `a file has at most ${maxBytes} bytes (plugins.filestore.maxBytes)`)
const tooSlow = () =>
  new ServiceError(408, 'request_timeout', 'the upload is too slow (plugins.filestore.minBytesPerSecond)')
