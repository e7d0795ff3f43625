import type { Mailbox } from 'rowhouse'

/** Configuration key shared by all providers that send through an HTTP API. */
export const domains = {
  type: 'array',
  items: { type: 'string', minLength: 1 },
  description: 'Allowed domains of sender addresses. Allows any domain by default.',
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

/** Maximum bytes of UTF-8 per encoded word: 60 characters in base64, of at most 75 with the delimiters. */
const WORD_BYTES = 45

/** Formats encoded words (RFC 2047), each with complete characters. */
export function encodedWords(text: string): readonly string[] {
  const words = ['']
  for (const character of text) {
    const longer = `${words.at(-1)}${character}`
    if (Buffer.byteLength(longer) <= WORD_BYTES) words[words.length - 1] = longer
    else words.push(character)
  }
  return words.map((word) => `=?UTF-8?B?${Buffer.from(word).toString('base64')}?=`)
}

/** Maps a list, or returns undefined for an empty one, for keys that a provider does not accept empty. */
export const each = <T, R>(list: readonly T[] | undefined, map: (item: T) => R): R[] | undefined =>
  list === undefined || list.length === 0 ? undefined : list.map(map)

/** Returns the variables of a template by name. */
export const byName = (content: readonly { readonly name: string; readonly content: string }[]) =>
  Object.fromEntries(content.map(({ name, content }) => [name, content]))
