import { type ServiceError, serviceError, unexpectedPayload } from '../errors.js'
import { type Json, NumberText } from '../json/parse.js'
import type { Metrics } from '../observe/metrics.js'
import { composedOf } from '../plan/encode.js'
import type { Operand } from '../ir.js'
import { partOf } from '../processes/part.js'
import type { List, Pattern, Price } from '../plan/price.js'
import type { Infer, Schema } from '../json/schema.js'
import { setting } from '../json/setting.js'
import type { Session } from '../session.js'

const { advanced, amount, count } = setting

/** The section `limits` of the configuration. Apart from `newQueries`, it limits one request of a role other than admin. */
export const limitsConfig = {
  type: 'object',
  default: {},
  properties: {
    newQueries: advanced.section(
      'Limit on new query shapes of one caller, which must be compiled. One of more than 4,096 characters counts several times. Excess requests fail with 429.',
      {
        perSecond: amount(20, 'Sustained rate of new query shapes per second. 0 disables the limit.'),
        burst: count(200, 'Number of new query shapes that a caller may send in a burst.'),
      },
    ),
    price: amount(
      1_000_000_000,
      'Maximum [price](../plugins/query/conditions.md#patterns) of a request or of a whole bulk, in points. Costlier requests fail with 400. 0 disables the limit.',
    ),
    patterns: advanced.section(
      'Limits on pattern operators in one request or one bulk, for roles other than admin. Requests above a limit fail with 400.',
      {
        operators: amount(10, 'Maximum number of pattern operators, such as $like and $regex. 0 disables the limit.'),
        characters: amount(
          100,
          'Maximum total length of all regular expressions, including $similar and $matches, in characters. The text of $trigram may have at most 200 characters. 0 disables both limits.',
        ),
        wildcards: amount(
          20,
          'Maximum number of unescaped `%` and `_` in one $like pattern. The pattern may have at most 1,000 characters. 0 disables both limits.',
        ),
      },
    ),
  },
} as const satisfies Schema
export type Limits = Infer<typeof limitsConfig>

/** Totals of the members of a bulk so far. */
export interface Spent {
  points: number
  patterns: number
  characters: number
}
export const nothingSpent = (): Spent => ({ points: 0, patterns: 0, characters: 0 })

/**
 * Refuses expensive requests before they reach the database. Callers without limits have no `caller`.
 * @throws ServiceError 400 unexpected-payload, with the cost and the limit
 */
export function checkPrice(
  { price, patterns: most }: Limits,
  { terms, patterns, arrays }: Price,
  values: readonly Json[],
  rowCount: (table: string) => number,
  { session, transaction }: { readonly session: Session; readonly transaction?: { readonly spent: Spent } },
): void {
  if (session.caller === undefined) return
  const spent = transaction?.spent ?? nothingSpent()
  const lengthOf = (list: List): number => estimatedRows(list, values, rowCount)
  for (const { points, lists } of terms)
    spent.points += lists.reduce((product, list) => product * lengthOf(list), points)
  if (price > 0 && spent.points > price) {
    throw tooMuch(
      `the request may cost about ${Math.round(spent.points)} points, and at most ${price} are allowed (limits.price); limit its lists`,
    )
  }
  spent.patterns += patterns.length
  if (most.operators > 0 && spent.patterns > most.operators) {
    const allowed = `at most ${most.operators} are allowed (limits.patterns.operators)`
    throw tooMuch(`the request has ${spent.patterns} pattern operators, and ${allowed}`, patterns[0]?.to)
  }
  for (const to of arrays) {
    const count = elementsOf(valueOf(to, values))
    if (count > LONGEST_ARRAY)
      throw tooMuch(`the array has ${count} elements, and at most ${LONGEST_ARRAY} are allowed`, to)
  }
  for (const pattern of patterns) {
    const text = textOf(valueOf(pattern.to, values))
    if (pattern.op.endsWith('like')) checkWildcards(text, most.wildcards, pattern)
    else if (pattern.op === 'trigram_matches') checkTrigrams(text, most.characters, pattern)
    else if (!pattern.op.endsWith('_matches')) {
      spent.characters += text.length
      if (most.characters > 0 && BACK_REFERENCE.test(text)) throw tooMuch(NO_BACK_REFERENCES, pattern.to)
    }
    if (most.characters > 0 && spent.characters > most.characters) {
      const allowed = `at most ${most.characters} are allowed (limits.patterns.characters)`
      throw tooMuch(`the request has ${spent.characters} characters of regular expressions, and ${allowed}`, pattern.to)
    }
  }
}

/** Matching a back-reference may take time exponential in the length of a text. */
const BACK_REFERENCE = /\\[1-9]/
const NO_BACK_REFERENCES =
  'only the role admin may use a back-reference in a regular expression (limits.patterns.characters: 0 allows it)'

/** Longer patterns are slow enough to reveal by timing which rows were tested. */
const LONGEST_LIKE = 1000

