import { serviceError } from './errors.js'

export interface ReaderLimits {
  /** Longest time for all that a reader is given. */
  readonly streamMaxAgeMs: number
  /** Slowest reader; 0: any. */
  readonly streamMinBytesPerSecond: number
}

/** What a reader has at least for what it was given last. */
const READ_MS = 30_000
/** Of Node's timers. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** Ends an answer whose reader takes too long for what it was given. */
export class ReaderClock {
  private readonly end: () => void
  private readonly oldest: number
  private readonly bytesPerSecond: number
  private timer: NodeJS.Timeout | undefined
  private late = false

  constructor({ streamMaxAgeMs, streamMinBytesPerSecond }: ReaderLimits, end: () => void) {
    this.end = end
    this.oldest = Date.now() + streamMaxAgeMs
    this.bytesPerSecond = streamMinBytesPerSecond
  }

  /** @param bytes that the reader gets */
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
    if (this.late) throw serviceError('timeout', 'the stream took longer than the server allows')
  }
}
