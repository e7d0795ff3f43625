import { PassThrough } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import type pg from 'pg'
import t from 'tap'
import { openPipelines, ReadConnection } from '../../core/db/pipeline/index.js'
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

const done = message('C', Buffer.from('SELECT 1\0'))
const READY = message('Z', Buffer.from('I'))

/** What a receiver hears of chunks. */
function hear(chunks: readonly Buffer[], maxBytes = 1000, passOver = false): string[] {
  const heard: string[] = []
  const incoming = new Incoming(
    {
      row: (cell) => void heard.push(`row ${cell.toString()}`),
      complete: () => void heard.push('complete'),
      failed: () => void heard.push('failed'),
      ready: () => void heard.push('ready'),
      tooLarge() {
        heard.push('too large')
        return passOver
      },
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
  const expected = ['row [{"a":"é"}]', 'complete', 'ready', 'failed', 'ready', 'row ', 'ready']
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

t.test('a row that is too large can be passed over, however it is cut', async (t) => {
  const whole = Buffer.concat([row('short'), row('x'.repeat(200)), row('y'.repeat(300)), done, READY, row('next')])
  const expected = ['row short', 'too large', 'too large', 'complete', 'ready', 'row next']
  for (const size of [1, 2, 3, 5, 7, 50, 211, 212, 1000]) {
    const chunks = Array.from({ length: Math.ceil(whole.length / size) }, (_, i) =>
      whole.subarray(i * size, (i + 1) * size),
    )
    t.same(hear(chunks, 100, true), expected, `${size} bytes at a time`)
  }
})

t.test('what is sent is what the manual says', async (t) => {
  const outgoing = new Outgoing()
  outgoing.prepare('s1', 'select $1')
  outgoing.run('s1', ['é', null, ''])
  outgoing.sync()
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
const answers = (texts: readonly string[]): Buffer => Buffer.concat(texts.flatMap((text) => [row(text), done]))

/** Pipelines to servers that answer nothing by themselves. */
function silentServers(t: Pick<typeof t0, 'fail' | 'teardown'>, slowMs = 60_000) {
  const stream = new PassThrough()
  const written: Buffer[] = []
  const cancelled: pg.Client[] = []
  // As pg does.
  stream.on('error', () => {})
  stream._write = (chunk: Buffer, _, next) => {
    written.push(chunk)
    next()
  }
  const pipelines = openPipelines({
    Connection: ReadConnection,
    connections: 1,
    maxBytes: 1000,
    silenceMs: 60_000,
    slowMs,
    failed: (error) => t.fail(String(error)),
    cancel: (client) => void cancelled.push(client),
    connect: async () => ({ connection: { stream }, end: async () => void stream.destroy() }) as unknown as pg.Client,
  })
  // The pipelines keep no process alive.
  const alive = setInterval(() => {}, 1000)
  t.teardown(() => clearInterval(alive))
  t.teardown(() => pipelines.close())
  const judged: number[] = []
  const pace = Object.assign(new Pace(5), { ranShared: (ms: number) => void judged.push(ms) })
  const ask = (value: string) => pipelines.ask(STATEMENT, [value], pace)
  return {
    pipelines,
    judged,
    cancelled,
    ask,
    /** The values that were sent since the last call, in one piece each time. */
    async sent(): Promise<string[]> {
      await setImmediate()
      return written.splice(0).map(
        (piece) =>
          piece
            .toString('latin1')
            .match(/value \d+/g)
            ?.join() ?? '',
      )
    },
    receive: (...pieces: readonly Buffer[]) => void stream.emit('data', Buffer.concat(pieces)),
  }
}
const t0 = t
const answered = (asked: readonly (Promise<Buffer> | undefined)[]) => Promise.all(asked.map(async (one) => one))

t.test('what is asked while others are under way goes out in one piece when those are answered', async (t) => {
  const { ask, sent, receive, judged, pipelines } = silentServers(t)
  t.equal(ask('value 0'), undefined, 'the first has the connection opened')
  await setImmediate()
  const one = ask('value 1')
  t.same(await sent(), ['value 1'])
  const others = [ask('value 2'), ask('value 3'), ask('value 4')]
  t.same(await sent(), [])
  t.equal(pipelines.underWay, 4)
  receive(answers(['one']), READY)
  t.equal((await one)?.toString(), 'one')
  t.same(judged, [], 'how long it takes to prepare is not held against it')
  t.same(await sent(), ['value 2,value 3,value 4'])
  receive(answers(['two', 'three']))
  receive(answers(['four']), READY)
  t.same((await answered(others)).map(String), ['two', 'three', 'four'])
  t.equal(judged.length, 3)
  t.same(await sent(), [])
  t.equal(pipelines.underWay, 0)
})

t.test('those behind one that fails are sent again', async (t) => {
  const { ask, sent, receive } = silentServers(t)
  ask('value 0')
  await setImmediate()
  const asked = [ask('value 1'), ask('value 2'), ask('value 3')]
  const failing = t.rejects(asked[1] as Promise<unknown>, /has failed/)
  t.same(await sent(), ['value 1,value 2,value 3'])
  const later = ask('value 4')
  receive(answers(['one']), message('E', Buffer.from('SERROR\0\0')), READY)
  await failing
  t.same(await sent(), ['value 4,value 3'])
  receive(answers(['four', 'three']), READY)
  t.same((await answered([asked[0], asked[2], later])).map(String), ['one', 'three', 'four'])
})

t.test('nobody waits for answers that do not come', async (t) => {
  const { ask, sent, judged, cancelled, pipelines } = silentServers(t, 20)
  ask('value 0')
  await setImmediate()
  const asked = [ask('value 1'), ask('value 2')]
  const elsewhere = asked.map((one) => t.rejects(one as Promise<unknown>, /takes long/))
  await sent()
  const queued = t.rejects(ask('value 3') as Promise<unknown>, /takes long/)
  await Promise.all([...elsewhere, queued])
  t.equal(judged.length, 2, 'whose fault it is nobody knows')
  t.equal(cancelled.length, 1, 'PostgreSQL is told')
  t.equal(pipelines.open, 0)
})

t.test('one that is alone is waited for, however long it takes', async (t) => {
  const { ask, sent, receive, judged, cancelled } = silentServers(t, 20)
  ask('value 0')
  await setImmediate()
  const slow = ask('value 1')
  await sent()
  await t.rejects(ask('value 2') as Promise<unknown>, /takes long/)
  t.equal(judged.length, 1)
  t.equal(ask('value 3'), undefined, 'it takes nothing more')
  receive(answers(['one']), READY)
  t.equal((await slow)?.toString(), 'one')
  t.equal(cancelled.length, 0)
})
