import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { EmailSender, Mail, Receipt } from '../../../core/host/contracts.js'
import { type ContractCase, withDeadlines } from './case.js'
import { assertReceipt, senderCases, soon } from './sender.js'
import type { Stage, TakenMail } from './stage.js'

const READER = 'reader@example.com'
/** A mail that nobody has sent yet. */
const head = () => ({
  id: randomUUID(),
  to: { address: READER, name: 'A Reader' },
  from: { address: 'rowhouse@example.com', name: 'Rowhöuse' },
})
const subject = 'Hello, wörld'

/** What an email provider has to do. Mails come from `rowhouse@example.com`. */
export const emailContract: readonly ContractCase<Stage<EmailSender, TakenMail>>[] = withDeadlines([
  {
    name: 'a mail of text reaches its reader, and has a receipt',
    async run(stage) {
      const mail = await sent(stage, (provider) => provider.send({ ...head(), subject, text: 'Hellö' }, soon()))

      assert.deepEqual(mail.recipients, [READER])
      assert.equal(mail.subject, subject)
      assert.equal(mail.text?.trim(), 'Hellö')
    },
  },
  {
    name: 'a mail of HTML reaches its reader, and has a receipt',
    async run(stage) {
      const mail = await sent(stage, (provider) => provider.send({ ...head(), subject, html: '<p>Hello</p>' }, soon()))

      assert.deepEqual(mail.recipients, [READER])
      assert.equal(mail.html?.trim(), '<p>Hello</p>')
    },
  },
  {
    name: 'copies reach all, blind ones unseen by the others, with the attachments',
    async run(stage) {
      const content = Buffer.from([0, 13, 10, 46, 13, 10, 255])
      const others = {
        cc: [{ address: 'one@example.com', name: 'One, "the" first' }],
        bcc: [{ address: 'two@example.com' }],
        replyTo: { address: 'answers@example.com' },
        attachments: [{ filename: 'ü.bin', contentType: 'application/octet-stream', content }],
      }
      const whole = { ...head(), ...others, subject, text: 'Hello', html: '<p>Hello' }
      const mail = await sent(stage, (provider) => provider.send(whole, soon()))
      if (!stage.fail) return

      assert.deepEqual(mail.recipients.toSorted(), ['one@example.com', READER, 'two@example.com'])
      assert.deepEqual(mail.shown.toSorted(), ['one@example.com', READER])
      assert.deepEqual(
        mail.attachments?.map((bytes) => bytes.toString('hex')),
        [content.toString('hex')],
      )
    },
  },
  {
    name: 'a mail from a template reaches its reader, if the provider has templates',
    async run(stage) {
      const template = { ...head(), template: 'welcome', content: [{ name: 'greeting', content: 'Hello' }] }
      const { sendTemplate } = stage.provider
      if (!sendTemplate) return
      const mail = await sent(stage, (provider) => sendTemplate.call(provider, template, soon()))

      assert.deepEqual(mail.recipients, [READER])
    },
  },
  {
    name: 'a mail to some of its recipients reaches these only, and shows all, if the provider sends to some',
    async run(stage) {
      if (stage.provider.sendsToSome !== true) return
      const whole = { ...head(), cc: [{ address: 'one@example.com' }], bcc: [{ address: 'two@example.com' }] }
      const mail = { ...whole, subject, text: 'Hello', only: ['ONE@example.com', 'two@example.com'] }
      const taken = await sent(stage, (provider) => provider.send(mail, soon()))

      assert.deepEqual(taken.recipients.toSorted(), ['one@example.com', 'two@example.com'])
      assert.deepEqual(taken.shown.toSorted(), ['one@example.com', READER])
    },
  },
  {
    name: 'the receipt has the recipients that the other side postponed or refused, if the provider sends to some',
    async run(stage) {
      if (stage.provider.sendsToSome !== true || !stage.fail) return
      const [later, never] = ['later@example.com', 'never@example.com']
      const mail = { ...head(), cc: [{ address: later }, { address: never }], subject, text: 'Hello' }
      stage.fail({ kind: 'some', postponed: [later], refused: [never] })
      try {
        const before = (await stage.taken()).length
        const receipt = await stage.provider.send(mail, soon())
        assertReceipt(receipt)
        assert.deepEqual(receipt.recipients?.map(({ address, outcome }) => [address, outcome]).toSorted(), [
          [later, 'postponed'],
          [never, 'refused'],
        ])
        assert.deepEqual(
          (await stage.taken()).slice(before).map(({ recipients }) => recipients),
          [[READER]],
        )
      } finally {
        stage.fail()
      }
    },
  },
  ...senderCases<Mail, EmailSender, TakenMail>(() => ({ ...head(), subject, text: 'Hello' })),
])

/** The mail that the other side took. */
async function sent(
  { provider, taken }: Stage<EmailSender, TakenMail>,
  send: (provider: EmailSender) => Promise<Receipt>,
): Promise<TakenMail> {
  const before = (await taken()).length
  assertReceipt(await send(provider))
  const [mail, ...more] = (await taken()).slice(before)
  assert.ok(mail, 'nothing was sent')
  assert.equal(more.length, 0, 'it was sent more than once')
  return mail
}
