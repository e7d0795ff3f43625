import { Readable } from 'node:stream'

/** Bytes that are counted as they pass. */
export interface Counted {
  readonly stream: Readable
  readonly size: number
  /** All of them have come. */
  readonly whole: boolean
  /** Why no more came. */
  readonly failure: unknown
}

export function counted(body: Readable): Counted {
  const seen = { size: 0, whole: false, failure: undefined as unknown }
  async function* pass() {
    // Who reads throws here, too, when it leaves early.
    let reading = true
    try {
      for await (const chunk of body as AsyncIterable<Buffer>) {
        seen.size += chunk.length
        reading = false
        yield chunk
        reading = true
      }
    } catch (error) {
      if (reading) seen.failure = error
      throw error
    }
    seen.whole = true
  }
  return Object.assign(seen, { stream: Readable.from(pass(), { objectMode: false }) })
}

/** The same bytes; breaks off when somebody waits for more and there is silence for too long. */
export function steady(body: Readable, silenceMs: number): Readable {
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
  // A reader that leaves does not wait for the next bytes, and one that has not come yet hears of no error.
  stream.once('close', () => body.destroy())
  body.on('error', () => {})
  return stream
}
