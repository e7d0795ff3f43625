import { AwsV4Signer } from 'aws4fetch'
import {
  type Attachment,
  defineProvider,
  type EmailSender,
  type Mail,
  type OutboundAnswer,
  setting,
  type TemplateMail,
  withoutDuplicates,
} from 'rowhouse'
import { textAt } from '../answer.js'
import { createApi, endpoint, secret, timeoutMs, unreadable } from '../api.js'
import { bodiesOf, limited, subjectOf } from './limits.js'
import { byName, domains, each, formatMailboxInAscii } from './mailbox.js'

/** Errors of SES that concern the message. Others with status 400 concern the account or its domain. */
const REFUSALS = ['BadRequestException', 'MessageRejected']

/** Sends with version 2 of the API of Amazon SES. */
export default defineProvider({
  kind: 'email',
  name: 'ses',
  config: {
    type: 'object',
    required: ['region', 'accessKeyId', 'secretAccessKey'],
    properties: {
      region: { type: 'string', pattern: '^[0-9a-z-]+$', description: 'AWS region, e.g. "eu-west-1".' },
      accessKeyId: setting.text('Access key of a user with the permission ses:SendEmail.'),
      secretAccessKey: secret('Secret of the access key.'),
      sessionToken: secret('Session token of temporary credentials.'),
      url: {
        type: 'string',
        pattern: '^https?://',
        description: 'Base URL of the API. Defaults to the endpoint of the region.',
      },
      configurationSet: setting.text('Name of the configuration set.'),
      timeoutMs,
      domains,
    },
  },
  create({
    region,
    accessKeyId,
    secretAccessKey,
    sessionToken,
    url,
    configurationSet,
    timeoutMs,
    domains,
  }): EmailSender {
    const api = createApi({ timeoutMs, secrets: [secretAccessKey, sessionToken ?? ''] }, refuses)
    const to = endpoint(url ?? `https://email.${region}.amazonaws.com`, '/v2/email/outbound-emails').href
    const keys = { accessKeyId, secretAccessKey, sessionToken, service: 'ses', region }

    async function post(mail: Mail | TemplateMail, content: object, signal: AbortSignal) {
      const body = JSON.stringify({
        ...envelope(withoutDuplicates(mail)),
        Content: content,
        ConfigurationSetName: configurationSet,
      })
      const request = { method: 'POST', url: to, headers: { 'content-type': 'application/json' }, body }
      const signed = await new AwsV4Signer({ ...request, ...keys }).sign()
      const answer = await api.send({ url: to, headers: Object.fromEntries(signed.headers), body }, signal)
      const id = textAt(answer.json, 'MessageId')
      if (id === undefined) throw unreadable(answer.text)
      return { id, detail: answer.detail }
    }

    return {
      send: (mail, signal) => post(mail, { Simple: simple(mail) }, signal),
      sendTemplate: (mail, signal) => post(mail, { Template: template(mail) }, signal),
      domains,
      problemWith: limited({ recipients: 50, megabytes: 40 }),
      close: () => api.close(),
    }
  },
})

/** Returns whether the error rejects the message. Its name is in a header, optionally followed by a colon and a URL. */
function refuses(status: number, _text: string, headers: OutboundAnswer['headers']): boolean {
  const name = textAt(headers, 'x-amzn-errortype')?.split(':')[0] ?? ''
  return status === 413 || (status === 400 && REFUSALS.includes(name))
}

const envelope = (mail: Mail | TemplateMail) => ({
  FromEmailAddress: formatMailboxInAscii(mail.from),
  Destination: {
    ToAddresses: [formatMailboxInAscii(mail.to)],
    CcAddresses: each(mail.cc, formatMailboxInAscii),
    BccAddresses: each(mail.bcc, formatMailboxInAscii),
  },
  ReplyToAddresses: mail.replyTo && [formatMailboxInAscii(mail.replyTo)],
  EmailTags: [{ Name: 'rowhouse_id', Value: mail.id }],
})

function simple(mail: Mail) {
  const { text, html } = bodiesOf(mail)
  return {
    Subject: utf8(subjectOf(mail)),
    Body: { ...(text ? { Text: utf8(text) } : {}), ...(html ? { Html: utf8(html) } : {}) },
    Attachments: each(mail.attachments, attached),
  }
}

const template = ({ template, content, attachments }: TemplateMail) => ({
  TemplateName: template,
  TemplateData: JSON.stringify(byName(content)),
  Attachments: each(attachments, attached),
})

const utf8 = (text: string) => ({ Data: text, Charset: 'UTF-8' })

/** Formats an attachment. Requests base64 in the email, because the default is for 7-bit text. */
const attached = ({ filename, contentType, content }: Attachment) => ({
  FileName: filename,
  ContentType: contentType,
  ContentDisposition: 'ATTACHMENT',
  ContentTransferEncoding: 'BASE64',
  RawContent: content.toString('base64'),
})
