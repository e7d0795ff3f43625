/** A cell of a CSV file; null if it is empty and not quoted. */
export type Cell = string | null

/** The separators that are recognised, by the first line. */
const SEPARATORS = [',', ';', '\t'] as const

/**
 * Reads the rows of a CSV file (RFC 4180) while it is loaded. Lines may end in any way.
 * @yields the cells of each row that is not empty
 * @throws Error if a quote is not closed
 */
export async function* readCsv(file: Blob): AsyncGenerator<readonly Cell[]> {
  const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  let separator: string | undefined
  try {
    for (let isLast = false; !isLast;) {
      const { done, value } = await reader.read()
      isLast = done
      rest += value ?? ''
      if (separator === undefined && (isLast || /[\r\n]/.test(rest))) separator = separatorOf(rest)
      if (separator === undefined) continue
      const { rows, end } = readRows(rest, separator, isLast)
      rest = rest.slice(end)
      yield* rows
    }
  } finally {
    await reader.cancel()
  }
  if (rest !== '') throw new Error('the file ends within quotes')
}

function separatorOf(text: string): string {
  const [line = ''] = text.split(/[\r\n]/, 1)
  const counted = SEPARATORS.map((each) => ({ each, count: line.split(each).length }))
  return counted.reduce((best, next) => (next.count > best.count ? next : best)).each
}

/** Returns the complete rows of a text, and where the next one begins. */
function readRows(text: string, separator: string, isLast: boolean) {
  const rows: Cell[][] = []
  let cells: Cell[] = []
  let at = 0
  let end = 0
  const endRow = () => {
    if (cells.length > 1 || cells[0] !== null) rows.push(cells)
    cells = []
    end = at
  }
  while (at < text.length) {
    const isQuoted = text[at] === '"'
    const cell = isQuoted ? quoted(text, at, isLast) : plain(text, at, separator)
    if (!cell) {
      cells = []
      break
    }
    at = cell.end
    const mark = text[at]
    // The second half of a line end, or of a quote, may still be on its way.
    if (!isLast && (mark === undefined || (mark === '\r' && at + 1 >= text.length))) break
    cells.push(isQuoted || cell.value !== '' ? cell.value : null)
    if (mark === separator) {
      at++
      if (at === text.length && isLast) cells.push(null)
      continue
    }
    at += mark === '\r' && text[at + 1] === '\n' ? 2 : 1
    endRow()
  }
  if (isLast && cells.length > 0) endRow()
  return { rows, end: Math.min(end, text.length) }
}

function quoted(text: string, start: number, isLast: boolean) {
  let value = ''
  for (let from = start + 1; ;) {
    const quote = text.indexOf('"', from)
    if (quote < 0 || (!isLast && quote === text.length - 1)) return undefined
    value += text.slice(from, quote)
    if (text[quote + 1] !== '"') return { value, end: quote + 1 }
    value += '"'
    from = quote + 2
  }
}

function plain(text: string, start: number, separator: string) {
  let end = start
  while (end < text.length && text[end] !== separator && text[end] !== '\n' && text[end] !== '\r') end++
  return { value: text.slice(start, end), end }
}

/** Writes rows as CSV: null is empty, and the empty text is `""`. */
export const csvText = (rows: readonly (readonly Cell[])[]): string =>
  rows.map((row) => row.map((cell) => (cell === null ? '' : quote(cell))).join(',') + '\r\n').join('')

const quote = (text: string): string => (/^$|[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)
