import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import type { Load, LoadJob } from './load.js'

/** `node client.js <job file>`: a load generator for HTTP/1.1 with keep-alive and no pipelining; prints a `Load`. */
const job = JSON.parse(readFileSync(process.argv[2] as string, 'utf8')) as LoadJob
const { host = '127.0.0.1', method = 'POST', lateMs } = job
const requests = job.bodies.map((body, n) => {
  const length = { 'content-length': String(Buffer.byteLength(body)) }
  const headers = Object.entries({ host, ...job.headers, ...job.headersEach?.[n], ...length })
  return Buffer.from(
    `${method} ${job.paths?.[n] ?? job.path} HTTP/1.1\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`,
  )
})

const { window } = job
const latencies: number[] = []
let failures = 0
let sent = 0
const start = performance.now()
await Promise.all(Array.from({ length: job.clients }, client))
const seconds = (performance.now() - start) / 1000

latencies.sort((a, b) => a - b)
const percentile = (share: number) => latencies[Math.floor(latencies.length * share)] ?? 0
const load: Load = {
  requests: latencies.length,
  failures,
  seconds,
  p50: percentile(0.5),
  p99: percentile(0.99),
  ...(lateMs === undefined ? {} : { late: latencies.filter((ms) => ms > lateMs).length }),
}
process.stdout.write(JSON.stringify(load))

function next(): Buffer | undefined {
  const over = window.kind === 'requests' ? sent >= window.requests : performance.now() - start >= window.seconds * 1000
  return over ? undefined : requests[sent++ % requests.length]
}

/** One connection, which sends the next request when it has the whole answer to the one before. */
async function client(): Promise<void> {
  const socket = connect({ host, port: job.port, noDelay: true })
  let sentAt = 0
  let over = false
  const send = () => {
    const request = next()
    sentAt = performance.now()
    over = request === undefined
    if (request) socket.write(request)
    else socket.end()
  }
  const answers = createReader((status) => {
    if (status < 400) latencies.push(performance.now() - sentAt)
    else failures++
    send()
  })
  socket.once('connect', send)
  // Not `for await`: what it costs would be taken from the servers.
  socket.on('data', answers)
  socket.once('error', () => socket.destroy())
  await once(socket, 'close')
  if (!over) failures++
}

/** Ends a body in chunks. JSON has no such lines inside. */
const LAST_CHUNK = '0\r\n\r\n'

/** Finds the ends of answers in what arrives, by `Content-Length` or by the last chunk. */
function createReader(answered: (status: number) => void): (chunk: Buffer) => void {
  let head: Buffer = Buffer.alloc(0)
  let missing = 0
  let status = 0
  let chunked = false
  let tail = ''
  const readChunks = (body: Buffer): void => {
    tail = (tail + body.toString('latin1', Math.max(0, body.length - LAST_CHUNK.length))).slice(-LAST_CHUNK.length)
    chunked = tail !== LAST_CHUNK
    if (!chunked) answered(status)
  }
  return (chunk) => {
    let body = chunk
    if (chunked) return readChunks(chunk)
    if (missing === 0) {
      head = head.length === 0 ? chunk : Buffer.concat([head, chunk])
      const end = head.indexOf('\r\n\r\n')
      if (end < 0) return
      const text = head.toString('latin1', 0, end)
      const length = /\r\ncontent-length: *(\d+)/i.exec(text)?.[1]
      const inChunks = /\r\ntransfer-encoding: *chunked/i.test(text)
      if (length === undefined && !inChunks) throw new Error(`an answer without an end: ${text}`)
      status = Number(text.slice(9, 12))
      body = head.subarray(end + 4)
      head = Buffer.alloc(0)
      if (inChunks) {
        tail = ''
        return readChunks(body)
      }
      missing = Number(length)
    }
    missing -= body.length
    if (missing === 0) answered(status)
  }
}
