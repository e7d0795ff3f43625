/** Summary of a complete response. */
export interface Summary {
  readonly status: number
  /** The beginning of the body: 2,000 bytes of an error, 16 of other responses. */
  readonly begins: Buffer
  /** Size of the body. */
  readonly bytes: number
  /** Whether the server closes the connection now. */
  readonly last: boolean
}

const NOTHING = Buffer.alloc(0)
const MAX_HEAD_BYTES = 64 * 1024
const NOT_HTTP = 'the response is not HTTP'

/**
 * Splits the bytes of a connection into HTTP/1.1 responses. Bodies are counted, not kept.
 * @returns a function that takes the next chunk; it throws if that is not a response with a known end
 */
export function createReader(onResponse: (summary: Summary) => void): (chunk: Buffer) => void {
  let part: 'head' | 'body' | 'chunk size' | 'chunk end' | 'trailer' = 'head'
  let kept: Buffer = NOTHING
  let missing = 0
  let answer = { status: 0, last: false, chunked: false }
  let begins: Buffer = NOTHING
  let bytes = 0

  function end(): void {
    const { status, last } = answer
    const all = { status, last, begins, bytes }
    part = 'head'
    begins = NOTHING
    bytes = 0
    onResponse(all)
  }
  function begin(text: string): void {
    const { status, length, chunked, last } = readHead(text)
    // An interim response; the final one follows.
    if (status < 200) return
    answer = { status, last, chunked }
    if (status === 204 || status === 304) return end()
    if (chunked) {
      part = 'chunk size'
      return
    }
    if (length === undefined) throw new Error('the response has neither Content-Length nor chunks')
    missing = length
    part = 'body'
    if (missing === 0) end()
  }
  function keepBeginning(piece: Buffer): void {
    const most = answer.status >= 400 ? 2000 : 16
    if (begins.length < most) begins = Buffer.concat([begins, piece.subarray(0, most - begins.length)])
  }

  return (chunk) => {
    const data = kept.length === 0 ? chunk : Buffer.concat([kept, chunk])
    kept = NOTHING
    let at = 0
    while (at < data.length) {
      if (part === 'body') {
        const piece = data.subarray(at, at + missing)
        keepBeginning(piece)
        at += piece.length
        bytes += piece.length
        missing -= piece.length
        if (missing > 0) continue
        if (answer.chunked) part = 'chunk end'
        else end()
        continue
      }
      const mark = part === 'head' ? '\r\n\r\n' : '\r\n'
      const stop = data.indexOf(mark, at)
      if (stop < 0) {
        // A copy, because the caller may reuse its memory.
        kept = Buffer.from(data.subarray(at))
        if (kept.length > MAX_HEAD_BYTES) throw new Error(NOT_HTTP)
        return
      }
      const text = data.toString('latin1', at, stop)
      at = stop + mark.length
      switch (part) {
        case 'head':
          begin(text)
          break
        case 'chunk size':
          missing = parseInt(text, 16)
          if (Number.isNaN(missing)) throw new Error(NOT_HTTP)
          part = missing === 0 ? 'trailer' : 'body'
          break
        case 'chunk end':
          part = 'chunk size'
          break
        case 'trailer':
          if (text === '') end()
      }
    }
  }
}

function readHead(text: string) {
  const status = /^HTTP\/1\.[01] (\d{3})/.exec(text)?.[1]
  if (status === undefined) throw new Error(NOT_HTTP)
  const length = /\r\ncontent-length: *(\d+)/i.exec(text)?.[1]
  return {
    status: Number(status),
    chunked: /\r\ntransfer-encoding: *chunked/i.test(text),
    length: length === undefined ? undefined : Number(length),
    last: /\r\nconnection: *close/i.test(text),
  }
}
