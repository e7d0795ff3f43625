import { foldLines } from 'nodemailer/lib/mime-funcs'
import { type Mail, type Mailbox, SendError } from 'rowhouse'
import { encodedWords, quoted } from '../mailbox.js'

/** Maximum characters of a name or word that is not encoded, so that lines can be folded. */
const MAX_CHARACTERS = 60
const FOLD_AT = 76

/**
 * Formats the headers for sender, recipients, subject and date, with line ends. Omits `bcc`.
 * @throws SendError `refused` for an ambiguous address or text
 */
export function headersOf(mail: Mail): string {
  const { from, to, cc = [], replyTo, subject } = mail
  return [
    line('From', mailbox(from)),
    line('To', mailbox(to)),
    ...(cc.length > 0 ? [line('Cc', cc.map(mailbox).join(',\r\n '))] : []),
    ...(replyTo ? [line('Reply-To', mailbox(replyTo))] : []),
    ...(subject === '' ? [] : [foldLines(line('Subject', unstructured(oneLine('subject', subject))), FOLD_AT)]),
  ].join('')
}

const line = (name: string, value: string): string => `${name}: ${value}\r\n`

/** Returns the message id. It is the same for every attempt, so that readers and servers can deduplicate. */
export const messageId = ({ id, from }: Mail): string => `${id}@${address(from).split('@')[1]}`

/**
 * Returns a checked address without special meaning in envelopes or headers: no quoted local part, nothing that looks
 * encoded.
 */
export function address({ address: text }: Mailbox): string {
  if (text.length <= 320 && !text.includes('=?') && /^[\w!#$%&'*+\-./=?^`{|}~]+@[\w.-]+$/.test(text)) return text
  throw new SendError('refused', `${JSON.stringify(text)} is not a supported address`)
}

export function oneLine(what: string, text: string): string {
  if (!/[\p{Cc}\p{Cs}]/u.test(text)) return text
  throw new SendError('refused', `the ${what} contains control characters or unpaired surrogates`)
}

function mailbox(box: Mailbox): string {
  if (box.name === undefined || box.name === '') return address(box)
  return `${phrase(oneLine('name', box.name))} <${address(box)}>`
}

function phrase(name: string): string {
  if (!isPlain(name) || name.length > MAX_CHARACTERS) return encoded(name)
  return /^[A-Za-z0-9 ]+$/.test(name) ? name : quoted(name)
}

function unstructured(text: string): string {
  return isPlain(text) && text.split(' ').every(({ length }) => length <= MAX_CHARACTERS) ? text : encoded(text)
}

/**
 * Returns whether mail clients display the text unchanged: no spaces that they might drop, nothing that looks encoded.
 */
const isPlain = (text: string): boolean => /^[!-~]+(?: [!-~]+)*$/.test(text) && !text.includes('=?')

/** Formats encoded words, each on its own line. */
const encoded = (text: string): string => encodedWords(text).join('\r\n ')
