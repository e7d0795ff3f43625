import { serviceError } from './errors.js'

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
