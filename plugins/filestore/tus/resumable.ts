import { createHash, type Hash } from 'node:crypto'
import { addAbortSignal } from 'node:stream'
import { type Call, ServiceError, serviceError } from 'rowhouse'
import { callerOf } from '../caller.js'
import type { Components } from '../components.js'
import { limitsOf } from '../config.js'
import { type Meter, meterStream } from '../meter.js'
import { checkQuota } from '../quota.js'
import { storeFailure } from '../uploads.js'
import { type Checksum, mismatch } from './protocol.js'
import type { NewUpload, Upload, UploadRecords } from './records.js'
import type { Staging } from './staging.js'
import { UploadLocks } from './upload-lock.js'

/** The body of a request for an upload. */
export interface Chunk {
  /** `Upload-Offset`. */
  readonly offset: number
  /** Announced length; undefined if there is none. */
  readonly length: number | undefined
  readonly checksum: Checksum | undefined
  /** Starts reading the body. */
  readonly open: (maxBytes: number) => Meter
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal
}

export interface Progress {
  readonly upload: Upload
  readonly offset: number
  readonly expiresAt: Date
}

/** Stages the bytes of resumable uploads on the disk, and stores the file when all have arrived. */
export class ResumableUploads {
  private readonly locks = new UploadLocks()
  private readonly closing = new AbortController()

  constructor(
    private readonly components: Components,
    private readonly records: UploadRecords,
    private readonly staging: Staging,
  ) {}

  /** @throws ServiceError as `UploadRecords.create`; 413 when it exceeds the quota; as `complete`, for an empty file */
  async create(wanted: NewUpload, call: Call): Promise<Upload> {
    const { fileId, userId, role, length } = wanted
    const { config, files } = this.components
    const { userBytes } = limitsOf(role, config)
    const upload = await this.records.create(wanted, call, async (transaction) => {
      if (userBytes === undefined || userId === null) return
      await checkQuota(files, { id: fileId, userId, role }, length, userBytes, transaction)
    })
    if (upload.length > 0) return upload
    try {
      await this.locks.hold(upload.id, async () => {
        await this.staging.write(upload.id, 0, noBytes())
        await this.complete(upload, call)
      })
    } catch (error) {
      await this.remove(upload.id, call).catch((cause: unknown) => this.warn(cause, upload.id))
      throw error
    }
    return upload
  }

  /** Stores the file first if all bytes have arrived, because a client that sees the full offset sends no more requests. */
  progress(id: string, call: Call): Promise<Progress> {
    return this.withLock(id, call, async (upload) => {
      const offset = await this.offsetOf(upload)
      if (offset === upload.length && !upload.stored) await this.complete(upload, call)
      return { upload, offset, expiresAt: upload.expiresAt }
    })
  }

  /**
   * Appends bytes. Stores the file after the last one.
   * @throws ServiceError 409 when the offset is wrong; 413 when there are too many bytes; 423 when another request takes
   *   over; 460 when the checksum differs
   */
  append(id: string, call: Call, chunk: Chunk): Promise<Progress> {
    return this.withLock(id, call, async (upload, signal) => {
      const offset = await this.offsetOf(upload)
      if (chunk.offset !== offset) throw wrongOffset(offset)
      if ((chunk.length ?? 0) > upload.length - offset) throw tooLong(upload.length - offset)
      if (upload.stored) return { upload, offset, expiresAt: upload.expiresAt }
      const expiresAt = await this.records.extend(id, chunk.checksum ? offset : null)
      const size = await this.receive(upload, chunk, AbortSignal.any([signal, chunk.signal]))
      if (chunk.checksum) await this.records.markChecked(id)
      if (offset + size === upload.length) await this.complete(upload, call)
      return { upload, offset: offset + size, expiresAt }
    })
  }

  remove(id: string, call: Call): Promise<void> {
    return this.withLock(id, call, () => this.discard(id))
  }

  /** Removes uploads that are not in use, unless a request has extended them. */
  async removeExpired(ids: readonly string[]): Promise<void> {
    for (const id of ids) {
      if (this.locks.isHeld(id) || this.closing.signal.aborted) continue
      await this.locks.hold(id, async () => {
        if ((await this.records.expired(1, [id])).length > 0) await this.discard(id)
      })
    }
  }

  async stop(): Promise<void> {
    const reason = serviceError('unavailable', 'the server is shutting down', '$', { retryAfter: 1 })
    this.closing.abort(reason)
    await this.locks.abortAll(reason)
  }

  /** Checks ownership before it takes the lock, so that only the owner can abort the previous request. */
  private async withLock<T>(
    id: string,
    { session }: Call,
    run: (upload: Upload, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const caller = callerOf(session, this.components.config.userId)
    await this.records.find(id, caller)
    return this.locks.hold(id, async (signal) => run(await this.records.find(id, caller), signal))
  }

  private async offsetOf({ id, stored, length, uncheckedFrom }: Upload): Promise<number> {
    if (stored) return length
    if (uncheckedFrom !== null) {
      await this.staging.truncate(id, uncheckedFrom)
      await this.records.markChecked(id)
    }
    return this.staging.size(id)
  }

  /** @returns how many bytes arrived */
  private async receive(upload: Upload, { offset, checksum, open }: Chunk, signal: AbortSignal): Promise<number> {
    const meter = addAbortSignal(signal, open(upload.length - offset))
    const hash = checksum && createHash(checksum.algorithm)
    try {
      await this.staging.write(upload.id, offset, hash ? hashed(meter, hash) : meter)
      if (hash?.digest().equals(checksum!.digest) === false) throw mismatch()
      return meter.size
    } catch (error) {
      if (error instanceof ServiceError && error.status === 413) {
        await this.staging.truncate(upload.id, offset)
        throw tooLong(upload.length - offset)
      }
      throw signal.aborted ? signal.reason : storeFailure(error)
    } finally {
      meter.destroy()
    }
  }

  /** Makes the staged bytes a file. Continues when the client disconnects; its next request finds the result. */
  private async complete({ id, fileId, replace, contentType, length }: Upload, { session }: Call): Promise<void> {
    const { access, rules, uploads } = this.components
    const call: Call = { session, signal: this.closing.signal, format: 'json' }
    const { caller, ruled } = await access.recheck({ operation: 'create', id: fileId, replaces: replace }, call)
    const file = { id: fileId, create: !replace, contentType, upload: id, ...caller }
    const open = (maxBytes: number) => meterStream(this.staging.read(id), maxBytes)
    await uploads.store([{ file, size: length, open }], call, ruled ? { call, rules } : undefined)
    await this.staging.remove(id).catch((error: unknown) => this.warn(error, id))
  }

  /** Removes the bytes first, because a record without bytes expires, but bytes without a record would stay. */
  private async discard(id: string): Promise<void> {
    await this.staging.remove(id)
    await this.records.remove(id)
  }

  private warn(err: unknown, upload: string): void {
    this.components.host
      .use('log')
      .warn({ err, upload }, 'staged bytes could not be removed; they stay until the upload expires')
  }
}

async function* hashed(body: AsyncIterable<Buffer>, hash: Hash): AsyncGenerator<Buffer> {
  for await (const chunk of body) {
    hash.update(chunk)
    yield chunk
  }
}

async function* noBytes(): AsyncGenerator<Buffer> {}

const wrongOffset = (offset: number) => serviceError('wrong_offset', `Upload-Offset should be ${offset}`)
const tooLong = (left: number) =>
  serviceError('payload-too-large', `the body is longer than the ${left} bytes that are missing from Upload-Length`)
