import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { type Host, type ObjectStore, ServiceError } from 'rowhouse'
import type { FilestoreConfig } from './config.js'
import { badRequest } from './errors.js'
import { type Files, LEASE_SECONDS, type NewFile } from './files.js'
import { Meter, tooLarge } from './meter.js'

/** Takes the body of a request in and makes it a file: reserve, write, commit. */
export class Uploads {
  private readonly host: Host
  private readonly files: Files
  private readonly config: FilestoreConfig

  constructor(host: Host, files: Files, config: FilestoreConfig) {
    this.host = host
    this.files = files
    this.config = config
  }

  /**
   * @returns JSON text of the record, when bytes and record are durable
   * @throws ServiceError; then the file is as it was
   */
  async take(req: IncomingMessage, file: NewFile, signal: AbortSignal): Promise<string> {
    this.checkHeaders(req)
    const blob = randomUUID()
    const store = await this.host.provider('storage')
    await this.files.reserve(blob, this.host.providerName('storage') as string, file)
    const meter = new Meter(req, this.config)
    try {
      await this.write(store, blob, meter, signal)
      return await this.files.commit(blob, meter.size, meter.sha256(), file)
    } catch (error) {
      // Whether a commit whose answer was lost has happened is not known: the lease will tell.
      if (!(error instanceof ServiceError) || error.status !== 503 || error.code === 'upload_lost') {
        await this.discard(store, blob)
      }
      throw failure(meter.errored instanceof ServiceError ? meter.errored : error)
    }
  }

  private checkHeaders(req: IncomingMessage): void {
    const { 'content-encoding': encoding = 'identity', 'content-length': length } = req.headers
    if (encoding.toLowerCase() !== 'identity') throw badRequest(`Content-Encoding "${encoding}" is not supported`)
    if (Number(length ?? 0) > this.config.maxBytes) throw tooLarge(this.config.maxBytes)
  }

  private async write(store: ObjectStore, blob: string, meter: Meter, signal: AbortSignal): Promise<void> {
    const lost = new AbortController()
    const renewal = setInterval(
      () => {
        this.files.renew(blob).then(
          (held) => held || lost.abort(new ServiceError(503, 'upload_lost', 'the upload took too long; send it again')),
          (error: unknown) => this.host.use('log').warn({ err: error }, 'a lease could not be renewed'),
        )
      },
      (LEASE_SECONDS * 1000) / 3,
    )
    try {
      await store.put(blob, meter, AbortSignal.any([signal, lost.signal]))
    } catch (error) {
      throw lost.signal.aborted ? lost.signal.reason : error
    } finally {
      clearInterval(renewal)
      meter.destroy()
    }
  }

  /** Bytes first: a row without bytes is taken away later, bytes without a row would stay. */
  private async discard(store: ObjectStore, blob: string): Promise<void> {
    try {
      await store.delete(blob)
      await this.files.forget(blob)
    } catch (error) {
      this.host.use('log').warn({ err: error, blob }, 'left for the collector')
    }
  }
}

const FULL = new Set(['ENOSPC', 'EDQUOT', 'EROFS', 'EMFILE', 'ENFILE'])

function failure(error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException
  if (error instanceof ServiceError || code === undefined || !FULL.has(code)) return error
  return new ServiceError(503, 'storage_unavailable', 'the store takes no more files now', '$', {
    cause: error,
    retryAfter: 30,
  })
}
