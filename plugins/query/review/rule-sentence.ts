/** What a sentence needs to know about a table. */
export interface RuleTable {
  readonly table: { readonly schema: string; readonly name: string }
  readonly columns: readonly { readonly name: string; readonly type: string }[]
  readonly relationships: readonly {
    readonly name: string
    readonly type: 'object' | 'array'
    readonly table: { readonly schema: string; readonly name: string }
  }[]
}

/** A part of a rule as parsed JSON, on a server or in the console. A number that JavaScript cannot hold is an object with `toJSON`. */
type Json = unknown
type JsonObject = { readonly [key: string]: unknown }

/**
 * Returns a rule in English: `rows where customer_id is the user's id`.
 * @param table table of the rows; without one, relationships read less well
 * @param tables where the tables of relationships are found
 */
export function ruleSentence(rule: Json, table?: RuleTable, tables: readonly RuleTable[] = []): string {
  return isObject(rule) && Object.keys(rule).length === 0
    ? 'all rows'
    : `rows where ${conditionSentence(rule, table, tables)}`
}

/** Returns a condition in English: `customer_id is the user's id`. Whatever it does not know stays JSON. */
export const conditionSentence = (rule: Json, table?: RuleTable, tables: readonly RuleTable[] = []): string =>
  phraseOf(rule, { table, tables, owner: '' }).text

/** Returns the lower-case name of the session variable that a value stands for. */
export const variableOf = (value: Json): string | undefined =>
  typeof value === 'string' && /^x-service-[a-z0-9_-]+$/i.test(value) ? value.toLowerCase() : undefined

/** Returns the names of the session variables in a rule. */
export function variablesIn(value: Json): readonly string[] {
  const name = variableOf(value)
  if (name !== undefined) return [name]
  if (typeof value !== 'object' || value === null) return []
  return [...new Set(Object.values(value).flatMap(variablesIn))]
}

/** Returns what a session variable is called in a sentence. */
export const variableWords = (name: string): string =>
  name === 'x-service-user-id' ? "the user's id" : name === 'x-service-role' ? "the user's role" : titled(name)

const titled = (name: string): string => name.replaceAll(/(^|[-_])[a-z]/g, (start) => start.toUpperCase())

interface About {
  readonly table: RuleTable | undefined
  readonly tables: readonly RuleTable[]
  /** Whose columns they are, e.g. `the order's `; empty for the row itself. */
  readonly owner: string
}
/** A text, and how its parts are joined. */
interface Phrase {
  readonly text: string
  readonly of: 'one' | 'all' | 'any'
}

const one = (text: string): Phrase => ({ text, of: 'one' })

function phraseOf(rule: Json, about: About): Phrase {
  if (!isObject(rule)) return one(textOf(rule))
  return joined(
    Object.entries(rule).map(([name, value]) => partOf(name, value ?? null, about)),
    'all',
  )
}

function joined(parts: readonly Phrase[], of: 'all' | 'any'): Phrase {
  const [only] = parts
  if (!only) return one(of === 'all' ? 'it exists' : 'nothing holds')
  if (parts.length === 1) return only
  const texts = parts.map((part) => (part.of === 'one' || part.of === of ? part.text : `(${part.text})`))
  return { text: texts.join(of === 'all' ? ' and ' : ' or '), of }
}

function partOf(name: string, value: Json, about: About): Phrase {
  const operator = name.replace(/^_/, '$')
  if ((operator === '$and' || operator === '$or') && Array.isArray(value)) {
    const of = operator === '$or' ? 'any' : 'all'
    return joined(
      value.map((part) => phraseOf(part, about)),
      of,
    )
  }
  if (operator === '$not') {
    const inner = phraseOf(value, about)
    return one(inner.of === 'one' ? `it is not true that ${inner.text}` : `it is not true that (${inner.text})`)
  }
  if (operator === '$exists' && isObject(value)) return existsPhrase(value, about)
  const related = about.table?.relationships.find((each) => each.name === name)
  if (related) return relatedPhrase(related, value, about)
  return comparePhrase(name, value, about) ?? aggregatePhrase(name, value, about) ?? one(jsonOf({ [name]: value }))
}

