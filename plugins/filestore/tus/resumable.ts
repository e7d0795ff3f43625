import { createHash, type Hash } from 'node:crypto'
import { type Call, ServiceError } from 'rowhouse'
import { callerOf } from '../caller.js'
import { limitsOf } from '../config.js'
import { type Meter, meterStream } from '../meter.js'
import type { Parts } from '../parts.js'
import { requireRoom } from '../quota.js'
import { storeFailure } from '../uploads.js'
import { type Checksum, mismatch } from './protocol.js'
import type { NewUpload, Upload, UploadRecords } from './records.js'
import type { Staging } from './staging.js'
import { Turns } from './turns.js'

/** Bytes that a client sends. */
export interface Part {
  /** Where the client thinks that they belong. */
  readonly offset: number
  /** How many; undefined when the client does not say. */
  readonly length: number | undefined
  readonly checksum: Checksum | undefined
  /** Starts their flow. */
  readonly begin: (maxBytes: number) => Meter
  /** Aborts when the client is gone. */
  readonly signal: AbortSignal
}

export interface Progress {
  readonly upload: Upload
  readonly offset: number
  readonly expiresAt: Date
}

/** Uploads that may break off and go on. Bytes are staged on the disk; when all are there they become a file. */
export class Resumable {
  private readonly parts: Parts
  private readonly records: UploadRecords
  private readonly staging: Staging
  private readonly turns = new Turns()
  private readonly closing = new AbortController()

  constructor(parts: Parts, records: UploadRecords, staging: Staging) {
    this.parts = parts
    this.records = records
    this.staging = staging
  }

  /** @throws ServiceError 400 when the file must not exist and does; 413 when the user has no room; 429; what storing says, for a file without bytes */
  async create(wanted: NewUpload, call: Call): Promise<Upload> {
    const { fileId, userId, role, length } = wanted
    const { userBytes } = limitsOf(role, this.parts.config)
    const upload = await this.records.create(wanted, call, async (inside) => {
      if (userBytes !== undefined)
        await requireRoom(this.parts.files, { id: fileId, userId, role }, length, userBytes, inside)
    })
    if (upload.length > 0) return upload
    try {
      await this.turns.take(upload.id, async () => {
        await this.staging.write(upload.id, 0, nothing())
        await this.store(upload, call)
      })
    } catch (error) {
      await this.remove(upload.id, call).catch((cause: unknown) => this.warn(cause, upload.id))
      throw error
    }
    return upload
  }

  /**
   * How far it has come. One with all its bytes is stored before it is said to be complete: who hears that sends nothing
   * any more.
   */
  progress(id: string, call: Call): Promise<Progress> {
    return this.turnOf(id, call, async (upload) => {
      const offset = await this.offsetOf(upload)
      if (offset === upload.length && !upload.stored) await this.store(upload, call)
      return { upload, offset, expiresAt: upload.expiresAt }
    })
  }

  /**
   * Takes bytes, and stores the file when they are the last.
   * @throws ServiceError 409 when they belong elsewhere; 413 when they are too many; 460 when they are not what was
   *   sent; 423 when another request came
   */
  append(id: string, call: Call, part: Part): Promise<Progress> {
    return this.turnOf(id, call, async (upload, signal) => {
      const offset = await this.offsetOf(upload)
      if (part.offset !== offset) throw wrongOffset(offset)
      if ((part.length ?? 0) > upload.length - offset) throw tooMuch(upload.length - offset)
      if (upload.stored) return { upload, offset, expiresAt: upload.expiresAt }
      const expiresAt = await this.records.extend(id, part.checksum ? offset : null)
      const size = await this.receive(upload, part, AbortSignal.any([signal, part.signal]))
      if (part.checksum) await this.records.checked(id)
      if (offset + size === upload.length) await this.store(upload, call)
      return { upload, offset: offset + size, expiresAt }
    })
  }

