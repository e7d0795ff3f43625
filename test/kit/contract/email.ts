import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { EmailSender, Receipt } from '../../../core/contracts.js'
import { patience } from '../patience.js'
import type { ContractCase } from './case.js'

/** A mail that nobody has sent yet. */
const head = () => ({
  id: randomUUID(),
  to: { address: 'reader@example.com', name: 'A Reader' },
  from: { address: 'rowhouse@example.com', name: 'Rowhöuse' },
})
const subject = 'Hello, wörld'

/** What an email provider has to do. It sends real mail if the provider does, from `rowhouse@example.com`. */
export const emailContract: readonly ContractCase<EmailSender>[] = [
  {
    name: 'a mail of text has a receipt with an id and a detail',
    async run(provider) {
      assertReceipt(await provider.send({ ...head(), subject, text: 'Hello' }, soon()))
    },
  },
  {
    name: 'a mail of HTML has a receipt',
    async run(provider) {
      assertReceipt(await provider.send({ ...head(), subject, html: '<p>Hello</p>' }, soon()))
    },
  },
  {
    name: 'a mail with everything has a receipt',
    async run(provider) {
      const others = {
        cc: [{ address: 'one@example.com', name: 'One, "the" first' }],
        bcc: [{ address: 'two@example.com' }],
        replyTo: { address: 'answers@example.com' },
        attachments: [{ filename: 'ü.txt', contentType: 'text/plain', content: Buffer.from('attached') }],
      }
      assertReceipt(await provider.send({ ...head(), ...others, subject, text: 'Hello', html: '<p>Hello' }, soon()))
    },
  },
  {
    name: 'two mails have two ids',
    async run(provider) {
      const one = await provider.send({ ...head(), subject, text: 'one', html: '<p>one' }, soon())
      const other = await provider.send({ ...head(), subject, text: 'other' }, soon())

      assert.notEqual(one.id, other.id)
    },
  },
  {
    name: 'the same mail again has the same id, where a mail is sent once',
    async run(provider) {
      if (provider.sendsOnceForSeconds === undefined) return
      const mail = { ...head(), subject, text: 'once' }
      const { id } = await provider.send(mail, soon())

      assert.equal((await provider.send(mail, soon())).id, id)
    },
  },
  {
    name: 'a mail from a template has a receipt, if the provider has templates',
    async run(provider) {
      const content = [{ name: 'greeting', content: 'Hello' }]
      const receipt = await provider.sendTemplate?.({ ...head(), template: 'welcome', content }, soon())

      if (receipt !== undefined) assertReceipt(receipt)
    },
  },
  {
    name: 'nothing is sent when nobody waits any more',
    async run(provider) {
      await assert.rejects(provider.send({ ...head(), subject, text: 'Hello' }, AbortSignal.abort()))
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

function assertReceipt({ id, detail }: Receipt): void {
  assert.equal(typeof id, 'string')
  assert.notEqual(id, '')
  assert.equal(typeof detail, 'string')
}