function relatedPhrase(
  { name, type, table }: RuleTable['relationships'][number],
  value: Json,
  { tables, owner }: About,
): Phrase {
  const other = tables.find((each) => each.table.schema === table.schema && each.table.name === table.name)
  const isAny = isObject(value) && Object.keys(value).length === 0
  const its = owner === '' ? `the ${name}` : `${owner}${name}`
  if (type === 'object')
    return isAny ? one(`${its} exists`) : phraseOf(value, { table: other, tables, owner: `${its}'s ` })
  const subject = owner === '' ? 'it' : owner.replace(/'s $/, '')
  if (isAny) return one(`${subject} has ${name}`)
  const inner = phraseOf(value, { table: other, tables, owner: '' })
  return one(`${subject} has ${name} where ${inner.of === 'one' ? inner.text : `(${inner.text})`}`)
}

function existsPhrase({ _table, $table = _table, _where, $where = _where }: JsonObject, { tables }: About): Phrase {
  const { schema = 'public', name } = isObject($table ?? null) ? ($table as JsonObject) : { name: $table ?? '' }
  const other = tables.find((each) => each.table.schema === schema && each.table.name === name)
  const inner = phraseOf($where ?? {}, { table: other, tables, owner: '' })
  return one(`${textOf(name)} has a row where ${inner.of === 'one' ? inner.text : `(${inner.text})`}`)
}

/** `<relationship>_aggregate` with a count of all rows. */
function aggregatePhrase(name: string, value: Json, { table, owner }: About): Phrase | undefined {
  const relationship = /^(.+)_aggregate$/.exec(name)?.[1]
  const count = isObject(value) && Object.keys(value).join() === 'count' ? value['count'] : undefined
  if (!isObject(count ?? null) || !table?.relationships.some((each) => each.name === relationship)) return undefined
  const { predicate, ...others } = count as JsonObject
  if (predicate === undefined || Object.keys(others).length > 0) return undefined
  return comparisons(`the number of ${owner}${relationship}`, predicate, false)
}

function comparePhrase(name: string, value: Json, { table, owner }: About): Phrase | undefined {
  if (isObject(value) && !Object.keys(value).every((key) => /^[$_]/.test(key))) return undefined
  const type = table?.columns.find((each) => each.name === name)?.type
  return comparisons(`${owner}${name}`, value, /^(timestamptz?|date|timetz?)$/.test(type ?? ''))
}

function comparisons(subject: string, value: Json, isTime: boolean): Phrase | undefined {
  const operators = isObject(value) ? Object.entries(value) : [['$eq', value] as const]
  const words = operators.map(([key, to]) => wordsOf(key.replace(/^_/, '$'), to ?? null, isTime))
  if (words.length === 0 || words.includes(undefined)) return undefined
  return { text: words.map((each) => `${subject} ${each}`).join(' and '), of: words.length > 1 ? 'all' : 'one' }
}

function wordsOf(operator: string, value: Json, isTime: boolean): string | undefined {
  if (operator === '$eq') return `is ${valueWords(value)}`
  if (operator === '$ne' || operator === '$neq') return `is not ${valueWords(value)}`
  if (operator === '$is_null') return value === true ? 'is null' : value === false ? 'is not null' : undefined
  if (operator === '$in') return `is ${oneOf(value, 'or')}`
  if (operator === '$nin') return `is not ${oneOf(value, 'or')}`
  const words = (isTime && TIME_WORDS[operator]) || WORDS[operator] || TIME_WORDS[operator]
  if (words !== undefined) return `${words} ${valueWords(value)}`
  const column = WORDS[operator.replace('$c', '$')] ?? COLUMN_WORDS[operator]
  const other = columnWords(value)
  return operator.startsWith('$c') && column !== undefined && other !== undefined ? `${column} ${other}` : undefined
}

/** Returns the name of the column that an operator compares with: `"n"`, `["n"]`, or `["$", "n"]` of the row itself. */
function columnWords(value: Json): string | undefined {
  const [first, second, ...others] = Array.isArray(value) ? (value as readonly Json[]) : [value]
  if (typeof first !== 'string' || others.length > 0) return undefined
  if (second === undefined) return first
  return first === '$' && typeof second === 'string' ? `the row's ${second}` : undefined
}

const WORDS: Readonly<Record<string, string>> = {
  $gt: 'is greater than',
  $lt: 'is less than',
  $gte: 'is at least',
  $lte: 'is at most',
  $is_distinct: 'is distinct from',
  $is_not_distinct: 'is not distinct from',
  $like: 'is like',
  $nlike: 'is not like',
  $ilike: 'is (ignoring case) like',
  $nilike: 'is not (ignoring case) like',
  $regex: 'matches',
  $nregex: 'does not match',
  $iregex: 'matches (ignoring case)',
  $niregex: 'does not match (ignoring case)',
  $contains: 'contains',
  $contained_in: 'is contained in',
  $overlaps: 'overlaps',
  $has_key: 'has the key',
}
const TIME_WORDS: Readonly<Record<string, string>> = {
  $gt: 'is after',
  $lt: 'is before',
  $gte: 'is not before',
  $lte: 'is not after',
}
const COLUMN_WORDS: Readonly<Record<string, string>> = {
  $ceq: 'is the same as',
  $cne: 'is not the same as',
  $cneq: 'is not the same as',
}

/** Returns a value in a sentence: as JSON, unless it is a session variable. */
export function valueWords(value: Json): string {
  const name = variableOf(value)
  return name === undefined ? jsonOf(value) : variableWords(name)
}

function oneOf(value: Json, word: string): string {
  if (!Array.isArray(value)) return `one of ${valueWords(value)}`
  const words = value.map(valueWords)
  const last = words.at(-1)
  if (last === undefined) return 'one of no values'
  return words.length === 1 ? last : `${words.slice(0, -1).join(', ')} ${word} ${last}`
}

/** Returns JSON with all digits of its numbers. */
function jsonOf(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(jsonOf).join(',')}]`
  if (isObject(value)) {
    const entries = Object.entries(value).map(([key, each]) => `${JSON.stringify(key)}:${jsonOf(each)}`)
    return `{${entries.join(',')}}`
  }
  return typeof value === 'object' && value !== null ? (value as LongNumber).toString() : JSON.stringify(value)
}
interface LongNumber {
  toString(): string
}

const textOf = (value: Json): string => (typeof value === 'string' ? value : jsonOf(value ?? null))

const isObject = (value: Json): value is JsonObject =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  typeof (value as JsonObject)['toJSON'] !== 'function'
