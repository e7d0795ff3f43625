import { domainToASCII } from 'node:url'
import type { Mailbox } from 'rowhouse'

const ATEXT = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
/** RFC 5321 without quoted local parts and address literals, which are rare, and about which parsers disagree. */
const ADDRESS = new RegExp(`^(${ATEXT}(?:\\.${ATEXT})*)@([^@\\s<>()[\\],;:"\\\\]+)$`)
const LABEL = /^[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/
const NAMED = /^(.*)<([^<>]*)>$/
const QUOTED = /^"((?:[^"\\]|\\["\\])*)"$/
/** Characters that need quotes in a name (RFC 5322, specials). */
const SPECIAL = /[()<>[\]:;@\\,"]/
/** Control characters and unpaired surrogates. */
const CONTROL = /[\p{Cc}\p{Cs}\u2028\u2029]/u
/** The start of an encoded word (RFC 2047). Mail clients decode it anywhere, including line breaks in it. */
const ENCODED = /=\?[^?]*\?[bq]\?/i

/** Maximum characters of a subject, before and after rendering: the limit for a line of a mail (RFC 5322 section 2.1.1). */
export const MAX_SUBJECT = 998

/** Returns what makes a text invalid in a header, or undefined. */
export function headerProblem(text: string): string | undefined {
  if (CONTROL.test(text)) return 'line breaks and control characters'
  return ENCODED.test(text) ? 'encoded words ("=?...?=")' : undefined
}

/** Parses exactly one `local@domain` or `Name <local@domain>`. Returns undefined for anything else. */
export function readMailbox(text: string): Mailbox | undefined {
  if (headerProblem(text) !== undefined) return undefined
  const [, named, inner] = NAMED.exec(text.trim()) ?? []
  const address = readAddress(inner ?? text.trim())
  if (address === undefined) return undefined
  const name = readName((named ?? '').trim())
  if (name === undefined) return undefined
  return name === '' ? { address } : { address, name }
}

/** Returns the address with its domain in ASCII. Rejects `=?`, because many mail clients decode it anywhere. */
function readAddress(text: string): string | undefined {
  const [, local = '', domain = ''] = ADDRESS.exec(text) ?? []
  const ascii = domainToASCII(domain)
  if (local === '' || local.includes('=?') || local.length > 64 || ascii === '' || local.length + ascii.length > 253)
    return undefined
  const labels = ascii.split('.')
  // A numeric last label is an IP address in one of its notations.
  if (!labels.every((label) => LABEL.test(label)) || /^\d+$/.test(labels.at(-1) ?? '')) return undefined
  return `${local}@${ascii}`
}

function readName(text: string): string | undefined {
  const quoted = QUOTED.exec(text)?.[1]
  if (quoted !== undefined) return quoted.replaceAll(/\\(.)/g, '$1')
  return SPECIAL.test(text) ? undefined : text
}

/** Formats a mailbox for `readMailbox`. */
export const printMailbox = ({ address, name }: Mailbox): string =>
  name === undefined ? address : `${SPECIAL.test(name) ? `"${name.replaceAll(/["\\]/g, '\\$&')}"` : name} <${address}>`

export const domainOf = (address: string): string => address.slice(address.lastIndexOf('@') + 1).toLowerCase()
