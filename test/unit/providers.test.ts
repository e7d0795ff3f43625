import { randomUUID } from 'node:crypto'
import { readdir, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pino } from 'pino'
import t from 'tap'
import emailLog from '../../providers/email/log.js'
import email from '../../providers/email/memory.js'
import smsLog from '../../providers/sms/log.js'
import sms from '../../providers/sms/memory.js'
import disk from '../../providers/storage/disk.js'
import storage from '../../providers/storage/memory.js'
import { emailContract, smsContract, storageContract } from '../kit/index.js'

const log = pino({ level: 'silent' })

t.test('the memory email provider keeps the contract', async (t) => {
  const provider = await email.create({ keep: 10 }, { log, dataDir: tmpdir() })
  for (const { name, run } of emailContract) await t.resolves(run(provider), name)
})

t.test('the memory SMS provider keeps the contract', async (t) => {
  const provider = await sms.create({ keep: 10 }, { log, dataDir: tmpdir() })
  for (const { name, run } of smsContract) await t.resolves(run(provider), name)
})

t.test('the log providers keep the contract, and write a line for each message', async (t) => {
  const lines: string[] = []
  const context = { log: pino({}, { write: (line: string) => lines.push(line) }), dataDir: tmpdir() }
  const [mail, message] = [await emailLog.create({}, context), await smsLog.create({}, context)]

  for (const { name, run } of emailContract) await t.resolves(run(mail), name)
  t.match(
    lines.map((line): unknown => JSON.parse(line)),
    [
      { to: 'reader@example.com', from: 'rowhouse@example.com', subject: 'Hello, wörld', text: 'Hello', msg: 'mail' },
      { text: '<p>Hello</p>' },
      { text: 'Hello' },
      { text: 'one' },
      { text: 'other' },
    ],
  )
  t.equal(lines.splice(0).length, 5)
  for (const { name, run } of smsContract) await t.resolves(run(message), name)
  t.match(
    lines.map((line): unknown => JSON.parse(line)),
    Array.from({ length: 3 }, () => ({ to: '+15550100', text: 'Hello, wörld 👋', msg: 'SMS' })),
  )
  t.equal(mail.catches ?? message.catches, undefined)
})

t.test('the memory storage provider keeps the contract', async (t) => {
  const provider = await storage.create({}, { log, dataDir: tmpdir() })
  for (const { name, run } of storageContract) await t.resolves(run(provider), name)
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
    await t.rejects(provider.delete('../../etc/passwd'), /is no key/)

    const key = randomUUID()
    await provider.put(key, Readable.from([Buffer.from('x')]), AbortSignal.timeout(10_000))
    const other = key.endsWith('00') ? '01' : '00'
    for (const name of ['notes.txt', '.DS_Store', key]) await writeFile(join(dataDir, 'files', other, name), 'not ours')
    await writeFile(join(dataDir, 'files', 'README'), 'not ours')
    const listed = []
    for await (const object of provider.list?.(AbortSignal.timeout(10_000)) ?? []) listed.push(object)
    t.same(listed, [{ key, size: 1 }], 'what is no object of ours is not listed')
  })
}

t.test('what nobody waits for is not kept and not written, and may be sent again', async (t) => {
  const context = { log, dataDir: tmpdir() }
  const head = { id: randomUUID(), to: { address: 'reader@example.com' }, from: { address: 'shop@example.com' } }
  const givenUp = { name: 'SendError', outcome: 'retry', message: 'it was given up before it was sent' }
  for (const provider of [await email.create({ keep: 10 }, context), await emailLog.create({}, context)])
    await t.rejects(provider.send({ ...head, subject: 'Hi', text: 'Hi' }, AbortSignal.abort()), givenUp)
  for (const provider of [await sms.create({ keep: 10 }, context), await smsLog.create({}, context)])
    await t.rejects(
      provider.send({ id: head.id, to: '5550100', countryCode: '1', message: 'Hi' }, AbortSignal.abort()),
      givenUp,
    )
})
