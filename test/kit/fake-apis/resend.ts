import { randomUUID } from 'node:crypto'
import {
  type Answer,
  base64,
  checker,
  fakeApi,
  type Fields,
  jsonOf,
  lengthOf,
  list,
  mailbox,
  shape,
  text,
} from './server.js'

export const RESEND_KEY = 're_key'

const tag = { type: 'string', pattern: '^[A-Za-z0-9_-]{1,256}$' }
const head = {
  from: mailbox,
  to: { ...list(mailbox), maxItems: 50 },
  cc: list(mailbox),
  bcc: list(mailbox),
  reply_to: { anyOf: [mailbox, list(mailbox)] },
  attachments: list(shape({ filename: text, content: base64, content_type: text }, ['filename', 'content'])),
  tags: list(shape({ name: tag, value: tag }, ['name', 'value'])),
}
const problemOf = checker({
  type: 'object',
  oneOf: [
    {
      ...shape({ ...head, subject: text, text, html: text }, ['from', 'to', 'subject']),
      anyOf: [{ required: ['text'] }, { required: ['html'] }],
    },
    shape(
      {
        ...head,
        template: shape(
          { id: text, variables: { type: 'object', additionalProperties: { type: ['string', 'number'] } } },
          ['id'],
        ),
      },
      ['from', 'to', 'template'],
    ),
  ],
})

export function fakeResend(t: Parameters<typeof fakeApi>[0]) {
  const known = new Map<string, { readonly body: string; readonly answer: Answer }>()
  return fakeApi(t, (asked) => {
    const error = (statusCode: number, name: string, message: string) => ({
      answer: { status: statusCode, body: JSON.stringify({ statusCode, name, message }) },
    })
    if (asked.method !== 'POST' || asked.path !== '/emails') return error(404, 'not_found', 'no such endpoint')
    if (asked.headers.authorization !== `Bearer ${RESEND_KEY}`)
      return error(403, 'invalid_api_key', 'API key is invalid')
    const key = asked.headers['idempotency-key']
    if (typeof key !== 'string' || key.length > 256)
      return error(400, 'invalid_idempotency_key', 'The key must be between 1-256 chars')
    const body = asked.body.toString()
    const before = known.get(key)
    if (before?.body === body) return { answer: before.answer }
    if (before) return error(409, 'invalid_idempotent_request', 'Same idempotency key used with a different payload')
    const mail = jsonOf(asked) as Fields | undefined
    const problem = mail === undefined ? 'no JSON' : problemOf(mail)
    if (mail === undefined || problem !== '') return error(422, 'validation_error', problem)
    if (lengthOf(mail, 'to', 'cc', 'bcc') > 50) return error(422, 'validation_error', 'at most 50 recipients')
    const answer = { status: 200, body: JSON.stringify({ id: randomUUID() }) }
    known.set(key, { body, answer })
    return { took: mail, answer }
  })
}
