import type { Mailbox } from 'rowhouse'

/** Configuration key shared by all providers that send through an HTTP API. */
export const domains = {
  type: 'array',
  items: { type: 'string', minLength: 1 },
  description: 'Allowed domains of sender addresses; any by default.',
} as const

/** Matches names that need no quotes before an address, including non-ASCII. Excludes `=?...?=`, an encoded word. */
const PLAIN = /^[\p{L}\p{N} !#$%&'*+/^_`{|}~-]+$/u

/** Formats `Name <local@domain>`, or the address alone. */
export function formatMailbox({ name, address }: Mailbox): string {
  if (name === undefined || name.trim() === '') return address
  return `${PLAIN.test(name) ? name : quoted(name)} <${address}>`
}

/** Formats a quoted string (RFC 5322). */
export const quoted = (name: string): string => `"${name.replaceAll(/["\\]/g, '\\$&')}"`

/** Formats like `formatMailbox`, in ASCII: other names become encoded words. */
export function formatMailboxInAscii(mailbox: Mailbox): string {
  const { name = '', address } = mailbox
  if (/^[ -~]*$/.test(name)) return formatMailbox(mailbox)
  return `${encodedWords(name).join(' ')} <${address}>`
}

/** Maximum characters of an encoded word, with its delimiters (RFC 2047 section 2). */
const WORD_LENGTH = 75
const DELIMITERS = '=?UTF-8?B??='.length

/**
 * Formats encoded words (RFC 2047), each with complete characters.
 * @param room maximum characters of the first word, at least 20, if it has less room than the others
 */
export function encodedWords(text: string, room = WORD_LENGTH): readonly string[] {
  const words = ['']
  for (const character of text) {
    const longer = `${words.at(-1)}${character}`
    if (Buffer.byteLength(longer) <= bytesWithin(words.length === 1 ? room : WORD_LENGTH))
      words[words.length - 1] = longer
    else words.push(character)
  }
  return words.map((word) => `=?UTF-8?B?${Buffer.from(word).toString('base64')}?=`)
}

/** Returns how many bytes base64 writes in an encoded word of this length. */
const bytesWithin = (length: number): number => Math.floor((length - DELIMITERS) / 4) * 3

/** Maps a list, or returns undefined for an empty one, for keys that a provider does not accept empty. */
export const each = <T, R>(list: readonly T[] | undefined, map: (item: T) => R): R[] | undefined =>
  list === undefined || list.length === 0 ? undefined : list.map(map)

/** Returns the variables of a template by name. */
export const byName = (content: readonly { readonly name: string; readonly content: string }[]) =>
  Object.fromEntries(content.map(({ name, content }) => [name, content]))
