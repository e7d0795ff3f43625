import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createConnection, type Socket } from 'node:net'
import type { Load } from './load.js'
import { piecesOf } from './pattern.js'
import type { TransferJob } from './transfers.js'

/** `node transfer-client.js <job file>`: fetches or sends files as fast as one process can; prints a `Load`. */
const job = JSON.parse(readFileSync(process.argv[2] as string, 'utf8')) as TransferJob
const { window, method, bytes } = job
const upload = method === 'PUT'
const headers = Object.entries({
  host: '127.0.0.1',
  ...job.headers,
  ...(upload ? { 'content-length': String(bytes) } : {}),
})
const head = ` HTTP/1.1\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`
/** Ends the answer to an upload that says not how long it is. */
const LAST_CHUNK = '0\r\n\r\n'
const READ_BYTES = 2 ** 20

const latencies: number[] = []
let failures = 0
let sent = 0
const start = performance.now()
await Promise.all(Array.from({ length: job.clients }, client))
const seconds = (performance.now() - start) / 1000

latencies.sort((a, b) => a - b)
const percentile = (share: number) => latencies[Math.floor(latencies.length * share)] ?? 0
const load: Load = { requests: latencies.length, failures, seconds, p50: percentile(0.5), p99: percentile(0.99) }
process.stdout.write(JSON.stringify(load))

/** The path of the next request. */
function next(): string | undefined {
  const over = window.kind === 'requests' ? sent >= window.requests : performance.now() - start >= window.seconds * 1000
  if (over) return undefined
  const n = sent++
  return `${job.path}${job.count === null ? n : n % job.count}`
}

async function client(): Promise<void> {
  let sentAt = 0
  let over = false
  const answers = createReader((good) => {
    if (good) latencies.push(performance.now() - sentAt)
    else failures++
    send()
  })
  // One piece of memory for all that comes: what is read is counted, not kept.
  const onread = {
    buffer: Buffer.alloc(READ_BYTES),
    callback(read: number, buffer: Uint8Array) {
      answers(Buffer.from(buffer.buffer, buffer.byteOffset, read))
      return true
    },
  }
  const socket = createConnection({ host: '127.0.0.1', port: job.port, noDelay: true, onread })
  function send(): void {
    const path = next()
    sentAt = performance.now()
    over = path === undefined
    if (path === undefined) socket.end()
    else if (upload) void sendFile(socket, `${job.sendBy ?? 'PUT'} ${path}${head}`)
    else socket.write(`GET ${path}${head}`)
  }
  socket.once('connect', send)
  socket.once('error', () => socket.destroy())
  await once(socket, 'close')
  if (!over) failures++
}

async function sendFile(socket: Socket, text: string): Promise<void> {
  socket.cork()
  socket.write(text)
  for (const piece of piecesOf(bytes)) {
    const more = socket.write(piece)
    socket.uncork()
    if (!more && !socket.destroyed) await Promise.race([once(socket, 'drain'), once(socket, 'close')])
    if (socket.destroyed) return
  }
}

/** Finds the ends of answers in what arrives. A good one has a status of success and, to GET, as many bytes as the file. */
function createReader(answered: (good: boolean) => void): (chunk: Buffer) => void {
  let head = ''
  let missing = 0
  let good = false
  let inChunks = false
  let tail = ''
  const readChunks = (chunk: Buffer): void => {
    tail = (tail + chunk.toString('latin1')).slice(-LAST_CHUNK.length)
    inChunks = tail !== LAST_CHUNK
    if (!inChunks) answered(good)
  }
  return (chunk) => {
    if (inChunks) return readChunks(chunk)
    let body = chunk.length
    if (missing === 0) {
      head += chunk.toString('latin1', 0, Math.min(chunk.length, 65_536))
      const end = head.indexOf('\r\n\r\n')
      if (end < 0) return
      const before = head.length - Math.min(chunk.length, 65_536)
      const text = head.slice(0, end)
      head = ''
      const status = Number(text.slice(9, 12))
      const length = /\r\ncontent-length: *(\d+)/i.exec(text)?.[1]
      if (upload && /\r\ntransfer-encoding: *chunked/i.test(text)) {
        good = status >= 200 && status < 300
        tail = ''
        return readChunks(chunk.subarray(end + 4 - before))
      }
      if (length === undefined && status !== 204) throw new Error(`an answer without Content-Length: ${text}`)
      missing = Number(length ?? 0)
      good = upload ? status >= 200 && status < 300 : status === 200 && missing === bytes
      body = chunk.length - (end + 4 - before)
    }
    missing -= body
    if (missing === 0) answered(good)
  }
}
