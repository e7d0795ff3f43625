import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { Sms, SmsSender } from '../../../core/host/contracts.js'
import { type ContractCase, withDeadlines } from './case.js'
import { assertReceipt, senderCases, soon } from './sender.js'
import type { Stage, TakenSms } from './stage.js'

/** A message that nobody has sent yet. */
const sms = (): Sms => ({ id: randomUUID(), to: '5550100', countryCode: '1', message: 'Hello, wörld 👋' })

/** What an SMS provider has to do. */
export const smsContract: readonly ContractCase<Stage<SmsSender, TakenSms>>[] = withDeadlines([
  {
    name: 'a message reaches its number as it was written, and has a receipt',
    async run({ provider, taken }) {
      const before = (await taken()).length
      assertReceipt(await provider.send(sms(), soon()))

      const [message, ...more] = (await taken()).slice(before)
      assert.equal(more.length, 0, 'it is sent once')
      assert.equal(message?.to.replaceAll(/\D/g, ''), '15550100')
      assert.equal(message.text, 'Hello, wörld 👋')
    },
  },
  ...senderCases<Sms, SmsSender, TakenSms>(sms),
])
