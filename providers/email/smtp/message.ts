import MailComposer from 'nodemailer/lib/mail-composer'
import { type Attachment, type Mail, SendError } from 'rowhouse'
import { address, headersOf, messageId, oneLine } from './headers.js'

/** What is said to the server about one mail. */
export interface Message {
  /** Without angle brackets. */
  readonly id: string
  readonly from: string
  /** Everybody who gets it, each once. */
  readonly to: readonly string[]
  readonly bytes: Buffer
}

/** Without the end of the line (RFC 5322). */
const LONGEST_LINE = 998
const TYPE = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(?:\s*;[ -~]*)?$/

/** @throws SendError `refused` when there is no such mail */
export async function compose(mail: Mail): Promise<Message> {
  const { to, cc = [], bcc = [], text = '', html = '', attachments = [] } = mail
  const headers = headersOf(mail)
  const body = new MailComposer({
    messageId: `<${messageId(mail)}>`,
    text,
    html,
    attachments: attachments.map(attached),
    disableFileAccess: true,
    disableUrlAccess: true,
  }).compile()
  const bytes = Buffer.concat([Buffer.from(headers), await body.build()])
  if (
    bytes
      .toString('latin1')
      .split(/\r\n|\r|\n/)
      .some(({ length }) => length > LONGEST_LINE)
  ) {
    throw new SendError('refused', `the mail has a line of more than ${LONGEST_LINE} bytes`)
  }
  return {
    id: messageId(mail),
    from: address(mail.from),
    to: [...new Set([to, ...cc, ...bcc].map(address))],
    bytes,
  }
}

/** Always in base64, so that each byte arrives. */
function attached({ filename, contentType, content }: Attachment) {
  if (contentType.length > 255 || !TYPE.test(contentType)) {
    throw new SendError('refused', `${JSON.stringify(contentType)} is not a content type`)
  }
  return {
    filename: oneLine('file name', filename),
    // Those that have parts of their own may not be in base64.
    contentType: /^(?:multipart|message)\//i.test(contentType) ? 'application/octet-stream' : contentType,
    contentDisposition: 'attachment',
    contentTransferEncoding: 'base64',
    content,
  }
}
