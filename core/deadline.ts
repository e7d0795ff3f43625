import { messageOf, serviceError } from './errors.js'

/** A value, or a promise of it if it takes time. What is known already costs no promise. */
export type Eventual<T> = T | Promise<T>

export interface ReaderLimits {
  /** Maximum time for a client to read everything. */
  readonly streamMaxAgeMs: number
  /** Minimum reading rate; 0 allows any. */
  readonly streamMinBytesPerSecond: number
}

/** Minimum time that a client has to read the last part. */
const READ_MS = 30_000
/** Maximum delay of Node's timers. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** Ends a response whose client reads too slowly. */
export class ReaderClock {
  private readonly oldest: number
  private readonly bytesPerSecond: number
  private timer: NodeJS.Timeout | undefined
  private late = false

  constructor(
    { streamMaxAgeMs, streamMinBytesPerSecond }: ReaderLimits,
    private readonly end: () => void,
  ) {
    this.oldest = Date.now() + streamMaxAgeMs
    this.bytesPerSecond = streamMinBytesPerSecond
  }

  /** @param bytes size sent to the client */
  start(bytes: number): void {
    const slowest = this.bytesPerSecond === 0 ? Infinity : Math.max(READ_MS, (bytes / this.bytesPerSecond) * 1000)
    const ms = Math.min(this.oldest - Date.now(), slowest, MAX_TIMER_MS)
    this.timer = setTimeout(() => {
      this.late = true
      this.end()
    }, ms).unref()
  }

  close(): void {
    clearTimeout(this.timer)
  }

  /** @throws ServiceError 504: the stream has been ended */
  stop(): void {
    this.close()
    if (this.late)
      throw serviceError(
        'timeout',
        'the stream took longer than the server allows (database.streamMaxAgeMs, streamMinBytesPerSecond)',
      )
  }
}

export interface Within {
  /** In the time of `performance.now()`; defaults to `timeoutMs` from now. */
  readonly deadline?: number
  /** Returns where an error was thrown, for the message. */
  readonly place?: (error: unknown) => string | undefined
}

/**
 * Runs work that may take so long. Late work continues, but its result is ignored.
 * @throws Error that names the owner and the step, when it fails or times out
 */
export async function runWithin<T>(
  owner: string,
  step: string,
  run: () => Promise<T> | T,
  timeoutMs: number,
  { deadline = performance.now() + timeoutMs, place }: Within = {},
): Promise<T> {
  const late = new Error(`${owner} did not finish "${step}" within ${timeoutMs / 1000} s`)
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late), Math.ceil(deadline - performance.now()))
  })
  try {
    return await Promise.race([run(), timeout])
  } catch (error) {
    if (error === late) throw error
    const found = place?.(error)
    const where = found === undefined ? '' : ` (${found})`
    throw new Error(`${owner} failed in "${step}": ${messageOf(error)}${where}`, { cause: error })
  } finally {
    clearTimeout(timer)
  }
}
