import { once } from 'node:events'
import { createConnection, type Socket } from 'node:net'
import { json } from 'node:stream/consumers'
import { createReader } from '../../plugins/bench/answers.js'
import { loadOf } from './load.js'
import { piecesOf } from './pattern.js'
import type { TransferJob } from './transfers.js'

/** Fetches or sends files as fast as one process can: reads a `TransferJob`, prints a `Load`. */
const job = (await json(process.stdin)) as TransferJob
const { window, method, bytes } = job
const upload = method === 'PUT'
const headers = Object.entries({
  host: '127.0.0.1',
  ...job.headers,
  ...(upload ? { 'content-length': String(bytes) } : {}),
})
const head = ` HTTP/1.1\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`
const READ_BYTES = 2 ** 20

const latencies: number[] = []
let failures = 0
let sent = 0
const start = performance.now()
await Promise.all(Array.from({ length: job.clients }, client))
const seconds = (performance.now() - start) / 1000

process.stdout.write(JSON.stringify(loadOf(Float64Array.from(latencies).sort(), failures, seconds)))

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
  const answers = createReader(({ status, bytes: got }) => {
    if (upload ? status >= 200 && status < 300 : status === 200 && got === bytes)
      latencies.push(performance.now() - sentAt)
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
