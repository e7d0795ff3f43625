import { randomBytes } from 'node:crypto'
import { base64, checker, fakeApi, type Fields, jsonOf, list, shape, text } from './server.js'

export const SENDGRID_KEY = 'SG.key'

const box = shape({ email: { type: 'string', pattern: '^[^@\\s]+@[^@\\s]+$' }, name: text }, ['email'])
const boxes = list(box)
const head = {
  from: box,
  reply_to: box,
  attachments: list(
    shape(
      {
        content: { ...base64, minLength: 1 },
        type: { type: 'string', pattern: '^[^;\\s]+$' },
        filename: text,
        disposition: { enum: ['inline', 'attachment'] },
      },
      ['content', 'filename'],
    ),
  ),
}
const personalization = {
  to: boxes,
  cc: boxes,
  bcc: boxes,
  custom_args: { type: 'object', additionalProperties: { type: 'string' } },
}
const problemOfMail = checker(
  shape(
    {
      ...head,
      personalizations: list(shape(personalization, ['to'])),
      subject: text,
      content: list(shape({ type: text, value: text }, ['type', 'value'])),
    },
    ['personalizations', 'from', 'subject', 'content'],
  ),
)
const problemOfTemplate = checker(
  shape(
    {
      ...head,
      personalizations: list(shape({ ...personalization, dynamic_template_data: { type: 'object' } }, ['to'])),
      template_id: { type: 'string', pattern: '^(d-|welcome$)' },
    },
    ['personalizations', 'from', 'template_id'],
  ),
)

export const fakeSendgrid = (t: Parameters<typeof fakeApi>[0]) =>
  fakeApi(t, (asked) => {
    const error = (status: number, message: string) => ({
      answer: { status, body: JSON.stringify({ errors: [{ message, field: null, help: null }] }) },
    })
    if (asked.method !== 'POST' || asked.path !== '/v3/mail/send') return error(404, 'not found')
    if (asked.headers.authorization !== `Bearer ${SENDGRID_KEY}`)
      return error(401, 'The provided authorization grant is invalid, expired, or revoked')
    const mail = jsonOf(asked) as Fields | undefined
    if (mail === undefined) return error(400, 'Bad Request')
    const problem = mail['template_id'] === undefined ? problemOfMail(mail) : problemOfTemplate(mail)
    if (problem !== '') return error(400, problem)
    const types = ((mail['content'] ?? []) as readonly { readonly type: string }[]).map(({ type }) => type)
    if (types.includes('text/plain') && types[0] !== 'text/plain')
      return error(400, 'If present, text/plain and text/html may only be provided once, text/plain first.')
    const {
      to,
      cc = [],
      bcc = [],
    } = (mail['personalizations'] as readonly Record<string, { email: string }[]>[])[0] ?? {}
    const all = [...(to ?? []), ...cc, ...bcc].map(({ email }) => email.toLowerCase())
    if (all.length > 1000) return error(400, 'There is a limit of 1000 total recipients (to + cc + bcc) per request.')
    if (new Set(all).size !== all.length)
      return error(400, 'Each email address should be unique between to, cc, and bcc.')
    const id = randomBytes(16).toString('base64url')
    return { took: mail, answer: { status: 202, headers: { 'x-message-id': id } } }
  })