/** Limits wildcards. Each restarts the search within a text, so many reveal by timing how much of a hidden text matches. */
function checkWildcards(text: string, most: number, pattern: Pattern): void {
  if (most > 0 && text.length > LONGEST_LIKE) {
    throw tooMuch(
      `a pattern of $like has at most ${LONGEST_LIKE} characters (limits.patterns.wildcards: 0 allows more)`,
      pattern.to,
    )
  }
  // Escaped characters match themselves.
  const wildcards = text.replaceAll(/\\[^]|[^%_]/g, '').length
  if (most === 0 || wildcards <= most) return
  const allowed = `at most ${most} are allowed (limits.patterns.wildcards)`
  throw tooMuch(`the pattern has ${wildcards} wildcards, and ${allowed}`, pattern.to)
}

/** Comparing longer texts is slow enough to reveal by timing which rows were tested, and cannot be interrupted. */
const LONGEST_TRIGRAM = 200

function checkTrigrams(text: string, most: number, { to }: Pattern): void {
  if (most === 0 || text.length <= LONGEST_TRIGRAM) return
  const allowed = `at most ${LONGEST_TRIGRAM} characters (limits.patterns.characters: 0 allows more)`
  throw tooMuch(`a text to compare by trigrams has ${allowed}`, to)
}

/** As a multiple of the elements of the stored array, the number of comparisons that PostgreSQL cannot interrupt. */
const LONGEST_ARRAY = 10_000

/** Returns the number of elements of an array. Counts commas in the text of one. */
function elementsOf(value: Json | undefined): number {
  if (Array.isArray(value))
    return value.reduce((sum: number, each) => sum + (Array.isArray(each) ? elementsOf(each) : 1), 0)
  return typeof value === 'string' ? value.split(',').length : 1
}

const tooMuch = (message: string, to?: Operand): ServiceError =>
  unexpectedPayload(message, to?.kind === 'value' || to?.kind === 'composed' ? to.path : '$.args')

/** Rows of a list whose table has no statistics. */
const UNKNOWN_ROWS = 100

function estimatedRows(
  { table, rows: declared = UNKNOWN_ROWS, per, share, limits = [] }: List,
  values: readonly Json[],
  rowCount: (table: string) => number,
): number {
  const rows = table === undefined ? declared : rowCount(table) / (per === undefined ? 1 : rowCount(per))
  return Math.max(1, Math.min(rows * share, countOf(limits, values)))
}

/** Returns the smallest of the limits on a number of rows; Infinity without any. */
export const countOf = (limits: readonly Operand[], values: readonly Json[]): number =>
  Math.min(...limits.map((limit) => rowsOf(valueOf(limit, values))))

function valueOf(operand: Operand, values: readonly Json[]): Json | undefined {
  if (operand.kind === 'composed') return composedOf(operand.parts, values)
  return operand.kind === 'value' ? values[operand.slot] : operand.kind === 'const' ? operand.value : undefined
}

function rowsOf(limit: Json | undefined): number {
  const rows = Number(limit instanceof NumberText ? limit.text : (limit ?? Infinity))
  return Number.isNaN(rows) ? Infinity : rows
}

function textOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : Array.isArray(value) ? value.map(textOf).join('') : ''
}

/** The characters of a shape that count as one new shape. */
const ORDINARY_LENGTH = 4096

/** Maximum number of remembered callers; the least recently used are forgotten. */
const MAX_CALLERS = 10_000

/**
 * Limits how much each caller makes the server compile, with one token bucket per `Session.caller`. Buckets start full
 * and refill continuously. Cached plans are never refused. Without the limit, a client could send endless new shapes,
 * each of which occupies a worker for some milliseconds.
 * @param processes number of processes that share the limit
 * @returns charges a compilation to a caller, by the length of its shape; throws ServiceError 429 too-many-requests
 */
export function createNewQueryLimit(
  all: Limits['newQueries'],
  metrics: Metrics,
  processes = 1,
): (caller: string | undefined, length: number) => void {
  const refused = metrics.counter(
    'compilations_refused_total',
    'Requests refused because their caller sent too many new query shapes.',
  )
  const perSecond = all.perSecond / processes
  const burst = partOf(all.burst, processes)
  const buckets = new Map<string, { tokens: number; readonly at: number }>()

  return (caller, length) => {
    if (perSecond === 0 || caller === undefined) return
    const price = Math.min(burst, Math.ceil(length / ORDINARY_LENGTH))
    const now = performance.now()
    const { tokens, at } = buckets.get(caller) ?? { tokens: burst, at: now }
    const bucket = { tokens: Math.min(burst, tokens + ((now - at) / 1000) * perSecond), at: now }
    // Re-inserts the bucket, so that the least recently used one is first.
    buckets.delete(caller)
    if (buckets.size >= MAX_CALLERS) buckets.delete(buckets.keys().next().value!)
    buckets.set(caller, bucket)
    if (bucket.tokens >= price) {
      bucket.tokens -= price
      return
    }
    refused.inc()
    const message = 'too many new query shapes; changing only values is not limited (limits.newQueries)'
    throw serviceError('too-many-requests', message, '$', { retryAfter: (price - bucket.tokens) / perSecond })
  }
}
