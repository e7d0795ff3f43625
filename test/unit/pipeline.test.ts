import { PassThrough } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import type pg from 'pg'
import t from 'tap'
import { CommitConnection, openPipelines, type PipelineOptions, ReadConnection } from '../../core/db/fast/pipelines.js'
import { Pace } from '../../core/db/fast/pace.js'
import { Incoming, Outgoing } from '../../core/db/messages.js'
import fc from '../kit/property.js'
import { until } from '../kit/until.js'

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
      noticed: () => void heard.push('noticed'),
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

t.test('what fails for one caller shares no more for that one, and what fails for many for nobody', async (t) => {
  const pace = new Pace(5)
  for (let i = 0; i < 8; i++) pace.ranAlone(1)

  for (let i = 0; i < 100; i++) pace.of('1').failed()
  pace.of('2').suspend()
  t.notOk(pace.of('1').mayShare)
  t.notOk(pace.of('2').mayShare)
  t.ok(pace.of('3').mayShare)
  t.ok(pace.of(undefined).mayShare)

  pace.of('3').failed()
  t.ok(pace.of('4').mayShare)
  pace.of('4').failed()
  t.notOk(pace.of('5').mayShare, 'a fourth for whom it fails')
})

const ORIGIN = { planner: 'query', reader: { role: 'user', kind: 'read' as const } }
const STATEMENT = { name: 's1', text: 'select $1' }
const FAILED = message('E', Buffer.from('SERROR\0\0'))
const answers = (texts: readonly string[]): Buffer => Buffer.concat(texts.flatMap((text) => [row(text), done]))

/** Pipelines to servers that answer nothing by themselves. */
function silentServers(
  t: Pick<typeof t0, 'fail' | 'teardown'>,
  slowMs = 60_000,
  Connection: PipelineOptions['Connection'] = ReadConnection,
  maxBytes = 1000,
) {
  const stream = new PassThrough()
  const written: Buffer[] = []
  const cancelled: pg.Client[] = []
  const outcomes: string[] = []
  // As pg does.
  stream.on('error', () => {})
  stream._write = (chunk: Buffer, _, next) => {
    written.push(chunk)
    next()
  }
  const lateness = { ms: 0 }
  const pipelines = openPipelines({
    lateness,
    silenced: new Set(),
    doubt: () => {},
    Connection,
    connections: 1,
    maxBytes,
    silenceMs: 60_000,
    slowMs,
    isDown: () => false,
    failed: (error) => t.fail(String(error)),
    cancel: (client) => void cancelled.push(client),
    onBatch: (outcome) => void outcomes.push(outcome),
    connect: async () => ({ connection: { stream }, end: async () => void stream.destroy() }) as unknown as pg.Client,
  })
  // The pipelines keep no process alive.
  const alive = setInterval(() => {}, 1000)
  t.teardown(() => clearInterval(alive))
  t.teardown(() => pipelines.close())
  const judged: number[] = []
  const barred: number[] = []
  const pace = Object.assign(new Pace(5), {
    ranShared: (ms: number) => void judged.push(ms),
    overtaken: () => void judged.push(Infinity),
    suspend: () => void barred.push(1),
  })
  const ask = (value: string, statement = STATEMENT) => pipelines.run(statement, [value], ORIGIN, pace)
  return {
    pipelines,
    lateness,
    judged,
    barred,
    cancelled,
    outcomes,
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
    async pieces(): Promise<Buffer[]> {
      await setImmediate()
      return written.splice(0)
    },
    receive: (...pieces: readonly Buffer[]) => void stream.emit('data', Buffer.concat(pieces)),
  }
}
const t0 = t
/** The names of the statements that each piece prepares. */
const prepared = (pieces: readonly Buffer[]): string[][] =>
  pieces.map((piece) =>
    [...piece.toString('latin1').matchAll(/P...[^\0](s\d)\0select/gs)].map(([, name]) => name ?? ''),
  )
const answered = (asked: readonly (Promise<Buffer> | undefined)[]) => Promise.all(asked.map(async (one) => one))

