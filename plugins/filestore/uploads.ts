import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { type Call, type Host, type ObjectStore, ServiceError, type Services } from 'rowhouse'
import type { Changes, Guard } from './changes.js'
import type { FilestoreConfig } from './config.js'
import { badRequest, exhausted, uploadLost } from './errors.js'
import { type Files, LEASE_SECONDS, type NewFile, type StoredBlob } from './files.js'
import { type Gathered, type Meter, tooLarge } from './meter.js'
import { reserve } from './quota.js'

/** A file that comes in. */
export interface Upload {
  readonly file: NewFile
  /** In bytes, where it is known. */
  readonly size?: number
  /** Starts the flow of its bytes, once there is a place for them. */
  begin(maxBytes: number): Meter
  /** Instead: reads all of its bytes, where they are few. */
  gather?(maxBytes: number, signal: AbortSignal): Promise<Gathered>
}

/** In bytes, of all uploads at once: what clients send slowly must not fill the memory. The others are streamed. */
const MOST_GATHERED = 64 * 2 ** 20

/** Makes bytes that come files: reserve, write, commit. */
export class Uploads {
  /** Bytes of uploads that are being gathered, as they say they are. */
  private gathering = 0
  private readonly host: Host
  private readonly files: Files
  private readonly changes: Changes
  private readonly config: FilestoreConfig

  constructor(host: Host, files: Files, changes: Changes, config: FilestoreConfig) {
    this.host = host
    this.files = files
    this.changes = changes
    this.config = config
  }

  /** @returns undefined: it is not one to be gathered, or there are too many */
  private async gather(
    store: ObjectStore,
    blob: string,
    upload: Upload,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<Pick<StoredBlob, 'size' | 'sha256'> | undefined> {
    const { size: said = 0 } = upload
    if (!upload.gather || !store.write || this.gathering + said > MOST_GATHERED) return undefined
    this.gathering += said
    try {
      const { pieces, size, sha256 } = await upload.gather(maxBytes, signal)
      await store.write(blob, pieces, signal)
      return { size, sha256 }
    } finally {
      this.gathering -= said
    }
  }

  /**
   * Takes uploads in one after the other and makes them files at once.
   * @param guard what must hold of each file before and after
   * @returns JSON text of each record, when bytes and records are durable
   * @throws ServiceError; then every file is as it was
   */
  async take(uploads: Iterable<Upload> | AsyncIterable<Upload>, call: Call, guard?: Guard): Promise<readonly string[]> {
    const store = await this.host.provider('storage')
    const provider = this.host.providerName('storage') as string
    const lease = holdLease(this.files, this.host.use('log'), call)
    const { signal } = lease
    const stored: StoredBlob[] = []
    try {
      for await (const upload of uploads) {
        const { file } = upload
        if (guard) await this.changes.foresee(file.id, file.create, guard)
        const blob = randomUUID()
        const room = await reserve(this.parts, { blob, provider }, file, upload.size, call)
        lease.blobs.push(blob)
        const written =
          (await this.gather(store, blob, upload, room.maxBytes, signal)) ??
          (await stream(store, blob, upload.begin(room.maxBytes), signal))
        if (room.estimated) await this.files.settle(blob, written.size)
        stored.push({ blob, file, ...written })
      }
      return await this.changes.commit(stored, guard, call)
    } catch (error) {
      for (const blob of lease.blobs) await this.discard(store, blob)
      throw storeFailure(lease.lost ?? error)
    } finally {
      lease.end()
    }
  }

  private get parts() {
    return { data: this.host.use('data'), files: this.files, config: this.config }
  }

  /**
   * Whether a commit whose answer was lost has happened is not known here, but where it would have: what is a file's is
   * let be. Then the bytes, and the row last: a row without bytes is taken away later, bytes without a row would stay.
   */
  private async discard(store: ObjectStore, blob: string): Promise<void> {
    try {
      if (!(await this.files.giveUp(blob))) return
      await store.delete(blob)
      await this.files.forget(blob)
    } catch (error) {
      this.host.use('log').warn({ err: error, blob }, 'left for the collector')
    }
  }
}

async function stream(
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

/** Says again and again that blobs are still being written, as long as that is so. */
function holdLease(files: Files, log: Services['log'], call: Call) {
  /** Aborts when the lease is lost, and when the call does. */
  const abort = new AbortController()
  const blobs: string[] = []
  let lost: ServiceError | undefined
  const stop = () => abort.abort(call.signal.reason)
  if (call.signal.aborted) stop()
  else call.signal.addEventListener('abort', stop)
  const renewal = setInterval(
    () => {
      const { length } = blobs
      files.renew(blobs).then(
        (held) => {
          if (held !== length) abort.abort((lost ??= uploadLost()))
        },
        (error: unknown) => log.warn({ err: error }, 'a lease could not be renewed'),
      )
    },
    (LEASE_SECONDS * 1000) / 3,
  )
  return {
    blobs,
    signal: abort.signal,
    /** What became of it, if it was lost. */
    get lost() {
      return lost
    },
    end() {
      clearInterval(renewal)
      call.signal.removeEventListener('abort', stop)
    },
  }
}

/**
 * @returns how many bytes are announced, if they are
 * @throws ServiceError 400, 413 when the headers of an upload say already that it cannot be taken
 */
export function checkUploadHeaders({ headers }: IncomingMessage, maxBytes: number): number | undefined {
  const { 'content-encoding': encoding = 'identity', 'content-length': length } = headers
  if (encoding.toLowerCase() !== 'identity') throw badRequest(`Content-Encoding "${encoding}" is not supported`)
  if (headers['content-range'] !== undefined) throw badRequest('Content-Range is not supported: a body is a whole file')
  if (Number(length ?? 0) > maxBytes) throw tooLarge(maxBytes)
  return length === undefined ? undefined : Number(length)
}

/** What a client is told of an error of a store. */
export function storeFailure(error: unknown): unknown {
  return error instanceof ServiceError ? error : (exhausted('the store takes no more files now', error) ?? error)
}
