import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { finished } from 'node:stream/promises'
import {
  assertNotCoded,
  type Call,
  type Host,
  type ObjectStore,
  ServiceError,
  serviceError,
  type Services,
} from 'rowhouse'
import type { Changes, Guard } from './changes.js'
import { type FilestoreConfig, limitsOf } from './config.js'
import { badRequest, justStored, storeFailure, TooLarge, uploadLost } from './errors.js'
import { type Files, LEASE_SECONDS, type NewFile, type StoredBlob } from './files.js'
import type { BufferedBody, Meter } from './meter.js'
import { reserve } from './quota.js'
import type { StoreHealth } from './store-health.js'

/** A file that is being uploaded. */
export interface Upload {
  readonly file: NewFile
  /** In bytes, if known. */
  readonly size?: number
  /** Starts reading its bytes. Called after a blob has been reserved for them. */
  open(maxBytes: number): Meter
  /** Reads all bytes into memory instead. Only for small uploads. */
  readAll?(maxBytes: number, signal: AbortSignal): Promise<BufferedBody>
}

/** Maximum announced bytes of all buffered uploads together, so that slow clients do not fill the memory. */
const MAX_BUFFERED_BYTES = 64 * 2 ** 20

/** Stores uploads in three steps: reserve, write, commit. */
export class Uploads {
  private bufferedBytes = 0

  constructor(
    private readonly host: Host,
    private readonly files: Files,
    private readonly changes: Changes,
    private readonly config: FilestoreConfig,
    private readonly health: StoreHealth,
  ) {}

  /**
   * Receives uploads one after the other and stores all of them with one commit.
   * @param guard what to check for each file
   * @returns JSON text of each record, once bytes and records are durable
   * @throws ServiceError; then no file has changed
   */
  async store(
    uploads: Iterable<Upload> | AsyncIterable<Upload>,
    call: Call,
    guard?: Guard,
  ): Promise<readonly string[]> {
    const { host, files, config, health } = this
    if (call.dryRun) throw serviceError('not-supported', 'an upload cannot be a dry run', '$.headers.Prefer')
    const data = host.use('data')
    const isRepeated = await data.isKept(call)
    const store = await host.provider('storage').catch((error: unknown) => {
      health.failed(error)
      throw storeFailure(error)
    })
    const provider = host.providerName('storage') as string
    const lease = holdLease(files, host.use('log'), call.signal)
    const { signal } = lease
    const stored: StoredBlob[] = []
    try {
      for await (const upload of uploads) {
        const { file } = upload
        if (isRepeated) {
          const { size, sha256 } = await digest(upload.open(limitsOf(file.role, config).maxBytes))
          call.keyed?.add(file.contentType, size, sha256.toString('hex'))
          continue
        }
        const isPending = file.pending !== undefined
        // The commit of a file makes the same checks. Before it, an earlier request with the same key may have stored the file.
        if (isPending || (guard && !call.keyed)) await this.changes.precheck(file, guard ?? { call })
        const blob = randomUUID()
        const reservedFor = isPending ? { ...file, create: false } : file
        const reserved = await reserve({ data, files, config }, { blob, provider }, reservedFor, upload.size, call)
        lease.blobs.add(blob)
        const written = await health
          .watch(() => this.write(store, blob, upload, reserved.maxBytes, signal))
          .catch((error: unknown) => {
            const isQuota = error instanceof TooLarge && error.maxBytes === reserved.maxBytes
            throw isQuota ? (reserved.quotaExceeded ?? error) : error
          })
        if (reserved.estimated) await files.setSize(blob, written.size)
        call.keyed?.add(file.contentType, written.size, written.sha256.toString('hex'))
        stored.push({ blob, file, ...written })
      }
      if (isRepeated) return await this.changes.repeat(call)
      const records = await this.changes.commit(stored, guard, call)
      // An earlier request with the same key may have stored its own.
      if (call.keyed) await this.discardAll(store, lease)
      return records
    } catch (error) {
      await this.discardAll(store, lease)
      if (!isRepeated && (await data.isKept(call).catch(() => false))) throw justStored()
      throw storeFailure(lease.lost ?? error)
    } finally {
      lease.end()
    }
  }