  /** Its bytes first: a record without bytes expires, bytes without a record would stay. */
  remove(id: string, call: Call): Promise<void> {
    return this.turnOf(id, call, async () => {
      await this.staging.remove(id)
      await this.records.remove(id)
    })
  }

  /** Takes away those that have expired, and are not at it. */
  async removeExpired(ids: readonly string[]): Promise<void> {
    for (const id of ids) {
      if (this.turns.isBusy(id) || this.closing.signal.aborted) continue
      await this.turns.take(id, async () => {
        const still = await this.records.expired(1, [id])
        if (still.length === 0) return
        await this.staging.remove(id)
        await this.records.remove(id)
      })
    }
  }

  async stop(): Promise<void> {
    const reason = new ServiceError(503, 'unavailable', 'the server is going down', '$', { retryAfter: 1 })
    this.closing.abort(reason)
    await this.turns.end(reason)
  }

  /** Looks first whose upload it is: nobody else may end the request before. */
  private async turnOf<T>(
    id: string,
    { session }: Call,
    run: (upload: Upload, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const caller = callerOf(session)
    await this.records.find(id, caller)
    return this.turns.take(id, async (signal) => run(await this.records.find(id, caller), signal))
  }

  private async offsetOf({ id, stored, length, uncheckedFrom }: Upload): Promise<number> {
    if (stored) return length
    if (uncheckedFrom !== null) {
      await this.staging.cut(id, uncheckedFrom)
      await this.records.checked(id)
    }
    return this.staging.size(id)
  }

  /** @returns how many came */
  private async receive(upload: Upload, { offset, checksum, begin }: Part, signal: AbortSignal): Promise<number> {
    const meter = begin(upload.length - offset)
    const end = () => meter.destroy(signal.reason as Error)
    signal.addEventListener('abort', end, { once: true })
    if (signal.aborted) end()
    const hash = checksum && createHash(checksum.algorithm)
    try {
      await this.staging.write(upload.id, offset, hash ? hashed(meter, hash) : meter)
      if (hash?.digest().equals(checksum!.digest) === false) throw mismatch()
      return meter.size
    } catch (error) {
      if (!(error instanceof ServiceError) || error.status !== 413) throw storeFailure(error)
      await this.staging.cut(upload.id, offset)
      throw tooMuch(upload.length - offset)
    } finally {
      signal.removeEventListener('abort', end)
      meter.destroy()
    }
  }

  /** Goes on when the client is gone: its next request finds what has become of it. */
  private async store({ id, fileId, replace, contentType, length }: Upload, { session }: Call): Promise<void> {
    const { access, rules, uploads } = this.parts
    const call: Call = { session, signal: this.closing.signal, format: 'json' }
    const { caller, ruled } = await access.permitAgain({ operation: 'create', id: fileId, replaces: replace }, call)
    const file = { id: fileId, create: !replace, contentType, upload: id, ...caller }
    const begin = (maxBytes: number) => meterStream(this.staging.read(id), maxBytes)
    await uploads.take([{ file, size: length, begin }], call, ruled ? { call, rules } : undefined)
    await this.staging.remove(id).catch((error: unknown) => this.warn(error, id))
  }

  private warn(err: unknown, upload: string): void {
    this.parts.host.use('log').warn({ err, upload }, 'staged bytes are left until the upload expires')
  }
}

async function* hashed(body: AsyncIterable<Buffer>, hash: Hash): AsyncGenerator<Buffer> {
  for await (const chunk of body) {
    hash.update(chunk)
    yield chunk
  }
}

async function* nothing(): AsyncGenerator<Buffer> {}

const wrongOffset = (offset: number) =>
  new ServiceError(409, 'wrong_offset', `the upload is at Upload-Offset ${offset}; ask with HEAD`)
const tooMuch = (left: number) =>
  new ServiceError(413, 'payload_too_large', `${left} bytes of the Upload-Length are missing, and these are more`)
