import { foldLines } from 'nodemailer/lib/mime-funcs'
import { type Mail, type Mailbox, SendError } from 'rowhouse'

/** An encoded word is 75 characters at most; so many bytes are 60 of them in base64. */
const MOST_BYTES = 45
const MOST_CHARACTERS = 60
const LINE = 76

/**
 * The headers that say who wrote to whom about what, each line with its end. `bcc` is in none.
 * @throws SendError `refused` for an address or text that could be read as more than one
 */
export function headersOf(mail: Mail): string {
  const { from, to, cc = [], replyTo, subject } = mail
  return [
    line('From', mailbox(from)),
    line('To', mailbox(to)),
    ...(cc.length > 0 ? [line('Cc', cc.map(mailbox).join(',\r\n '))] : []),
    ...(replyTo ? [line('Reply-To', mailbox(replyTo))] : []),
    ...(subject === '' ? [] : [foldLines(line('Subject', unstructured(oneLine('subject', subject))), LINE)]),
  ].join('')
}

const line = (name: string, value: string): string => `${name}: ${value}\r\n`

/** Same at every try, so that readers and servers can see that two are one. */
export const messageId = ({ id, from }: Mail): string => `${id}@${address(from).split('@')[1]}`

/** Nothing that has a meaning in an envelope or a header: no quoted local part either, nor what looks encoded. */
export function address({ address: text }: Mailbox): string {
  if (text.length <= 320 && !text.includes('=?') && /^[\w!#$%&'*+\-./=?^`{|}~]+@[\w.-]+$/.test(text)) return text
  throw new SendError('refused', `${JSON.stringify(text)} is not an address that mail can be sent with`)
}

export function oneLine(what: string, text: string): string {
  if (!/[\p{Cc}\p{Cs}]/u.test(text)) return text
  throw new SendError('refused', `the ${what} has control characters, or halves of characters`)
}

function mailbox(of: Mailbox): string {
  if (of.name === undefined || of.name === '') return address(of)
  return `${phrase(oneLine('name', of.name))} <${address(of)}>`
}

function phrase(name: string): string {
  if (!isPlain(name) || name.length > MOST_CHARACTERS) return encoded(name)
  return /^[A-Za-z0-9 ]+$/.test(name) ? name : `"${name.replaceAll(/["\\]/g, '\\$&')}"`
}

function unstructured(text: string): string {
  return isPlain(text) && text.split(' ').every(({ length }) => length <= MOST_CHARACTERS) ? text : encoded(text)
}

/** Readers give it back as it is: no space that they might drop, nothing that looks encoded. */
const isPlain = (text: string): boolean => /^[!-~]+(?: [!-~]+)*$/.test(text) && !text.includes('=?')

/** Encoded words (RFC 2047), each of whole characters and on a line of its own. */
function encoded(text: string): string {
  const words = ['']
  for (const character of text) {
    const longer = `${words.at(-1)}${character}`
    if (Buffer.byteLength(longer) > MOST_BYTES) words.push(character)
    else words[words.length - 1] = longer
  }
  return words.map((word) => `=?UTF-8?B?${Buffer.from(word).toString('base64')}?=`).join('\r\n ')
}
