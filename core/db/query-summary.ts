/** What a statement does, as its span says it. Contains no values, because they are neither verbs nor names of tables. */
export interface QuerySummary {
  /** `SELECT note author`: the verb with all tables in the order of the text. Of several statements that are alike, one is named. */
  readonly summary: string
  /** The verb, if all statements have one. */
  readonly verb: string | undefined
  /** The table, if there is one. */
  readonly table: string | undefined
  /** The SQL with `?` for each literal, and without comments. */
  readonly text: string
}

interface Token {
  readonly kind: 'word' | 'quoted' | 'literal' | 'other'
  readonly text: string
}

/** Maximum length of a summary. @see OpenTelemetry, "Generating query summary" in the semantic conventions for databases */
const MAX_SUMMARY = 255
/** Maximum length of the SQL that is read. */
const MAX_TEXT = 8 * 1024

/** Summarizes the start of a text of SQL, which may be wrong. */
export function summaryOf(sql: string): QuerySummary {
  const { tokens, text } = tokensOf(sql.slice(0, MAX_TEXT))
  const statements = splitAt(tokens).map((statement) => ({ verb: verbOf(statement), tables: tablesOf(statement) }))
  const verbs = new Set(statements.map(({ verb }) => verb))
  const tables = new Set(statements.flatMap((each) => each.tables))
  const words = statements.map(({ verb = '', tables: own }) => [verb, ...own].join(' ').trim()).filter(Boolean)
  return {
    summary: shortened([...new Set(words)].join('; ')),
    verb: verbs.size === 1 ? [...verbs][0] : undefined,
    table: tables.size === 1 ? [...tables][0] : undefined,
    text,
  }
}

const shortened = (text: string): string =>
  text.length <= MAX_SUMMARY ? text : text.slice(0, text.lastIndexOf(' ', MAX_SUMMARY))

/** A text of which only the start is known may end within a literal. */
const TOKEN = new RegExp(
  [
    String.raw`(?<space>\s+|--[^\n]*)`,
    String.raw`(?<comment>/\*)`,
    String.raw`(?<literal>e'(?:[^'\\]|\\[^]|'')*(?:'|\\?$)|(?:u&|[bxn])?'(?:[^']|'')*(?:'|$)|\$(?<tag>[a-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$[^]*?(?:\$\k<tag>\$|$)|\.?\d[\w.]*)`,
    String.raw`(?<quoted>"(?:[^"]|"")*(?:"|$))`,
    String.raw`(?<word>[a-z_\u0080-\uffff][\w$\u0080-\uffff]*)`,
    String.raw`\$\d+`,
    '[^]',
  ].join('|'),
  'giy',
)

function tokensOf(sql: string): { readonly tokens: readonly Token[]; readonly text: string } {
  const tokens: Token[] = []
  let text = ''
  TOKEN.lastIndex = 0
  for (let match = TOKEN.exec(sql); match !== null && match[0] !== ''; match = TOKEN.exec(sql)) {
    const [found] = match
    const { space, comment, literal, quoted, word } = match.groups!
    if (comment !== undefined) TOKEN.lastIndex = endOfComment(sql, TOKEN.lastIndex)
    const isSpace = space !== undefined || comment !== undefined
    text += literal !== undefined ? '?' : isSpace && !/^\s/.test(found) ? ' ' : found
    if (isSpace) continue
    const kind =
      literal !== undefined ? 'literal' : quoted !== undefined ? 'quoted' : word !== undefined ? 'word' : 'other'
    tokens.push({ kind, text: kind === 'word' ? found.toLowerCase() : found })
  }
  return { tokens, text: text.trim() }
}

/** Comments of PostgreSQL contain others. */
function endOfComment(sql: string, start: number): number {
  const edges = /\/\*|\*\//g
  edges.lastIndex = start
  for (let depth = 1; depth > 0;) {
    const edge = edges.exec(sql)
    if (!edge) return sql.length
    depth += edge[0] === '/*' ? 1 : -1
  }
  return edges.lastIndex
}

function splitAt(tokens: readonly Token[]): readonly (readonly Token[])[] {
  const statements: Token[][] = [[]]
  for (const token of tokens) {
    if (token.text === ';') statements.push([])
    else statements.at(-1)!.push(token)
  }
  return statements.filter(({ length }) => length > 0)
}

