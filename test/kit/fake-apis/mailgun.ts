import { randomBytes } from 'node:crypto'
import busboy from 'busboy'
import { buffer } from 'node:stream/consumers'
import { type Asked, checker, fakeApi, type Fields, lengthOf, list, mailbox, shape, text } from './server.js'

export const MAILGUN_KEY = 'key-of-the-account'
export const MAILGUN_DOMAIN = 'mg.example.com'

const file = shape({ filename: text, type: text, content: text }, ['filename', 'type', 'content'])
const head = {
  from: { ...list(mailbox), maxItems: 1 },
  to: list(mailbox),
  cc: list(mailbox),
  bcc: list(mailbox),
  'h:Reply-To': { ...list(mailbox), maxItems: 1 },
  'v:rowhouse_id': { ...list(text), maxItems: 1 },
  attachment: list(file),
}
const one = { ...list(text), maxItems: 1 }
const problemOf = checker({
  type: 'object',
  oneOf: [
    {
      ...shape({ ...head, subject: one, text: one, html: one }, ['from', 'to', 'subject']),
      anyOf: [{ required: ['text'] }, { required: ['html'] }],
    },
    shape({ ...head, template: one, 't:variables': one }, ['from', 'to', 'template']),
  ],
})

export const fakeMailgun = (t: Parameters<typeof fakeApi>[0]) =>
  fakeApi(t, async (asked) => {
    const answer = (status: number, body: object | string) => ({
      status,
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
    if (asked.method !== 'POST' || asked.path !== `/v3/${MAILGUN_DOMAIN}/messages`)
      return { answer: answer(404, { message: 'Domain not found' }) }
    const basic = `Basic ${Buffer.from(`api:${MAILGUN_KEY}`).toString('base64')}`
    if (asked.headers.authorization !== basic) return { answer: answer(401, 'Forbidden') }
    const form = await formOf(asked)
    const problem = form === undefined ? 'to parameter is missing' : problemOf(form)
    if (form === undefined || problem !== '') return { answer: answer(400, { message: problem }) }
    if (lengthOf(form, 'to', 'cc', 'bcc') > 1000)
      return { answer: answer(400, { message: 'Too many recipients; max is 1000' }) }
    const id = `<${Date.now()}.${randomBytes(8).toString('hex')}@${MAILGUN_DOMAIN}>`
    return { took: form, answer: answer(200, { id, message: 'Queued. Thank you.' }) }
  })

/** Every field as the list of its values. */
async function formOf({ headers, body }: Asked): Promise<Fields | undefined> {
  if (!headers['content-type']?.startsWith('multipart/form-data;')) return undefined
  const fields: Record<string, unknown[]> = {}
  const add = (name: string, value: unknown) => (fields[name] ??= []).push(value)
  const parser = busboy({ headers, defParamCharset: 'utf8' })
  const files: Promise<unknown>[] = []
  parser.on('field', add)
  parser.on('file', (name, stream, { filename, mimeType }) => {
    files.push(
      buffer(stream).then((bytes) => add(name, { filename, type: mimeType, content: bytes.toString('base64') })),
    )
  })
  await new Promise((resolve, reject) => {
    parser.on('close', resolve).on('error', reject).end(body)
  })
  await Promise.all(files)
  return fields
}
