import { Readable } from 'node:stream'

/** A stream that counts its bytes. */
interface Counted {
  readonly stream: Readable
  readonly size: number
  /** Whether all bytes have arrived. */
  readonly complete: boolean
  /** Error that ended the stream. */
  readonly failure: unknown
}

export function counted(body: Readable): Counted {
  const counter = { size: 0, complete: false, failure: undefined as unknown }
  async function* pass() {
    // The consumer also throws here when it stops early.
    let reading = true
    try {
      for await (const chunk of body as AsyncIterable<Buffer>) {
        counter.size += chunk.length
        reading = false
        yield chunk
        reading = true
      }
    } catch (error) {
      if (reading) counter.failure = error
      throw error
    }
    counter.complete = true
  }
  return Object.assign(counter, { stream: Readable.from(pass(), { objectMode: false }) })
}

/** Passes a stream on. Fails when a reader waits and no data arrives for too long. */
export function withSilenceLimit(body: Readable, silenceMs: number): Readable {
  const silent = () => body.destroy(new Error(`the store was silent for ${silenceMs} ms`))
  async function* pass() {
    let timer = setTimeout(silent, silenceMs)
    try {
      for await (const chunk of body as AsyncIterable<Buffer>) {
        clearTimeout(timer)
        yield chunk
        timer = setTimeout(silent, silenceMs)
      }
    } finally {
      clearTimeout(timer)
    }
  }
  const stream = Readable.from(pass(), { objectMode: false })
  // Closing does not wait for the next bytes, and errors before the first read are not reported.
  stream.once('close', () => body.destroy())
  body.on('error', () => {})
  return stream
}
