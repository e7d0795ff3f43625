import MailComposer from 'nodemailer/lib/mail-composer'
import { type Attachment, type Mail, recipientsOf, SendError } from 'rowhouse'
import { address, headersOf, messageId, oneLine } from './headers.js'

/** An email as sent to the server. */
export interface Message {
  /** Message id without angle brackets. */
  readonly id: string
  readonly from: string
  /** The recipients to send to, without duplicates. */
  readonly to: readonly string[]
  readonly bytes: Buffer
}

/** Maximum line length without the line end (RFC 5322). */
const MAX_LINE_BYTES = 998
const TYPE = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(?:\s*;[ -~]*)?$/

/** @throws SendError `refused` for an email that cannot be sent */
export async function compose(mail: Mail): Promise<Message> {
  const { text = '', html = '', attachments = [] } = mail
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
      .some(({ length }) => length > MAX_LINE_BYTES)
  ) {
    throw new SendError('refused', `the mail contains a line longer than ${MAX_LINE_BYTES} bytes`)
  }
  return {
    id: messageId(mail),
    from: address(mail.from),
    to: recipientsOf(mail).map((each) => address({ address: each })),
    bytes,
  }
}

/** Formats an attachment, always in base64, so that each byte is preserved. */
function attached({ filename, contentType, content }: Attachment) {
  if (contentType.length > 255 || !TYPE.test(contentType)) {
    throw new SendError('refused', `${JSON.stringify(contentType)} is not a content type`)
  }
  return {
    filename: oneLine('file name', filename),
    // Types with parts of their own may not be in base64.
    contentType: /^(?:multipart|message)\//i.test(contentType) ? 'application/octet-stream' : contentType,
    contentDisposition: 'attachment',
    contentTransferEncoding: 'base64',
    content,
  }
}
