import type { Mailbox } from 'rowhouse'

/** What needs no quotes in front of an address, also outside of ASCII. Quoted, `=?...?=` is no encoded word. */
const PLAIN = /^[\p{L}\p{N} !#$%&'*+/^_`{|}~-]+$/u

/** `Name <local@domain>`, or the address alone. */
export function written({ name, address }: Mailbox): string {
  if (name === undefined || name.trim() === '') return address
  return `${PLAIN.test(name) ? name : `"${name.replaceAll(/["\\]/g, String.raw`\$&`)}"`} <${address}>`
}

/** As `written`, in ASCII: a name of other letters as encoded words (RFC 2047). */
export function writtenInAscii(mailbox: Mailbox): string {
  const { name = '', address } = mailbox
  if (/^[ -~]*$/.test(name)) return written(mailbox)
  return `${encodedWords(name).join(' ')} <${address}>`
}

/** Of UTF-8 in one encoded word: with what stands around them 72 characters in base64, of 75 allowed. */
const WORD_BYTES = 45

function encodedWords(text: string): readonly string[] {
  const words = ['']
  for (const character of text) {
    const longer = `${words.at(-1)}${character}`
    if (Buffer.byteLength(longer) <= WORD_BYTES) words[words.length - 1] = longer
    else words.push(character)
  }
  return words.map((word) => `=?UTF-8?B?${Buffer.from(word).toString('base64')}?=`)
}

/** For keys that a provider wants with something in them or not at all. */
export const each = <T, R>(list: readonly T[] | undefined, map: (item: T) => R): R[] | undefined =>
  list === undefined || list.length === 0 ? undefined : list.map(map)

/** The content of a template by name. */
export const byName = (content: readonly { readonly name: string; readonly content: string }[]) =>
  Object.fromEntries(content.map(({ name, content }) => [name, content]))
