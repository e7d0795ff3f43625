import { createHash, createHmac, randomUUID } from 'node:crypto'
import { type Asked, base64, checker, fakeApi, type Fields, jsonOf, lengthOf, list, shape, text } from './server.js'

export const SES_KEYS = { region: 'eu-west-1', accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'secret/key+EXAMPLE' }

const PATH = '/v2/email/outbound-emails'

/** In ASCII: an encoded word, quotes, or plain words before the address. */
const mailbox = {
  type: 'string',
  pattern: String.raw`^((("(\\.|[ !#-\[\]-~])*")|((=\?UTF-8\?B\?[A-Za-z0-9+/=]{1,63}\?=)( =\?UTF-8\?B\?[A-Za-z0-9+/=]{1,63}\?=)*)|[A-Za-z0-9 !#$%&'*+/=?^_-]+) <[!-;=?-~]+@[!-;=?-~]+>|[!-;=?-~]+@[!-;=?-~]+)$`,
}
const data = shape({ Data: text, Charset: { const: 'UTF-8' } }, ['Data'])
const attachments = list(
  shape(
    {
      FileName: { type: 'string', minLength: 1, maxLength: 255 },
      RawContent: base64,
      ContentType: text,
      ContentDisposition: { enum: ['ATTACHMENT', 'INLINE'] },
      ContentTransferEncoding: { enum: ['BASE64', 'QUOTED_PRINTABLE', 'SEVEN_BIT'] },
    },
    ['FileName', 'RawContent'],
  ),
)
const tag = { type: 'string', pattern: '^[A-Za-z0-9_-]{1,256}$' }
const problemOf = checker(
  shape(
    {
      FromEmailAddress: mailbox,
      Destination: shape({ ToAddresses: list(mailbox), CcAddresses: list(mailbox), BccAddresses: list(mailbox) }),
      ReplyToAddresses: list(mailbox),
      EmailTags: list(shape({ Name: tag, Value: tag }, ['Name', 'Value'])),
      ConfigurationSetName: text,
      Content: {
        ...shape({
          Simple: shape(
            {
              Subject: data,
              Body: { ...shape({ Text: data, Html: data }), minProperties: 1 },
              Attachments: attachments,
            },
            ['Subject', 'Body'],
          ),
          Template: shape({ TemplateName: text, TemplateData: text, Attachments: attachments }, ['TemplateName']),
        }),
        minProperties: 1,
        maxProperties: 1,
      },
    },
    ['Content'],
  ),
)

export const fakeSes = (t: Parameters<typeof fakeApi>[0]) =>
  fakeApi(t, (asked) => {
    const error = (status: number, type: string, message: string) => ({
      answer: {
        status,
        headers: { 'x-amzn-errortype': `${type}:http://internal.amazon.com/coral/` },
        body: JSON.stringify({ message }),
      },
    })
    if (asked.method !== 'POST' || asked.path !== PATH) return error(404, 'UnknownOperationException', '')
    const wrong = signatureProblem(asked)
    if (wrong !== '') return error(403, 'SignatureDoesNotMatch', wrong)
    const mail = jsonOf(asked) as Fields | undefined
    if (mail === undefined) return error(400, 'SerializationException', '')
    const problem = problemOf(mail)
    if (problem !== '') return error(400, 'BadRequestException', problem)
    const to = mail['Destination'] as Fields
    if (lengthOf(to, 'ToAddresses', 'CcAddresses', 'BccAddresses') > 50)
      return error(400, 'BadRequestException', 'Recipient count exceeds 50.')
    return { took: mail, answer: { status: 200, body: JSON.stringify({ MessageId: `0102-${randomUUID()}-000000` }) } }
  })

/** Signature version 4, computed again. */
function signatureProblem({ headers, body }: Asked): string {
  const given = /^AWS4-HMAC-SHA256 Credential=([^ ,]+), SignedHeaders=([^ ,]+), Signature=([0-9a-f]{64})$/.exec(
    headers.authorization ?? '',
  )
  if (!given) return 'no authorization'
  const [, credential = '', signed = '', signature] = given
  const time = String(headers['x-amz-date'])
  const day = time.slice(0, 8)
  const scope = `${day}/${SES_KEYS.region}/ses/aws4_request`
  if (credential !== `${SES_KEYS.accessKeyId}/${scope}`) return `credential ${credential}`
  if (!/^\d{8}T\d{6}Z$/.test(time)) return 'no date'
  const names = signed.split(';')
  const sent = Object.keys(headers).filter((name) => name === 'host' || name.startsWith('x-amz-'))
  if (!sent.every((name) => names.includes(name))) return `signed are ${signed} alone`
  const canonical = [
    'POST',
    PATH,
    '',
    ...names.map((name) => `${name}:${String(headers[name]).trim()}`),
    '',
    signed,
    sha256(body),
  ].join('\n')
  const steps = [day, SES_KEYS.region, 'ses', 'aws4_request']
  const key = steps.reduce<Buffer>(
    (secret, step) => createHmac('sha256', secret).update(step).digest(),
    Buffer.from(`AWS4${SES_KEYS.secretAccessKey}`),
  )
  const right = createHmac('sha256', key)
    .update(['AWS4-HMAC-SHA256', time, scope, sha256(canonical)].join('\n'))
    .digest('hex')
  return signature === right ? '' : 'the signature is another'
}

const sha256 = (what: string | Buffer) => createHash('sha256').update(what).digest('hex')
