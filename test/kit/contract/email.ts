import assert from 'node:assert/strict'
import type { EmailSender, Receipt } from '../../../core/contracts.js'
import type { ContractCase } from './case.js'

const head = { to: 'reader@example.com', from: 'rowhouse@example.com', fromName: 'Rowhöuse', subject: 'Hello, wörld' }

/** What an email provider has to do. It sends real mail if the provider does. */
export const emailContract: readonly ContractCase<EmailSender>[] = [
  {
    name: 'a mail of text has a receipt with an id and a detail',
    async run(provider) {
      assertReceipt(await provider.send({ ...head, text: 'Hello' }, AbortSignal.timeout(DEADLINE_MS)))
    },
  },
  {
    name: 'a mail of HTML has a receipt',
    async run(provider) {
      assertReceipt(await provider.send({ ...head, html: '<p>Hello</p>' }, AbortSignal.timeout(DEADLINE_MS)))
    },
  },
  {
    name: 'two mails have two ids',
    async run(provider) {
      const one = await provider.send({ ...head, text: 'one', html: '<p>one' }, AbortSignal.timeout(DEADLINE_MS))
      const other = await provider.send({ ...head, text: 'other' }, AbortSignal.timeout(DEADLINE_MS))

      assert.notEqual(one.id, other.id)
    },
  },
  {
    name: 'a mail from a template has a receipt, if the provider has templates',
    async run(provider) {
      const content = [{ name: 'greeting', content: 'Hello' }]
      const mail = { to: head.to, from: head.from, template: 'welcome', content }
      const receipt = await provider.sendTemplate?.(mail, AbortSignal.timeout(DEADLINE_MS))

      if (receipt !== undefined) assertReceipt(receipt)
    },
  },
  {
    name: 'nothing is sent when nobody waits any more',
    async run(provider) {
      await assert.rejects(provider.send({ ...head, text: 'Hello' }, AbortSignal.abort()))
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

function assertReceipt({ id, detail }: Receipt): void {
  assert.equal(typeof id, 'string')
  assert.notEqual(id, '')
  assert.equal(typeof detail, 'string')
}
