import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { SmsSender } from '../../../core/contracts.js'
import { patience } from '../patience.js'
import type { ContractCase } from './case.js'

/** A message that nobody has sent yet. */
const sms = () => ({ id: randomUUID(), to: '5550100', countryCode: '1', message: 'Hello, wörld 👋' })

/** What an SMS provider has to do. It sends real messages if the provider does. */
export const smsContract: readonly ContractCase<SmsSender>[] = [
  {
    name: 'a sent message has a receipt with an id and a detail',
    async run(provider) {
      const receipt = await provider.send(sms(), soon())

      assert.equal(typeof receipt.id, 'string')
      assert.notEqual(receipt.id, '')
      assert.equal(typeof receipt.detail, 'string')
    },
  },
  {
    name: 'two messages have two ids',
    async run(provider) {
      assert.notEqual((await provider.send(sms(), soon())).id, (await provider.send(sms(), soon())).id)
    },
  },
  {
    name: 'the same message again has the same id, where a message is sent once',
    async run(provider) {
      if (provider.sendsOnceForSeconds === undefined) return
      const same = sms()
      const { id } = await provider.send(same, soon())

      assert.equal((await provider.send(same, soon())).id, id)
    },
  },
  {
    name: 'nothing is sent when nobody waits any more',
    async run(provider) {
      await assert.rejects(provider.send(sms(), AbortSignal.abort()))
    },
  },
  {
    name: 'closing succeeds',
    async run(provider) {
      await provider.close?.()
    },
  },
]

const soon = () => AbortSignal.timeout(patience(60_000))
