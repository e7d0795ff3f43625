import { domainToASCII } from 'node:url'
import type { Mailbox } from 'rowhouse'

const ATEXT = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
/** RFC 5321 without quoted local parts and address literals: nobody has them, and readers differ about them. */
const ADDRESS = new RegExp(`^(${ATEXT}(?:\\.${ATEXT})*)@([^@\\s<>()[\\],;:"\\\\]+)$`)
const LABEL = /^[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/
const NAMED = /^(.*)<([^<>]*)>$/
const QUOTED = /^"((?:[^"\\]|\\["\\])*)"$/
/** What would have to stand in quotes (RFC 5322, specials). */
const SPECIAL = /[()<>[\]:;@\\,"]/
/** Control characters, and halves of characters. */
const CONTROL = /[\p{Cc}\p{Cs}\u2028\u2029]/u
/** How an encoded word begins (RFC 2047). Readers decode it wherever it stands, line breaks in it among the rest. */
const ENCODED = /=\?[^?]*\?[bq]\?/i

/** What a text has that must not stand in a header; undefined: nothing. */
export function headerProblem(text: string): string | undefined {
  if (CONTROL.test(text)) return 'line breaks and control characters'
  return ENCODED.test(text) ? 'encoded words ("=?...?=")' : undefined
}

/** Reads `local@domain` or `Name <local@domain>`, exactly one. undefined: it is none. */
export function readMailbox(text: string): Mailbox | undefined {
  if (headerProblem(text) !== undefined) return undefined
  const [, named, inner] = NAMED.exec(text.trim()) ?? []
  const address = readAddress(inner ?? text.trim())
  if (address === undefined) return undefined
  const name = readName((named ?? '').trim())
  if (name === undefined) return undefined
  return name === '' ? { address } : { address, name }
}

/** As it was, its domain in ASCII. What looks like an encoded word is one to many readers, wherever it stands. */
function readAddress(text: string): string | undefined {
  const [, local = '', domain = ''] = ADDRESS.exec(text) ?? []
  const ascii = domainToASCII(domain)
  if (local === '' || local.includes('=?') || local.length > 64 || ascii === '' || local.length + ascii.length > 253)
    return undefined
  const labels = ascii.split('.')
  // Numbers only are an address of a machine, in one of the ways to write one.
  if (!labels.every((label) => LABEL.test(label)) || /^\d+$/.test(labels.at(-1) ?? '')) return undefined
  return `${local}@${ascii}`
}

function readName(text: string): string | undefined {
  const quoted = QUOTED.exec(text)?.[1]
  if (quoted !== undefined) return quoted.replaceAll(/\\(.)/g, '$1')
  return SPECIAL.test(text) ? undefined : text
}

/** As text that `readMailbox` reads as the same. */
export const printMailbox = ({ address, name }: Mailbox): string =>
  name === undefined ? address : `${SPECIAL.test(name) ? `"${name.replaceAll(/["\\]/g, '\\$&')}"` : name} <${address}>`

export const domainOf = (address: string): string => address.slice(address.lastIndexOf('@') + 1).toLowerCase()
