import type { Socket } from 'node:net'
import { type ServiceError, serviceError } from '../errors.js'
import { DATA_ROW, HEADER } from './row-messages.js'

/**
 * Closes a connection when a row above the limit arrives, as soon as its length is read. The driver would make one
 * string of any size, and a string that is too long crashes the process.
 */
export function limitAnswers(stream: Socket, maxBytes: number): void {
  const messages = new Messages()
  const listeners = stream.listeners('data') as ((chunk: Buffer) => void)[]
  stream.removeAllListeners('data')
  stream.on('data', (chunk: Buffer) => {
    if (messages.largestRow(chunk) > maxBytes) stream.destroy(answerTooLarge(maxBytes))
    else for (const listener of listeners) listener.call(stream, chunk)
  })
}

/** Tracks protocol messages across chunks. */
class Messages {
  /** Missing bytes of the current message. */
  private left = 0
  /** Buffer for a partial header. */
  private readonly header = Buffer.alloc(HEADER)
  private has = 0

  /** Returns the length of the largest row that starts in a chunk. */
  largestRow(chunk: Buffer): number {
    let largest = 0
    let at = 0
    while (at < chunk.length) {
      if (this.left > 0) {
        const step = Math.min(this.left, chunk.length - at)
        this.left -= step
        at += step
        continue
      }
      const step = Math.min(HEADER - this.has, chunk.length - at)
      chunk.copy(this.header, this.has, at, at + step)
      this.has += step
      at += step
      if (this.has < HEADER) break
      this.has = 0
      const length = this.header.readUInt32BE(1)
      this.left = length - 4
      if (this.header[0] === DATA_ROW) largest = Math.max(largest, length)
    }
    return largest
  }
}

export const answerTooLarge = (maxBytes: number): ServiceError =>
  serviceError(
    'answer-too-large',
    `the answer has a part of more than ${Math.floor(maxBytes / 1024 / 1024)} MiB (database.maxAnswerBytes): ask for less at once; a select without a limit comes row by row`,
  )
