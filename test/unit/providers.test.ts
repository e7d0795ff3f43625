import { createHash, randomUUID } from 'node:crypto'
import { chmod, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { pino } from 'pino'
import t from 'tap'
import { Meter } from '../../plugins/filestore/meter.js'
import emailLog from '../../providers/email/log.js'
import email, { type MemoryEmail } from '../../providers/email/memory.js'
import smsLog from '../../providers/sms/log.js'
import sms, { type MemorySms } from '../../providers/sms/memory.js'
import disk from '../../providers/storage/disk.js'
import storage from '../../providers/storage/memory.js'
import { emailContract, smsContract, storageContract } from '../kit/index.js'
import { patience } from '../kit/patience.js'

const log = pino({ level: 'silent' })

t.test('the memory email provider keeps the contract', async (t) => {
  const provider = (await email.create({ keep: 1000 }, { log, dataDir: tmpdir() })) as MemoryEmail
  const taken = () =>
    provider.sent.map((mail) => ({ ...mail, recipients: [mail.to.address], shown: [mail.to.address], attachments: [] }))
  for (const { name, run } of emailContract) await t.resolves(run({ provider, taken, secrets: [] }), name)
})

t.test('the memory SMS provider keeps the contract', async (t) => {
  const provider = (await sms.create({ keep: 1000 }, { log, dataDir: tmpdir() })) as MemorySms
  const taken = () => provider.sent.map(({ countryCode, to, message }) => ({ to: countryCode + to, text: message }))
  for (const { name, run } of smsContract) await t.resolves(run({ provider, taken, secrets: [] }), name)
})

t.test('the log providers keep the contract, and write a line for each message', async (t) => {
  const lines: string[] = []
  const context = { log: pino({}, { write: (line: string) => lines.push(line) }), dataDir: tmpdir() }
  const [mail, message] = [await emailLog.create({}, context), await smsLog.create({}, context)]

  // oxlint-disable-next-line typescript/no-explicit-any
  const written = (): any[] => lines.map((line): unknown => JSON.parse(line))
  const mails = () =>
    written().map(({ to, subject, text }) => ({ recipients: [to], shown: [to], subject, text, html: text }))
  for (const { name, run } of emailContract) await t.resolves(run({ provider: mail, taken: mails, secrets: [] }), name)
  t.match(written()[0], { to: 'reader@example.com', from: 'rowhouse@example.com', text: 'Hellö', msg: 'mail' })
  lines.length = 0
  for (const { name, run } of smsContract)
    await t.resolves(run({ provider: message, taken: written, secrets: [] }), name)
  t.match(written()[0], { to: '+15550100', text: 'Hello, wörld 👋', msg: 'SMS' })
  t.same([mail.catches, message.catches], [true, true])
})

t.test('the memory storage provider keeps the contract', async (t) => {
  const provider = await storage.create({}, { log, dataDir: tmpdir() })
  for (const { name, run } of storageContract) await t.resolves(run(provider), name)
})

t.test('the check of the disk provider names the folder in the way and its owner', async (t) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'rowhouse-disk-'))
  t.teardown(() => rm(dataDir, { recursive: true }))
  const check = (root = 'files') => disk.check!({ root, durability: 'full' }, { log, dataDir })
  await check()
  t.same(await readdir(dataDir), [])
  await disk.create({ durability: 'process' }, { log, dataDir })
  await check()
  t.same(await readdir(join(dataDir, 'files', '00')), [])

  const uid = process.getuid!()
  const asUid = uid === 0 ? 65534 : uid
  await chmod(dataDir, 0o500)
  process.seteuid!(asUid)
  const refused = await check('other').catch((error: Error) => error.message)
  process.seteuid!(uid)
  await chmod(dataDir, 0o700)
  t.equal(refused, `cannot write to ${dataDir}: permission denied, owned by uid ${uid}, and this is uid ${asUid}`)
})

