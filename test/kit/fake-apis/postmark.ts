import { randomUUID } from 'node:crypto'
import { base64, checker, fakeApi, type Fields, jsonOf, list, mailbox, shape, text } from './server.js'

export const POSTMARK_TOKEN = 'server-token'

const mailboxes = { type: 'string', pattern: `^(${mailbox.pattern.slice(1, -1)}(, )?)+$` }
const head = {
  From: mailbox,
  To: mailboxes,
  Cc: mailboxes,
  Bcc: mailboxes,
  ReplyTo: mailboxes,
  MessageStream: { enum: ['outbound', 'broadcast'] },
  Metadata: { type: 'object', additionalProperties: { type: 'string', maxLength: 80 }, maxProperties: 10 },
  Attachments: list(shape({ Name: text, Content: base64, ContentType: text }, ['Name', 'Content', 'ContentType'])),
}
const problemOf = {
  '/email': checker({
    ...shape({ ...head, Subject: text, TextBody: text, HtmlBody: text }, ['From', 'To', 'Subject']),
    anyOf: [{ required: ['TextBody'] }, { required: ['HtmlBody'] }],
  }),
  '/email/withTemplate': checker({
    ...shape(
      {
        ...head,
        TemplateId: { type: 'integer' },
        TemplateAlias: { type: 'string', pattern: '^[A-Za-z][A-Za-z0-9._-]*$' },
        TemplateModel: { type: 'object' },
      },
      ['From', 'To', 'TemplateModel'],
    ),
    oneOf: [{ required: ['TemplateId'] }, { required: ['TemplateAlias'] }],
  }),
}

export const fakePostmark = (t: Parameters<typeof fakeApi>[0]) =>
  fakeApi(t, (asked) => {
    const error = (status: number, ErrorCode: number, Message: string) => ({
      answer: { status, body: JSON.stringify({ ErrorCode, Message }) },
    })
    const check = problemOf[asked.path as keyof typeof problemOf]
    if (asked.method !== 'POST' || check === undefined) return error(404, 0, 'not found')
    if (asked.headers['x-postmark-server-token'] !== POSTMARK_TOKEN) return error(401, 10, 'Bad or missing API token')
    if (asked.headers.accept !== 'application/json') return error(406, 0, 'Accept')
    const mail = jsonOf(asked) as Fields | undefined
    if (mail === undefined) return error(422, 402, 'Invalid JSON')
    const problem = check(mail)
    if (problem !== '') return error(422, 300, problem)
    const all = ['To', 'Cc', 'Bcc'].flatMap((key) => (mail[key] as string | undefined)?.match(/@/g) ?? [])
    if (all.length > 50) return error(422, 300, 'Maximum of 50 recipients allowed per email message.')
    const answer = {
      To: mail['To'],
      SubmittedAt: '2026-11-22T10:00:00.0000000-05:00',
      MessageID: randomUUID(),
      ErrorCode: 0,
      Message: 'OK',
    }
    return { took: { path: asked.path, ...mail }, answer: { status: 200, body: JSON.stringify(answer) } }
  })
