import { type Json, NO_LIMITS, parseJson } from '../../json/parse.js'
import { isObject } from '../../plan/encode.js'
import type { Target, Told } from './target.js'

/** A server that answers, but not with what could be measured. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError'
}

/**
 * What is wrong with an answer, and the way out where one is known; undefined when nothing is.
 * @param doing what was asked, such as the name of a template
 */
export function problemOf({ status, text }: Told, { caller, proof }: Target, doing: string): string | undefined {
  if (status === 200 && !text.startsWith('{"errors":')) return undefined
  const answer = parsed(text)
  const first = isObject(answer) && Array.isArray(answer['errors']) ? answer['errors'][0] : undefined
  const graphql = isObject(first) && typeof first['message'] === 'string' ? first['message'] : undefined
  const said = isObject(answer) && typeof answer['error'] === 'string' ? answer['error'] : (graphql ?? short(text))
  const [, variable] = /\b(x-[\w-]+) header is expected but not found/.exec(said) ?? []
  const out = variable === undefined ? '' : `; send one, such as --header '${titled(variable)}: 7'`
  if (status === 401 || status === 403) {
    if (proof === undefined) return `${status}: ${said} (${caller}); ${CREDENTIALS}`
    return proof === 'authorization'
      ? `${status}: the header Authorization is not accepted: ${said}`
      : `${status}: ${said}`
  }
  if (status === 200) return `${doing}: GraphQL errors: ${said}${out}`
  return `${doing}: the first answer is ${status}: ${out === '' ? short(text) : said + out}`
}
const CREDENTIALS = `it needs credentials: --admin-secret-file F, ROWHOUSE_ADMIN_SECRET or --header 'Authorization: Bearer ...'`

/** `x-service-user-id` as it is mostly written. */
const titled = (name: string): string => name.replace(/(^|-)([a-z])/g, (letters) => letters.toUpperCase())

/** What is longer is not parsed to see whether it is empty. */
const MOST_EMPTY = 10_000

/** Whether an answer of 200 has no rows: nothing, an empty list, or lists of GraphQL or a bulk that all are. */
export function isEmptyAnswer(text: string): boolean {
  if (text.length > MOST_EMPTY) return false
  const answer = parsed(text)
  if (answer === undefined) return text.trim() === ''
  return hasNoRows(isObject(answer) && isObject(answer['data']) ? Object.values(answer['data']) : answer)
}

const hasNoRows = (value: Json): boolean => value === null || (Array.isArray(value) && value.every(hasNoRows))

function parsed(text: string): Json | undefined {
  try {
    return parseJson(text, NO_LIMITS)
  } catch {
    return undefined
  }
}

/** The beginning of an answer, for people. */
export const short = (text: string): string => (text.length > 300 ? `${text.slice(0, 300)}...` : text)
