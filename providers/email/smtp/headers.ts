import { type Mail, type Mailbox, SendError } from 'rowhouse'
import { encodedWords, quoted } from '../mailbox.js'

/** Maximum characters of a name or word that is not encoded, so that lines can be folded. */
const MAX_CHARACTERS = 60
/** Maximum characters of a line with an encoded word (RFC 2047 section 2). */
const MAX_LINE = 76

/**
 * Formats the headers for sender, recipients, subject and date, with line ends. Omits `bcc`.
 * @throws SendError `refused` for an ambiguous address or text
 */
export function headersOf(mail: Mail): string {
  const { from, to, cc = [], replyTo, subject } = mail
  return [
    mailboxes('From', [from]),
    mailboxes('To', [to]),
    ...(cc.length > 0 ? [mailboxes('Cc', cc)] : []),
    ...(replyTo ? [mailboxes('Reply-To', [replyTo])] : []),
    ...(subject === '' ? [] : [folded('Subject', unstructured('Subject', oneLine('subject', subject)))]),
  ].join('')
}

/** Formats a header of parts that a blank separates. Begins a new line before a part that would make one too long. */
function folded(name: string, [first = '', ...others]: readonly string[]): string {
  const lines = [`${name}: ${first}`]
  for (const part of others) {
    const longer = `${lines.at(-1)} ${part}`
    if (longer.length <= MAX_LINE) lines[lines.length - 1] = longer
    else lines.push(` ${part}`)
  }
  return `${lines.join('\r\n')}\r\n`
}

/** Returns how much room a header has in its first line. */
const roomOf = (name: string): number => MAX_LINE - `${name}: `.length

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

function mailboxes(name: string, boxes: readonly Mailbox[]): string {
  const parts = boxes.map((box, i) => mailbox(box, i === 0 ? roomOf(name) : undefined))
  const last = parts.length - 1
  return folded(
    name,
    parts.flatMap((each, i) => (i === last ? each : [...each.slice(0, -1), `${each.at(-1)},`])),
  )
}

function mailbox(box: Mailbox, room?: number): readonly string[] {
  if (box.name === undefined || box.name === '') return [address(box)]
  return [...phrase(oneLine('name', box.name), room), `<${address(box)}>`]
}

function phrase(name: string, room?: number): readonly string[] {
  if (!isPlain(name) || name.length > MAX_CHARACTERS) return encodedWords(name, room)
  return [/^[A-Za-z0-9 ]+$/.test(name) ? name : quoted(name)]
}

function unstructured(name: string, text: string): readonly string[] {
  const words = text.split(' ')
  const fits = isPlain(text) && words.every(({ length }) => length <= MAX_CHARACTERS)
  return fits ? words : encodedWords(text, roomOf(name))
}

/**
 * Returns whether mail clients display the text unchanged: no spaces that they might drop, nothing that looks encoded.
 */
const isPlain = (text: string): boolean => /^[!-~]+(?: [!-~]+)*$/.test(text) && !text.includes('=?')