  private async write(
    store: ObjectStore,
    blob: string,
    upload: Upload,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<Pick<StoredBlob, 'size' | 'sha256'>> {
    const buffered = await this.writeBuffered(store, blob, upload, maxBytes, signal)
    return buffered ?? writeStream(store, blob, upload.open(maxBytes), signal)
  }

  /** @returns undefined when the upload must be streamed instead: it is too large, or too many are buffered */
  private async writeBuffered(
    store: ObjectStore,
    blob: string,
    upload: Upload,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<Pick<StoredBlob, 'size' | 'sha256'> | undefined> {
    const { size: announced = 0 } = upload
    if (!upload.readAll || !store.write || this.bufferedBytes + announced > MAX_BUFFERED_BYTES) return undefined
    this.bufferedBytes += announced
    try {
      const { pieces, size, sha256 } = await upload.readAll(maxBytes, signal)
      await store.write(blob, pieces, signal)
      return { size, sha256 }
    } finally {
      this.bufferedBytes -= announced
    }
  }

  private async discardAll(store: ObjectStore, { blobs }: Lease): Promise<void> {
    for (const blob of blobs) await this.discard(store, blob)
  }

  /**
   * Deletes a blob, unless a commit whose answer was lost has made it the content of a file. Deletes the object first,
   * because the collector finds a row without an object, but not an object without a row.
   */
  async discard(store: ObjectStore, blob: string): Promise<void> {
    try {
      if (!(await this.files.abandon(blob))) return
      await store.delete(blob)
      await this.files.forget(blob)
    } catch (error) {
      this.host
        .use('log')
        .warn({ err: error, blob }, 'the blob of a failed upload could not be deleted; the collector will retry')
    }
  }
}

async function digest(meter: Meter): Promise<Pick<StoredBlob, 'size' | 'sha256'>> {
  await finished(meter.resume())
  return { size: meter.size, sha256: meter.sha256() }
}

async function writeStream(
  store: ObjectStore,
  blob: string,
  meter: Meter,
  signal: AbortSignal,
): Promise<Pick<StoredBlob, 'size' | 'sha256'>> {
  try {
    await store.put(blob, meter, signal)
    return { size: meter.size, sha256: meter.sha256() }
  } catch (error) {
    throw meter.errored instanceof ServiceError ? meter.errored : error
  } finally {
    meter.destroy()
  }
}

/** The leases of blobs that are being written. */
interface Lease {
  readonly blobs: Set<string>
  /** Aborts when a lease is lost. */
  readonly signal: AbortSignal
  /** The error for the client if a lease was lost. */
  readonly lost: ServiceError | undefined
  end(): void
}

/** Renews the leases of blobs until `end` is called. @param signal makes the signal of the lease abort */
export function holdLease(files: Files, log: Services['log'], signal?: AbortSignal): Lease {
  /** Aborts when the lease is lost, or `signal` aborts. */
  const abort = new AbortController()
  const blobs = new Set<string>()
  let lost: ServiceError | undefined
  const stop = () => abort.abort(signal?.reason)
  if (signal?.aborted) stop()
  else signal?.addEventListener('abort', stop)
  const renewal = setInterval(
    () => {
      const renewed = [...blobs]
      files.renew(renewed).then(
        (held) => {
          if (held !== renewed.length) abort.abort((lost ??= uploadLost()))
        },
        (error: unknown) => log.warn({ err: error }, 'the lease of an upload could not be renewed'),
      )
    },
    (LEASE_SECONDS * 1000) / 3,
  )
  return {
    blobs,
    signal: abort.signal,
    get lost() {
      return lost
    },
    end() {
      clearInterval(renewal)
      signal?.removeEventListener('abort', stop)
    },
  }
}

/**
 * @returns the announced number of bytes, if any
 * @throws ServiceError 400, 413, 415 when the headers of an upload show that it must be refused
 */
export function checkUploadHeaders(req: IncomingMessage, maxBytes: number): number | undefined {
  const { headers } = req
  const { 'content-length': length } = headers
  assertNotCoded(req)
  if (headers['content-range'] !== undefined) throw badRequest('Content-Range is not supported: send the whole file')
  if (Number(length ?? 0) > maxBytes) throw new TooLarge(maxBytes)
  return length === undefined ? undefined : Number(length)
}
