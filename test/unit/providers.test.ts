import { readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import email from '../../providers/email/memory.js'
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
  })
}