/** Words that a statement may start with. Any other text is not SQL, and may be a value. */
const VERBS = new Set(
  (
    'select insert update delete merge values table begin start commit end rollback savepoint release set reset show ' +
    'create alter drop truncate comment grant revoke lock copy call do explain analyze vacuum reindex cluster refresh ' +
    'prepare execute deallocate declare fetch move close discard listen unlisten notify checkpoint load security import reassign'
  ).split(' '),
)
const WRITES = new Set(['insert', 'update', 'delete', 'merge'])

function verbOf(tokens: readonly Token[]): string | undefined {
  const [first] = tokens
  const isRead = first?.text === 'with' || first?.text === '('
  const write = isRead ? tokens.find((_, at) => isWrite(tokens, at))?.text : undefined
  const verb = isRead ? (write ?? 'select') : first?.kind === 'word' && VERBS.has(first.text) ? first.text : undefined
  return verb?.toUpperCase()
}

/** Returns whether a write starts here, rather than `for update`, `on update` or `do update set`. */
function isWrite(tokens: readonly Token[], at: number): boolean {
  const before = tokens[at - 1]?.text
  return (
    isWord(tokens[at], WRITES) && (before === undefined || before === '(' || before === ')' || before === 'explain')
  )
}

const isWord = (token: Token | undefined, words: ReadonlySet<string>): boolean =>
  token?.kind === 'word' && words.has(token.text)

/** Returns the tables that a statement names, without the schema `public`. */
function tablesOf(tokens: readonly Token[]): readonly string[] {
  const named = withNames(tokens)
  const found = new Set<string>()
  /** The verb of each open parenthesis. `extract(year from day)` has none. */
  const verbs: (string | undefined)[] = [undefined]
  const add = (at: number, mayCall: boolean): void => {
    const { name, next } = tableAt(tokens, at)
    if (name === undefined) return
    if (!named.has(name) && (!mayCall || tokens[next]?.text !== '(')) found.add(name)
    if (!mayCall) return
    const comma = [next, next + 1, next + 2].find((each) => tokens[each]?.text === ',')
    const isAlias = comma !== undefined && tokens.slice(next, comma).every(isName)
    if (isAlias) add(comma + 1, true)
  }
  tokens.forEach(({ kind, text }, at) => {
    if (text === '(') verbs.push(undefined)
    else if (text === ')' && verbs.length > 1) verbs.pop()
    if (kind !== 'word') return
    const verb = verbs.at(-1)
    const before = tokens[at - 1]?.text
    if (text === 'select' || isWrite(tokens, at)) verbs[verbs.length - 1] = text
    if (text === 'from' ? verb !== undefined && before !== 'distinct' : text === 'join') add(at + 1, true)
    else if (text === 'using' && (verb === 'delete' || verb === 'merge')) add(at + 1, true)
    else if (text === 'into' || text === 'table' || (text === 'update' && isWrite(tokens, at))) add(at + 1, false)
  })
  return [...found]
}

/** Names that `with` gives to queries. */
function withNames(tokens: readonly Token[]): ReadonlySet<string> {
  const isNamed = (at: number): boolean => {
    const before = tokens[at - 1]?.text ?? ''
    if (before === 'with' || before === 'recursive') return true
    const columns = tokens[at + 1]?.text === '(' ? tokens.findIndex(({ text }, each) => each > at && text === ')') : at
    const after = tokens.slice(columns + 1, columns + 5).map(({ text }) => text)
    return before === ',' && /^as (not )?(materialized )?\(/.test(after.join(' '))
  }
  return new Set(tokens.flatMap((token, at) => (isName(token) && isNamed(at) ? [nameOf(token)] : [])))
}

/** Words between a keyword and the name of a table. */
const FILLERS = new Set(['only', 'if', 'not', 'exists', 'lateral'])
/** Words that follow instead of a name. */
const NO_NAMES = new Set(['select', 'values', 'rows', 'set', 'with'])

function tableAt(tokens: readonly Token[], start: number): { readonly name?: string; readonly next: number } {
  let at = start
  while (isWord(tokens[at], FILLERS)) at++
  const first = tokens[at]
  if (!first || !isName(first) || isWord(first, NO_NAMES)) return { next: at }
  const parts = [nameOf(first)]
  for (; tokens[at + 1]?.text === '.' && isName(tokens[at + 2]); at += 2) parts.push(nameOf(tokens[at + 2]!))
  return { name: parts[0] === 'public' && parts.length > 1 ? parts.slice(1).join('.') : parts.join('.'), next: at + 1 }
}

const isName = (token: Token | undefined): boolean => token?.kind === 'word' || token?.kind === 'quoted'
const nameOf = ({ kind, text }: Token): string => (kind === 'quoted' ? text.slice(1, -1).replaceAll('""', '"') : text)