for (const durability of ['full', 'process'] as const) {
  t.test(`the disk storage provider keeps the contract (${durability})`, async (t) => {
    const dataDir = t.testdir({})
    const provider = await disk.create({ durability }, { log, dataDir })
    for (const { name, run } of storageContract) await t.resolves(run(provider), name)

    const left = await readdir(join(dataDir, 'files'), { recursive: true, withFileTypes: true })
    t.same(
      left.filter((entry) => entry.isFile()).map(({ name }) => name),
      [],
      'nothing is left',
    )
    await t.rejects(provider.delete('../../etc/passwd'), /is not a valid key/)

    const key = randomUUID()
    await provider.put(key, Readable.from([Buffer.from('x')]), AbortSignal.timeout(patience(60_000)))
    const other = key.endsWith('00') ? '01' : '00'
    for (const name of ['notes.txt', '.DS_Store', key]) await writeFile(join(dataDir, 'files', other, name), 'not ours')
    await writeFile(join(dataDir, 'files', 'README'), 'not ours')
    const listed = []
    for await (const object of provider.list?.(AbortSignal.timeout(patience(60_000))) ?? []) listed.push(object)
    t.same(listed, [{ key, size: 1 }], 'what is no object of ours is not listed')
  })
}

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void
const used = () => {
  collectGarbage()
  return process.memoryUsage().heapUsed
}

/** Bytes that come one by one, each a buffer of its own, and no end. */
class SingleBytes extends Readable {
  sent = 0
  private readonly count: number

  constructor(count: number) {
    super()
    this.count = count
  }

  override _read(): void {
    if (this.sent < this.count) this.push(Buffer.from([this.sent++ % 251]))
  }
}

t.test('what comes in tiny pieces takes not much more memory than it is long', async (t) => {
  const provider = await disk.create({ durability: 'process' }, { log, dataDir: t.testdir({}) })
  const count = 900_000
  const body = new SingleBytes(count)
  const stop = new AbortController()
  const before = used()
  const put = provider.put(randomUUID(), new Meter(body, count), stop.signal)
  put.catch(() => {})
  while (body.sent < count) await setImmediate()

  t.ok(used() - before < 16 * 2 ** 20, 'in the disk storage provider')
  stop.abort()
  await t.rejects(put, { name: 'AbortError' })

  const meter = new Meter(new SingleBytes(count), count)
  const without = used()
  meter.read(0)
  while (meter.size < count) await setImmediate()
  t.ok(used() - without < 16 * 2 ** 20, 'on their way there')
  meter.destroy()
})

t.test('what comes in tiny and in large pieces is stored as it was sent', async (t) => {
  const provider = await disk.create({ durability: 'process' }, { log, dataDir: t.testdir({}) })
  const pieces = Array.from({ length: 3000 }, (_, i) => Buffer.alloc(i % 700 === 0 ? 5000 : (i % 5) + 1, String(i)))
  const whole = Buffer.concat(pieces)
  const meter = new Meter(Readable.from(pieces), whole.length)
  const key = randomUUID()
  const { signal } = new AbortController()

  t.same(await provider.put(key, meter, signal), { size: whole.length })
  t.ok((await buffer(await provider.get(key, undefined, signal))).equals(whole))
  t.ok(meter.sha256().equals(createHash('sha256').update(whole).digest()))
})

t.test('what nobody waits for is not kept and not written, and may be sent again', async (t) => {
  const context = { log, dataDir: tmpdir() }
  const head = { id: randomUUID(), to: { address: 'reader@example.com' }, from: { address: 'shop@example.com' } }
  const givenUp = { name: 'SendError', outcome: 'retry', message: 'the send was cancelled before it started' }
  for (const provider of [await email.create({ keep: 10 }, context), await emailLog.create({}, context)])
    await t.rejects(provider.send({ ...head, subject: 'Hi', text: 'Hi' }, AbortSignal.abort()), givenUp)
  for (const provider of [await sms.create({ keep: 10 }, context), await smsLog.create({}, context)])
    await t.rejects(
      provider.send({ id: head.id, to: '5550100', countryCode: '1', message: 'Hi' }, AbortSignal.abort()),
      givenUp,
    )
})
