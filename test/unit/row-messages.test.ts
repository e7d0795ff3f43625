import { EventEmitter, once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import type pg from 'pg'
import { setTimeout as sleep } from 'node:timers/promises'
import tap from 'tap'
import { packCsv } from '../../core/data/format.js'
import { Blocks, WaitingRows, divertRows, openSocket, receiveRows } from '../../core/db/fast/rows.js'
import type { Database } from '../../core/db/database.js'
import type { Job } from '../../core/db/lane.js'
import { packCells, rowOf } from '../../core/db/row-messages.js'
import { plainSource, readRows } from '../../core/db/stream.js'
import fc, { cases } from '../kit/property.js'

tap.test('rows are told from other messages wherever their bytes are cut', (t) => {
  const sent = [row('{"id":1}'), row('{"id":2}'), other('s', ''), row('{"t":"ü"}'), other('C', 'SELECT 3\0')]
  const whole = Buffer.concat(sent)
  for (let first = 0; first <= whole.length; first++) {
    for (let second = first; second <= whole.length; second += 3) {
      const { stream, passed, rows, counts } = connection(1024)
      for (const [from, to] of [
        [0, first],
        [first, second],
        [second, whole.length],
      ])
        stream.emit('data', Buffer.from(whole.subarray(from, to)))

      const text = packCells(Buffer.concat(rows), { before: 0x2c }).toString()
      if (text !== ',{"id":1},{"id":2},{"t":"ü"}') t.fail(`cut at ${first} and ${second}: ${text}`)
      if (counts.reduce((sum, count) => sum + count, 0) !== 3) t.fail(`cut at ${first} and ${second}: counted wrongly`)
      if (Buffer.concat(passed).toString() !== 's\0\0\0\x04C\0\0\0\rSELECT 3\0') {
        t.fail(`cut at ${first} and ${second}: pg got something else`)
      }
    }
  }
  t.end()
})

tap.test('a row that is too large ends the connection before all of it has come', (t) => {
  const { stream, rows } = connection(100)

  stream.emit('data', Buffer.concat([row('{}'), row('x'.repeat(200)).subarray(0, 20)]))

  t.match(stream.destroyed, { code: 'answer-too-large' })
  t.equal(rows.length, 0)
  t.end()
})

tap.test('a connection in the midst of a message gives its rows to nobody', (t) => {
  const { stream, client } = connection(100)

  stream.emit('data', row('{}').subarray(0, 7))

  t.equal(receiveRows(client, undefined), false)
  t.end()
})

tap.test('what a socket has read stays as it was while rows are not diverted', async (t) => {
  const server = createServer((socket) => socket.on('data', (chunk) => socket.write(chunk))).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = openSocket().connect((server.address() as AddressInfo).port, '127.0.0.1')
  t.teardown(() => {
    socket.destroy()
    server.close()
  })
  const chunks: Buffer[] = []
  for (const text of ['one', 'two']) {
    socket.write(text)
    chunks.push(...((await once(socket, 'data')) as [Buffer]))
  }
  t.equal(Buffer.concat(chunks).toString(), 'onetwo')
})

tap.test('a small answer takes no block, and a long one the same ones again', (t) => {
  let taken = 0
  const memory = new Set<ArrayBufferLike>()
  class Counted extends Blocks {
    override take(): Buffer {
      taken++
      const block = super.take()
      memory.add(block.buffer)
      return block
    }
  }
  const blocks = new Counted()
  const waiting = new WaitingRows(blocks)
  const one = row('x'.repeat(1000))
  for (let i = 0; i < 60; i++) waiting.add(one, 1)
  t.equal(waiting.take().count, 60)
  t.equal(taken, 0)

  for (let times = 0; times < 20; times++) {
    for (let i = 0; i < 1000; i++) waiting.add(one, 1)
    const { parts, count, bytes } = waiting.take()
    t.same([count, bytes], [1000, 1000 * one.length])
    t.ok(Buffer.concat(parts).equals(Buffer.concat(Array.from({ length: 1000 }, () => one))))
    for (const part of parts) blocks.release(part)
  }
  t.ok(taken > 60 && memory.size < 10, `${taken} times one of ${memory.size} blocks`)
  t.end()
})

tap.test('rows are packed with what stands around them', (t) => {
  const rows = () => Buffer.concat([row('{"a":1}'), row(''), row(`{"b":\n${' '.repeat(300)}\r2}`), row('{"c":3}')])
  const gap = ' '.repeat(300)

  t.equal(packCells(rows(), { before: 0x2c }).toString(), `,{"a":1},,{"b":\n${gap}\r2},{"c":3}`)
  t.equal(packCells(rows(), { after: 0x0a, oneLine: true }).toString(), `{"a":1}\n\n{"b": ${gap} 2}\n{"c":3}\n`)
  t.end()
})

tap.test('rows of many line ends are packed in one pass', (t) => {
  // Minutes go by where each line end makes the rest be searched again.
  const MANY = 4_000_000
  const packed = (cells: readonly string[]) =>
    packCells(Buffer.concat(cells.map((cell) => row(cell))), { after: 0x0a, oneLine: true })
  const spaces = `${' '.repeat(MANY)}\n`

  t.ok(packed(['\n'.repeat(MANY)]).equals(Buffer.from(spaces)), 'line feeds alone')
  t.ok(
    packed(['\r'.repeat(MANY), '\n']).equals(Buffer.from(`${spaces} \n`)),
    'carriage returns, and a line feed far away',
  )
  const small = Array.from({ length: MANY / 20 }, () => '1\n2')
  t.ok(packed(small).equals(Buffer.from('1 2\n'.repeat(small.length))), 'one in each of many cells')
  t.end()
})

tap.test('rows become CSV, in their own memory where they have room', (t) => {
  const rows = () => Buffer.concat([row('a', null, ''), row('é,', 'b"c', null), row('\n', '\r', ' ')])

  t.equal(packCsv(rows()).toString(), 'a,,""\r\n"é,","b""c",\r\n"\n","\r", \r\n')
  const own = rows()
  t.equal(packCsv(own).buffer, own.buffer)
  const quotes = row('"'.repeat(100), 'x')
  t.equal(packCsv(quotes).toString(), `"${'"'.repeat(200)}",x\r\n`)
  t.equal(packCsv(rowOf(['id', 'a"b', ''])).toString(), 'id,"a""b",""\r\n')
  t.end()
})

tap.test('any rows become the CSV that a plain program makes of them', (t) => {
  const cell = fc.option(fc.array(fc.constantFrom(...LETTERS), { maxLength: 40 }).map((letters) => letters.join('')))
  const rows = fc
    .integer({ min: 1, max: 4 })
    .chain((width) => fc.array(fc.array(cell, { minLength: width, maxLength: width })))
  fc.assert(
    fc.property(rows, (rows) => {
      const expected = rows.map((cells) => `${cells.map(plainCell).join(',')}\r\n`).join('')
      const packed = packCsv(Buffer.concat(rows.map((cells) => row(...cells)))).toString()
      if (packed !== expected) throw new Error(`${JSON.stringify(packed)}, not ${JSON.stringify(expected)}`)
    }),
    { numRuns: cases(2000) },
  )
  t.end()
})

const LETTERS = ['"', '"', '"', ',', '\n', '\r', 'a', '0', ' ', 'é', '€', '😀']

function plainCell(text: string | null): string {
  if (text === null) return ''
  return text === '' || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

tap.test('behind a pooler, nothing is left of a client that leaves as it gets its connection', async (t) => {
  const stray: unknown[] = []
  const onStray = (error: unknown) => void stray.push(error)
  process.on('unhandledRejection', onStray)
  t.teardown(() => process.off('unhandledRejection', onStray))
  const gone = new AbortController()
  let fail!: (error: Error) => void
  const client = {
    query: () => new Promise((_, reject) => (fail = reject)),
    // As pg does to what runs on a connection that ends.
    release: () => fail(new Error('Connection terminated')),
  }
  const connect = async () => {
    gone.abort(new Error('the client left'))
    return client
  }
  const pool = { idleCount: 1, waitingCount: 0, breaker: { isOpen: false, failed() {} }, waited() {}, connect }
  const job = { plan: { statements: [{}] }, values: [], execution: { timeoutMs: 20 }, call: { signal: gone.signal } }

  await t.rejects(
    readRows(
      { config: { directUrl: 'postgresql://direct' } } as unknown as Database,
      { pool, open: plainSource, place: {} } as unknown as Parameters<typeof readRows>[1],
      job as unknown as Job,
    ),
    { message: 'the client left' },
  )
  await sleep(100)
  t.strictSame(stray, [])
})

/** A connection whose rows are diverted. */
function connection(maxBytes: number) {
  const passed: Buffer[] = []
  const rows: Buffer[] = []
  const counts: number[] = []
  const stream = Object.assign(new EventEmitter(), {
    destroyed: undefined as unknown,
    destroy(error: Error) {
      this.destroyed = error
    },
  })
  stream.on('data', (chunk: Buffer) => passed.push(chunk))
  const client = { connection: { stream } } as unknown as pg.PoolClient
  divertRows(client, maxBytes)
  receiveRows(client, (part, count) => {
    rows.push(part)
    counts.push(count)
  })
  return { stream, client, passed, rows, counts }
}

function row(...cells: readonly (string | null)[]): Buffer {
  const parts = cells.map((cell) => {
    const bytes = Buffer.from(cell ?? '')
    const length = Buffer.alloc(4)
    length.writeInt32BE(cell === null ? -1 : bytes.length)
    return Buffer.concat([length, bytes])
  })
  const count = Buffer.alloc(2)
  count.writeUInt16BE(cells.length)
  return other('D', Buffer.concat([count, ...parts]))
}

function other(letter: string, body: string | Buffer): Buffer {
  const bytes = Buffer.from(body)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length + 4)
  return Buffer.concat([Buffer.from(letter), length, bytes])
}
