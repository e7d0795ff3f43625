import { createHash, type Hash } from 'node:crypto'
import { addAbortSignal } from 'node:stream'
import { type Call, ServiceError, serviceError } from 'rowhouse'
import { callerOf, countedAs } from '../caller.js'
import type { Components } from '../components.js'
import { limitsOf } from '../config.js'
import { storeFailure } from '../errors.js'
import { type Meter, meterStream } from '../meter.js'
import { checkQuota } from '../quota.js'
import { Cut, PieceWriter, readPieces } from './pieces.js'
import { type Checksum, isPending, mismatch } from './protocol.js'
import type { NewUpload, Upload, UploadRecords } from './records.js'
import { type Lock, UploadLocks } from './upload-lock.js'

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

/** Stores the bytes of resumable uploads in pieces, and the file when all have arrived. */
export class ResumableUploads {
  private readonly locks: UploadLocks
  private readonly closing = new AbortController()

  constructor(
    private readonly components: Components,
    private readonly records: UploadRecords,
  ) {
    this.locks = new UploadLocks(records, components.host.use('log'))
  }

  /** @throws ServiceError as `UploadRecords.create`; 413 when it exceeds the quota; as `complete`, for an empty file */
  async create(wanted: NewUpload, call: Call): Promise<Upload> {
    const { fileId, userId, role, length } = wanted
    const pending = wanted.pending ? wanted.counted : undefined
    const { config, files } = this.components
    const { userBytes } = limitsOf(role, config)
    const upload = await this.records.create(wanted, call, async (transaction) => {
      if (userBytes === undefined || userId === null) return
      await checkQuota(files, { id: fileId, userId, role, pending }, length, userBytes, transaction)
    })
    if (upload.length > 0) return upload
    try {
      await this.withLock(upload.id, call, (lock) => this.complete(lock, call))
    } catch (error) {
      await this.records.remove(upload.id).catch(() => {})
      throw error
    }
    return upload
  }

  /** Stores the file first if all bytes have arrived, because a client that sees the full offset sends no more requests. */
  progress(id: string, call: Call): Promise<Upload> {
    return this.withLock(id, call, async (lock) => {
      const { upload } = lock
      if (upload.offset === upload.length && !upload.stored) await this.complete(lock, call)
      return upload
    })
  }

  /**
   * Appends bytes. Stores the file after the last one.
   * @throws ServiceError 409 when the offset is wrong; 413 when there are too many bytes; 423 when another request takes
   *   over; 460 when the checksum differs
   */
  append(id: string, call: Call, chunk: Chunk): Promise<Upload> {
    return this.withLock(id, call, async (lock) => {
      const { offset, length, stored } = lock.upload
      if (chunk.offset !== offset) throw wrongOffset(offset)
      if ((chunk.length ?? 0) > length - offset) throw tooLong(length - offset)
      if (stored) return lock.upload
      const upload = await this.receive(lock, chunk)
      if (upload.offset === length) await this.complete(lock, call)
      return upload
    })
  }

  remove(id: string, call: Call): Promise<void> {
    return this.withLock(id, call, () => this.records.remove(id))
  }

  async stop(): Promise<void> {
    const reason = serviceError('unavailable', 'the server is shutting down', '$', { retryAfter: 1 })
    this.closing.abort(reason)
    await this.locks.stop(reason)
  }

  private withLock<T>(id: string, call: Call, run: (lock: Lock) => Promise<T>): Promise<T> {
    return this.locks.hold(id, callerOf(call.session, this.components.config.userId), call, run)
  }

  /**
   * Records each piece when its bytes are durable; with a checksum, all of them at the end. If the body breaks off, the bytes
   * so far are kept.
   */
  private async receive(lock: Lock, { checksum, open, signal: gone }: Chunk): Promise<Upload> {
    const { holder } = lock
    let { upload } = lock
    const left = upload.length - upload.offset
    const signal = AbortSignal.any([lock.signal, gone])
    const meter = addAbortSignal(signal, open(left))
    const hash = checksum && createHash(checksum.algorithm)
    const body = new Cut(hash ? hashed(meter, hash) : meter)
    const writer = new PieceWriter(this.components)
    const record = async () => {
      const pieces = writer.take()
      if (pieces.length === 0) return
      const expiresAt = await this.records.append(upload.id, holder, upload.offset, pieces)
      upload = { ...upload, offset: pieces.reduce((end, { size }) => end + size, upload.offset), expiresAt }
    }
    try {
      for await (const piece of body.pieces()) {
        if (!hash) await record()
        await writer.write(piece)
      }
      const isTooLong = body.error instanceof ServiceError && body.error.status === 413
      if (isTooLong) throw tooLong(left)
      if (!hash) await record()
      if (body.error !== undefined) throw signal.aborted ? signal.reason : body.error
      if (hash?.digest().equals(checksum!.digest) === false) throw mismatch()
      await record()
      return upload
    } catch (error) {
      throw storeFailure(error)
    } finally {
      meter.destroy()
      await writer.end()
    }
  }

  /** Makes the pieces a file or a pending upload. Continues when the client disconnects; its next request finds the result. */
  private async complete({ upload, holder }: Lock, { session }: Call): Promise<void> {
    const { id, fileId, replace, contentType, length, metadata } = upload
    const { host, access, rules, uploads } = this.components
    const call: Call = { session, signal: this.closing.signal, format: 'json' }
    const { caller, ruled } = await access.recheck({ operation: 'create', id: fileId, replaces: replace }, call)
    const pending = isPending(metadata) ? countedAs(session, caller) : undefined
    const file = { id: fileId, create: !replace, contentType, upload: id, pending, ...caller }
    const pieces = await this.records.pieces(id)
    const open = (maxBytes: number) => meterStream(readPieces(host, pieces, length, call.signal), maxBytes)
    await uploads.store([{ file, size: length, open }], call, {
      call,
      rules: ruled ? rules : undefined,
      before: (transaction) => this.records.finish(id, holder, transaction),
    })
  }
}

async function* hashed(body: AsyncIterable<Buffer>, hash: Hash): AsyncGenerator<Buffer> {
  for await (const chunk of body) {
    hash.update(chunk)
    yield chunk
  }
}

const wrongOffset = (offset: number) => serviceError('wrong_offset', `Upload-Offset should be ${offset}`)
const tooLong = (left: number) =>
  serviceError('payload-too-large', `the body is longer than the ${left} bytes that are missing from Upload-Length`)
