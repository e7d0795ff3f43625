import { PassThrough } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import type pg from 'pg'
import t from 'tap'
import { openPipelines } from '../../core/db/pipeline/index.js'
import { Incoming, Outgoing } from '../../core/db/pipeline/messages.js'
import { Pace } from '../../core/db/pipeline/pace.js'

const message = (type: string, body: Buffer): Buffer => {
  const length = Buffer.alloc(4)
  length.writeInt32BE(body.length + 4)
  return Buffer.concat([Buffer.from(type), length, body])
}
const row = (text: string): Buffer => {
  const cell = Buffer.from(text)
  const header = Buffer.alloc(6)
  header.writeInt16BE(1)
  header.writeInt32BE(cell.length, 2)
  return message('D', Buffer.concat([header, cell]))
}

/** What a receiver hears of chunks. */
function hear(chunks: readonly Buffer[], maxBytes = 1000): string[] {
  const heard: string[] = []
  const incoming = new Incoming(
    {
      row: (cell) => void heard.push(`row ${cell.toString()}`),
      failed: () => void heard.push('failed'),
      ready: () => void heard.push('ready'),
      tooLarge: () => void heard.push('too large'),
    },
    maxBytes,
  )
  for (const chunk of chunks) incoming.read(chunk)
  return heard
}

t.test('messages are the same however they are cut', async (t) => {
  const parts = [
    message('1', Buffer.alloc(0)),
    message('2', Buffer.alloc(0)),
    row('[{"a":"é"}]'),
    message('C', Buffer.from('SELECT 1\0')),
    message('Z', Buffer.from('I')),
    message('E', Buffer.from('SERROR\0\0')),
    message('Z', Buffer.from('I')),
    row(''),
    message('Z', Buffer.from('I')),
  ]
  const whole = Buffer.concat(parts)
  const expected = ['row [{"a":"é"}]', 'ready', 'failed', 'ready', 'row ', 'ready']
  t.same(hear([whole]), expected)
  t.same(hear([...whole].map((byte) => Buffer.from([byte]))), expected, 'a byte at a time')
  fc.assert(
    fc.property(fc.array(fc.nat(whole.length), { maxLength: 12 }), (cuts) => {
      const at = [0, ...cuts.toSorted((a, b) => a - b), whole.length]
      const chunks = at.slice(1).map((end, i) => whole.subarray(at[i], end))
      t.same(hear(chunks), expected)
    }),
  )
})

t.test('a row that is too large is told of as soon as its length is known', async (t) => {
  t.same(hear([row('short'), row('x'.repeat(200)).subarray(0, 5)], 100), ['row short', 'too large'])
})

t.test('what is sent is what the manual says', async (t) => {
  const outgoing = new Outgoing()
  outgoing.prepare('s1', 'select $1')
  outgoing.run('s1', ['é', null, ''])
  const value = Buffer.concat([Buffer.from([0, 0, 0, 2]), Buffer.from('é')])
  const none = Buffer.from([0xff, 0xff, 0xff, 0xff])
  const empty = Buffer.from([0, 0, 0, 0])
  t.same(
    outgoing.take(),
    Buffer.concat([
      message('P', Buffer.from('s1\0select $1\0\0\0')),
      message('B', Buffer.concat([Buffer.from('\0s1\0\0\0\0\x03'), value, none, empty, Buffer.from('\0\0')])),
      message('E', Buffer.from('\0\0\0\0\0')),
      message('S', Buffer.alloc(0)),
    ]),
  )
  t.equal(outgoing.length, 0)
  const long = 'ö'.repeat(100_000)
  outgoing.run('s1', [long])
  t.ok(outgoing.take().includes(long), 'more than it had room for')
})

t.test('a read may share when it has been quick often enough, and until it was slow too often', async (t) => {
  const pace = new Pace(5)
  const run = (times: number, ms: number) => {
    for (let i = 0; i < times; i++) pace.ranAlone(ms)
  }
  run(7, 1)
  t.notOk(pace.mayShare)
  run(3, 60)
  run(3, 1)
  t.notOk(pace.mayShare, 'a slow one takes one back')
  run(1, 20)
  run(1, 1)
  t.ok(pace.mayShare)

  pace.ranShared(60)
  pace.ranShared(60)
  pace.ranShared(60)
  for (let i = 0; i < 60; i++) pace.ranShared(1)
  pace.ranShared(60)
  t.ok(pace.mayShare, 'quick ones make up for slow ones')
  pace.ranShared(600)
  t.notOk(pace.mayShare, 'a very slow one counts twice')
  run(100, 1)
  t.notOk(pace.mayShare, 'not again at once')
})

const STATEMENT = { name: 's1', text: 'select $1' }
const answer = (text: string): Buffer => Buffer.concat([row(text), message('Z', Buffer.from('I'))])

/** Pipelines to servers that answer nothing by themselves. */
function silentServers(t: Tap, connections: number) {
  /** By connection: what was written to it, and how to answer. */
  const sockets: { readonly writes: Buffer[]; answer(text: string): void; end(): void }[] = []
  const pipelines = openPipelines({
    connections,
    maxBytes: 1000,
    silenceMs: 60_000,
    slowMs: 60_000,
    failed: (error) => t.fail(String(error)),
    async connect() {
      const stream = new PassThrough()
      const writes: Buffer[] = []
      stream._write = (chunk: Buffer, _, done) => {
        writes.push(chunk)
        done()
      }
      sockets.push({
        writes,
        answer: (text) => void stream.emit('data', answer(text)),
        end: () => void stream.destroy(),
      })
      return { connection: { stream }, end: async () => void stream.destroy() } as unknown as pg.Client
    },
  })
  t.teardown(() => pipelines.close())
  return { pipelines, sockets }
}
type Tap = Pick<typeof t, 'fail' | 'teardown'>

t.test('how long a read takes that had to be prepared first is not held against it', async (t) => {
  const { pipelines, sockets } = silentServers(t, 1)
  const judged: number[] = []
  const pace = Object.assign(new Pace(5), { ranShared: (ms: number) => void judged.push(ms) })
  t.equal(pipelines.ask(STATEMENT, [], pace), undefined, 'the first has the connection opened')
  await setImmediate()
  for (const runs of [0, 1, 2]) {
    const asked = pipelines.ask(STATEMENT, ['1'], pace)
    await setImmediate()
    sockets[0]?.answer('x')
    t.equal((await asked)?.toString(), 'x')
    t.equal(judged.length, runs)
  }
})
