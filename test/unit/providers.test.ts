import { pino } from 'pino'
import t from 'tap'
import email from '../../providers/email/memory.js'
import sms from '../../providers/sms/memory.js'
import storage from '../../providers/storage/memory.js'
import { emailContract, smsContract, storageContract } from '../kit/index.js'

const log = pino({ level: 'silent' })

t.test('the memory email provider keeps the contract', async (t) => {
  const provider = await email.create({ keep: 10 }, { log })
  for (const { name, run } of emailContract) await t.resolves(run(provider), name)
})

t.test('the memory SMS provider keeps the contract', async (t) => {
  const provider = await sms.create({ keep: 10 }, { log })
  for (const { name, run } of smsContract) await t.resolves(run(provider), name)
})

t.test('the memory storage provider keeps the contract', async (t) => {
  const provider = await storage.create({}, { log })
  for (const { name, run } of storageContract) await t.resolves(run(provider), name)
})
