/** A part of a file of SQL. */
export type SqlPart =
  /** `copy`: a `COPY ... FROM stdin`, whose data follow. Without the semicolon and the comments before it. */
  | { readonly kind: 'statement' | 'copy'; readonly text: string; readonly line: number; readonly column: number }
  /** Complete lines of data for the last `copy`. */
  | { readonly kind: 'data'; readonly text: string }
  | { readonly kind: 'end-of-data' }
  /** A line for psql itself, such as `\connect shop`. */
  | { readonly kind: 'command'; readonly text: string; readonly line: number; readonly column: number }

/** Splits SQL as psql does, without keeping more of it than one statement. */
export async function* splitSql(chunks: AsyncIterable<string> | Iterable<string>): AsyncGenerator<SqlPart> {
  const splitter = new SqlSplitter()
  for await (const chunk of chunks) yield* splitter.push(chunk)
  yield* splitter.end()
}

/** Maximum length of a statement. A quote that is never closed would collect the rest of the file. */
const MAX_STATEMENT = 256 * 1024 * 1024
/** Longer statements are scanned again only when they have doubled, because joining texts copies them. */
const SHORT = 1024 * 1024

/** What begins a quote or a comment, or may end a statement. The last two alternatives may be parts of a token. */
const TOKEN =
  /--|\/\*|\$(?:[A-Za-z_\x80-\uffff][\w\x80-\uffff]*)?\$|[A-Za-z_\x80-\uffff][\w$\x80-\uffff]*|\d[\w$.]*|['"();\\]|\$[\w\x80-\uffff]*$|[-/]$/g
const NEWLINE = 10
const COMMENT = /\/\*|\*\//g
const ESCAPED = /\\[^]|''|'/g
const ROUTINE = /^create (or replace )?(function|procedure)$/
const END_OF_DATA = /(?<![^\n])\\\.\r?(?=\n|$)/g
/** Not that of a query: `COPY (select ... from stdin) TO ...`. */
const FROM_STDIN = /^copy\s(?!\s*\()[^]*\sfrom\s+stdin\b/i

/**
 * Splits pieces of SQL as they come. Works on any encoding in which ASCII characters are single units, so a file may be
 * read as `latin1`, which keeps its bytes.
 */
export class SqlSplitter {
  private text = ''
  private waiting: string[] = []
  private waitingLength = 0
  /** Where to continue. */
  private at = 0
  /** The line of `at`. */
  private line = 1
  /** Where that line starts, which may be before `text`. */
  private lineStart = 0
  /** Where the current statement starts; -1 before its first token. */
  private start = -1
  private startLine = 1
  private startColumn = 1
  private parentheses = 0
  /** Whether the statement creates a function, whose body may be SQL without quotes: `begin atomic ...; end`. */
  private isRoutine = false
  private words: string[] = []
  private blocks = 0
  private inData: 'no' | 'soon' | 'yes' = 'no'
  private ended = false

  /** Whether a statement has begun and not ended. */
  get isOpen(): boolean {
    return this.start >= 0 || this.text.slice(this.at).trim() !== ''
  }

  /** @returns the parts that are complete now */
  *push(chunk: string): Generator<SqlPart> {
    this.waiting.push(chunk)
    this.waitingLength += chunk.length
    const kept = this.text.length - this.kept
    if (kept < SHORT || this.waitingLength >= kept) yield* this.scan()
  }

  /**
   * @returns the last parts; the last statement needs no semicolon
   * @throws Error with the line, when the text ends inside of a quote, a comment or data
   */
  *end(): Generator<SqlPart> {
    this.ended = true
    yield* this.scan()
    if (this.start >= 0) yield this.statement(this.text.length)
    if (this.inData !== 'no') throw new Error(`line ${this.line}: the data of COPY must end with a line \\.`)
  }

  private get kept(): number {
    return this.start < 0 ? this.at : this.start
  }

  private *scan(): Generator<SqlPart> {
    const { kept } = this
    this.text = this.text.slice(kept) + this.waiting.join('')
    this.at -= kept
    this.lineStart -= kept
    if (this.start >= 0) this.start = 0
    this.waiting = []
    this.waitingLength = 0
    for (let part; (part = this.inData === 'no' ? this.next() : this.data());) yield part
    if (this.text.length - this.kept > MAX_STATEMENT)
      throw new Error(`line ${this.startLine}: the statement is longer than ${MAX_STATEMENT} bytes`)
  }

  /** Moves on and counts lines. */
  private advance(to: number): void {
    for (let at = this.at; at < to; at++) {
      if (this.text.charCodeAt(at) !== NEWLINE) continue
      this.line++
      this.lineStart = at + 1
    }
    this.at = to
  }

  /** @returns the next part; undefined when more text is needed */
  private next(): SqlPart | undefined {
    for (;;) {
      TOKEN.lastIndex = this.at
      const found = TOKEN.exec(this.text)
      const from = found?.index ?? this.text.length
      // An operator or a number may also be the first of a statement.
      const gap = this.start < 0 ? this.text.slice(this.at, from).search(/\S/) : -1
      if (gap >= 0) this.begin(this.at + gap)
      this.advance(from)
      if (!found) return undefined
      const [token] = found
      const after = from + token.length
      // The token may continue in the next piece.
      if (after === this.text.length && !this.ended && !'();'.includes(token)) return undefined
      if (token === ';' && this.parentheses <= 0 && this.blocks === 0) {
        const part = this.start < 0 ? undefined : this.statement(from)
        this.advance(after)
        if (part) return part
        continue
      }
      if (token === '\\' && this.start < 0) return this.command()
      const end = this.endOf(token, after)
      if (end < 0) return undefined
      if (this.start < 0 && token !== '--' && token !== '/*') this.begin(from)
      this.advance(end)
    }
  }

  private begin(at: number): void {
    this.advance(at)
    this.start = at
    this.startLine = this.line
    this.startColumn = at - this.lineStart + 1
  }

  /** @returns where a token, or the quote or comment that it begins, ends; -1 when that is not here yet */
  private endOf(token: string, after: number): number {
    if (token === '--') return this.found(this.text.indexOf('\n', after), 0)
    if (token === '/*') return this.found(this.endOfComment(after), 0, token)
    if (token === '"' || (token === "'" && !this.isEscaped(after - 2))) {
      return this.found(this.text.indexOf(token, after), 1, token)
    }
    if (token === "'") return this.found(this.endOfEscaped(after), 0, token)
    if (token.length > 1 && token.startsWith('$') && token.endsWith('$')) {
      return this.found(this.text.indexOf(token, after), token.length, token)
    }
    if (token === '(') this.parentheses++
    else if (token === ')') this.parentheses--
    else if (/^[a-z]/i.test(token)) this.follow(token.toLowerCase())
    return after
  }

  private found(end: number, length: number, open?: string): number {
    if (end >= 0) return end + length
    if (!this.ended) return -1
    if (open !== undefined) throw new Error(`line ${this.line}: ${open} is not closed`)
    return this.text.length
  }

  private endOfComment(after: number): number {
    let depth = 1
    COMMENT.lastIndex = after
    for (let found; (found = COMMENT.exec(this.text));) {
      depth += found[0] === '/*' ? 1 : -1
      if (depth === 0) return COMMENT.lastIndex
    }
    return -1
  }

  /** Returns whether a quote after `at` is that of `E'...'`. */
  private isEscaped(at: number): boolean {
    return at >= 0 && /^(.?[^\w$\x80-\uffff])?e$/is.test(this.text.slice(Math.max(0, at - 1), at + 1))
  }

  private endOfEscaped(after: number): number {
    ESCAPED.lastIndex = after
    for (let found; (found = ESCAPED.exec(this.text));) {
      const isLast = ESCAPED.lastIndex === this.text.length && !this.ended
      if (found[0] === "'") return isLast ? -1 : ESCAPED.lastIndex
    }
    return -1
  }

  /** Follows the blocks of a function's body, whose semicolons end no statement. */
  private follow(word: string): void {
    if (this.words.length < 4) {
      this.words.push(word)
      this.isRoutine ||= ROUTINE.test(this.words.join(' '))
    }
    if (!this.isRoutine) return
    if (word === 'begin' || (word === 'case' && this.blocks > 0)) this.blocks++
    else if (word === 'end' && this.blocks > 0) this.blocks--
  }

  private statement(end: number): SqlPart {
    const text = this.text.slice(this.start, end)
    const kind = FROM_STDIN.test(text) ? 'copy' : 'statement'
    this.start = -1
    this.parentheses = 0
    this.blocks = 0
    this.isRoutine = false
    this.words = []
    if (kind === 'copy') this.inData = 'soon'
    return { kind, text, line: this.startLine, column: this.startColumn }
  }

  private command(): SqlPart | undefined {
    const end = this.text.indexOf('\n', this.at)
    if (end < 0 && !this.ended) return undefined
    const text = this.text.slice(this.at, end < 0 ? undefined : end).trimEnd()
    const place = { line: this.line, column: this.at - this.lineStart + 1 }
    this.advance(end < 0 ? this.text.length : end)
    return { kind: 'command', text, ...place }
  }

  private data(): SqlPart | undefined {
    if (this.inData === 'soon') {
      const start = this.text.indexOf('\n', this.at)
      if (start < 0) return undefined
      this.advance(start + 1)
      this.inData = 'yes'
    }
    END_OF_DATA.lastIndex = this.at
    const found = END_OF_DATA.exec(this.text)
    const isWhole = this.ended || END_OF_DATA.lastIndex < this.text.length
    if (found?.index !== this.at || !isWhole) return this.lines(found?.index ?? this.text.lastIndexOf('\n') + 1)
    this.inData = 'no'
    this.advance(END_OF_DATA.lastIndex)
    return { kind: 'end-of-data' }
  }

  private lines(end: number): SqlPart | undefined {
    if (end <= this.at) return undefined
    const text = this.text.slice(this.at, end)
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) this.line++
    this.at = end
    this.lineStart = end
    return { kind: 'data', text }
  }
}