t.test('what is asked while others are under way goes out in one piece when those are answered', async (t) => {
  const { ask, sent, receive, judged, pipelines } = silentServers(t)
  t.equal(ask('value 0'), undefined, 'the first has the connection opened')
  await setImmediate()
  const one = ask('value 1')
  t.same(await sent(), ['value 1'])
  const others = [ask('value 2'), ask('value 3'), ask('value 4')]
  t.same(await sent(), [])
  t.equal(pipelines.inFlight, 4)
  receive(answers(['one']), READY)
  t.equal((await one)?.toString(), 'one')
  t.same(judged, [], 'how long it takes to prepare is not held against it')
  t.same(await sent(), ['value 2,value 3,value 4'])
  receive(answers(['two', 'three']))
  receive(answers(['four']), READY)
  t.same((await answered(others)).map(String), ['two', 'three', 'four'])
  t.equal(judged.length, 3)
  t.same(await sent(), [])
  t.equal(pipelines.inFlight, 0)
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
  t.same(await sent(), ['value 3,value 4'])
  receive(answers(['three', 'four']), READY)
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

t.test('on a machine that is late, nobody is to blame', async (t) => {
  const { ask, sent, receive, judged, lateness, pipelines } = silentServers(t, 20)
  ask('value 0')
  await setImmediate()
  const first = ask('value 1')
  await sent()
  receive(answers(['one']), READY)
  await first
  lateness.ms = 60_000
  const asked = [ask('value 2'), ask('value 3')]
  await sent()
  await new Promise((resolve) => setTimeout(resolve, 100))
  receive(answers(['two', 'three']), READY)
  t.same((await answered(asked)).map(String), ['two', 'three'], 'they are waited for')
  t.equal(pipelines.open, 1)
  t.equal(judged.length, 2)
  t.ok(judged.every((ms) => ms < 0))
})

t.test('what is too long is asked elsewhere', async (t) => {
  const { ask, sent, receive } = silentServers(t)
  ask('value 0')
  await setImmediate()
  t.equal(ask('x'.repeat(20_000)), undefined)
  const asked = ask('x'.repeat(10_000))
  await sent()
  receive(answers(['one']), READY)
  t.equal((await asked)?.toString(), 'one')
})

t.test('what waits behind a batch that has failed is prepared again, however often', async (t) => {
  const { ask, pieces, receive } = silentServers(t)
  const other = { name: 's2', text: 'select 2, $1' }
  ask('value 0')
  await setImmediate()
  const first = t.rejects(ask('value 1') as Promise<unknown>, /has failed/)
  t.same(prepared(await pieces()), [['s1']])
  // Behind it: what it would have prepared, and something new.
  const asked = [ask('value 2'), ask('value 3', other)]
  receive(FAILED, READY)
  await first
  t.same(prepared(await pieces()), [['s1', 's2']])
  const second = t.rejects(asked[0] as Promise<unknown>, /has failed/)
  const last = ask('value 4')
  receive(FAILED, READY)
  await second
  t.same(prepared(await pieces()), [['s2', 's1']], 'the one that was passed over, and the one that waited')
  receive(answers(['three', 'four']), READY)
  t.same((await answered([asked[1], last])).map(String), ['three', 'four'])
})

t.test('nobody hears of an insert before its commit, and all go elsewhere when it is rolled back', async (t) => {
  const { ask, sent, receive, outcomes } = silentServers(t, 60_000, CommitConnection)
  ask('value 0')
  await setImmediate()
  const asked = [ask('value 1'), ask('value 2')]
  let heard = false
  void answered(asked).then(() => (heard = true))
  t.same(await sent(), ['value 1,value 2'])
  receive(answers(['one', 'two']))
  await setImmediate()
  t.notOk(heard)
  receive(READY)
  t.same((await answered(asked)).map(String), ['one', 'two'])

  for (const failure of [
    [answers(['three']), FAILED],
    [answers(['three', 'four']), FAILED],
  ]) {
    const both = [ask('value 3'), ask('value 4')].map((one) => t.rejects(one as Promise<unknown>, /rolled back/))
    await sent()
    receive(...failure, READY)
    await Promise.all(both)
  }
  t.same(outcomes, ['good', 'failed', 'failed'])
})

t.test('what PostgreSQL warns of after a cancellation may be that a commit is not safe yet', async (t) => {
  const { ask, sent, receive, cancelled, outcomes } = silentServers(t, 20, CommitConnection)
  ask('value 0')
  await setImmediate()
  const unsure = [ask('value 1'), ask('value 2')].map((one) =>
    t.rejects(one as Promise<unknown>, /not|before the commit/),
  )
  await sent()
  await until('it is cancelled, and again when that was of no use', async () => cancelled.length > 1)
  receive(message('N', Buffer.from('SWARNING\0\0')), answers(['one', 'two']), READY)
  await Promise.all(unsure)
  t.same(outcomes, ['good'])
})

t.test('an end that nobody can explain is not taken for a rollback', async (t) => {
  const { ask, sent, receive } = silentServers(t, 60_000, CommitConnection)
  ask('value 0')
  await setImmediate()
  const asked = [ask('value 1'), ask('value 2')].map((one) =>
    t.rejects(one as Promise<unknown>, /Connection terminated/),
  )
  await sent()
  receive(answers(['one']), READY)
  await Promise.all(asked)
})

t.test('what holds large answers is kept away for a while', async (t) => {
  const { ask, sent, receive, barred } = silentServers(t, 60_000, CommitConnection, 1_000_000)
  ask('value 0')
  await setImmediate()
  const asked = ask('value 1')
  await sent()
  receive(answers(['x'.repeat(70_000)]), READY)
  t.equal((await asked)?.length, 70_000)
  t.equal(barred.length, 1)
})

t.test('a connection of which PostgreSQL says unasked that it ends takes nothing more', async (t) => {
  const { ask, receive } = silentServers(t)
  ask('value 0')
  await setImmediate()
  receive(FAILED)
  t.equal(ask('value 1'), undefined)
})

t.test('what was asked just before that is answered as PostgreSQL answers it', async (t) => {
  const { ask, sent, receive } = silentServers(t, 60_000, CommitConnection)
  ask('value 0')
  await setImmediate()
  const asked = ask('value 1')
  receive(FAILED)
  t.same(await sent(), ['value 1'])
  receive(answers(['one']), READY)
  t.equal((await asked)?.toString(), 'one', 'it has been committed')
})

t.test('an answer that was too large is forgotten with its batch', async (t) => {
  const { ask, sent, receive, barred } = silentServers(t, 60_000, CommitConnection)
  ask('value 0')
  await setImmediate()
  const failing = t.rejects(ask('value 1') as Promise<unknown>, /rolled back/)
  await sent()
  receive(row('x'.repeat(2000)), FAILED, READY)
  await failing
  const asked = ask('value 2')
  await sent()
  receive(answers(['two']), READY)
  t.equal((await asked)?.toString(), 'two')
  t.same(barred, [])
})
