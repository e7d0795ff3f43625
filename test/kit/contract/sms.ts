import assert from 'node:assert/strict'
import type { SmsSender } from '../../../core/contracts.js'
import type { ContractCase } from './case.js'

const sms = { to: '5550100', countryCode: '1', message: 'Hello, wörld 👋' }

/** What an SMS provider has to do. It sends real messages if the provider does. */
export const smsContract: readonly ContractCase<SmsSender>[] = [
  {
    name: 'a sent message has a receipt with an id and a detail',
    async run(provider) {
      const receipt = await provider.send(sms, AbortSignal.timeout(DEADLINE_MS))

      assert.equal(typeof receipt.id, 'string')
      assert.notEqual(receipt.id, '')
      assert.equal(typeof receipt.detail, 'string')
    },
  },
  {
    name: 'two messages have two ids',
    async run(provider) {
      const one = await provider.send(sms, AbortSignal.timeout(DEADLINE_MS))
      const other = await provider.send(sms, AbortSignal.timeout(DEADLINE_MS))

      assert.notEqual(one.id, other.id)
    },
  },
  {
    name: 'nothing is sent when nobody waits any more',
    async run(provider) {
      await assert.rejects(provider.send(sms, AbortSignal.abort()))
    },
  },
  {
    name: 'closing succeeds',
    async run(provider) {
      await provider.close?.()
    },
  },
]

const DEADLINE_MS = 30_000
