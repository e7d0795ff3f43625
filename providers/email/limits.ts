import { type Mail, recipientsOf, type TemplateMail } from 'rowhouse'

/** Documented limits of an API. */
export interface Limits {
  /** Of `to`, `cc` and `bcc` together. */
  readonly recipients: number
  /** Size of a mail with its attachments in base64, in megabytes. */
  readonly megabytes: number
  /** Size of the text, and of the HTML, in megabytes, if they have a limit of their own. */
  readonly bodyMegabytes?: number
  /** Whether an attachment may be empty. */
  readonly emptyAttachments?: false
  /** Extensions of file names that an attachment may not have, in lower case. */
  readonly refusedExtensions?: readonly string[]
}

const MEGABYTE = 1024 * 1024

/** Returns the `problemWith` of an API with these limits. */
export const limited =
  (limits: Limits) =>
  (mail: Mail | TemplateMail): string | undefined => {
    const { attachments = [] } = mail
    const { bodies, files, size } = sizesOf(mail)
    const { recipients, megabytes, bodyMegabytes = megabytes } = limits
    if (recipientsOf(mail).length > recipients) return `it takes at most ${recipients} recipients`
    if (Math.max(...bodies) > bodyMegabytes * MEGABYTE) return `it takes a text or HTML of at most ${bodyMegabytes} MB`
    if (size > megabytes * MEGABYTE) return `it takes a mail of at most ${megabytes} MB, with attachments in base64`
    if (limits.emptyAttachments === false && files.includes(0)) return 'it takes no empty attachment'
    const extensions = attachments.map(({ filename }) => /\.([^.]+)$/.exec(filename)?.[1]?.toLowerCase() ?? '')
    const refused = extensions.find((extension) => limits.refusedExtensions?.includes(extension))
    return refused === undefined ? undefined : `it takes no attachment of the type .${refused}`
  }

/** Returns the sizes of a mail's text and HTML and of its attachments in base64, and their sum, in bytes. */
export function sizesOf(mail: Mail | TemplateMail) {
  const { attachments = [], text = '', html = '' } = { text: undefined, html: undefined, ...mail }
  const bodies = [text, html].map((body) => Buffer.byteLength(body))
  const files = attachments.map(({ content }) => Math.ceil(content.length / 3) * 4)
  return { bodies, files, size: [...bodies, ...files].reduce((sum, each) => sum + each, 0) }
}

/** Returns the bodies of a mail that are not empty. APIs refuse a mail without one, so an empty mail has a blank. */
export function bodiesOf({ text, html }: Mail): { readonly text?: string; readonly html?: string } {
  if (!text && !html) return { text: ' ' }
  return { ...(text ? { text } : {}), ...(html ? { html } : {}) }
}

/** Returns the subject for APIs that require one. Mail programs show an empty subject in much the same way. */
export const subjectOf = ({ subject }: Mail): string => (subject.trim() === '' ? '(no subject)' : subject)
