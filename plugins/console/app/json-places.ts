/** A value in a text of JSON. The text may be incomplete, as it is while somebody writes it. */
export interface Part {
  readonly kind: 'object' | 'array' | 'scalar'
  readonly from: number
  readonly to: number
  readonly entries: readonly Entry[]
  readonly items: readonly Part[]
}

interface Entry {
  readonly key: string
  readonly from: number
  readonly to: number
  /** Position of the colon, or -1. */
  readonly colon: number
  readonly value: Part | undefined
}

/** What is wrong with a text. */
interface Mistake {
  readonly from: number
  readonly to: number
  readonly message: string
}

interface Parts {
  readonly root: Part | undefined
  /** The first mistake. */
  readonly mistake: Mistake | undefined
}

/** Finds the parts of a text of JSON, and the first mistake in it. */
export function partsOf(text: string): Parts {
  let at = 0
  let mistake: Mistake | undefined
  const wrong = (message: string, from = at, to = Math.min(text.length, from + 1)) => {
    mistake ??= { from: Math.min(from, Math.max(0, text.length - 1)), to, message }
  }
  const blank = () => {
    BLANK.lastIndex = at
    BLANK.test(text)
    at = BLANK.lastIndex
  }
  const found = (what: string) => (at >= text.length ? `${what} is missing at the end` : `${what} is missing`)

  function string(): { readonly from: number; readonly to: number; readonly value: string } {
    const from = at
    STRING.lastIndex = at
    STRING.test(text)
    at = STRING.lastIndex
    const source = text.slice(from, at)
    if (source.length < 2 || !source.endsWith('"') || ESCAPED_END.test(source)) {
      wrong('the string has no end', from, at)
      return { from, to: at, value: source.slice(1) }
    }
    try {
      return { from, to: at, value: JSON.parse(source) as string }
    } catch {
      wrong('this is no valid string: \\ and control characters must be escaped', from, at)
      return { from, to: at, value: source.slice(1, -1) }
    }
  }

  function value(depth: number): Part | undefined {
    blank()
    const from = at
    const char = text[at]
    if (depth > MAX_DEPTH) {
      wrong(`more than ${MAX_DEPTH} levels`)
      at = text.length
      return undefined
    }
    if (char === '{') return object(from, depth)
    if (char === '[') return array(from, depth)
    if (char === '"') {
      const { to } = string()
      return { kind: 'scalar', from, to, entries: [], items: [] }
    }
    WORD.lastIndex = at
    WORD.test(text)
    if (WORD.lastIndex <= at) {
      wrong(found('a value'))
      return undefined
    }
    at = WORD.lastIndex
    if (!SCALAR.test(text.slice(from, at))) wrong('expecting a value: text needs double quotes', from, at)
    return { kind: 'scalar', from, to: at, entries: [], items: [] }
  }

  /** Reads what stands between two brackets, separated by commas. */
  function list(close: string, member: () => boolean): number {
    at++
    for (let isFirst = true; ; isFirst = false) {
      blank()
      if (at >= text.length) {
        wrong(`${close} is missing at the end`)
        return at
      }
      if (text[at] === close) return ++at
      if (!isFirst) {
        if (text[at] === ',') at++
        else wrong('a comma is missing')
        blank()
        if (text[at] === close) {
          wrong(`there must be no comma before ${close}`)
          return ++at
        }
      }
      const before = at
      if (!member() && at === before) {
        // No other branch reads this character: continue after it, or leave it to the enclosing bracket.
        if (text[at] === '}' || text[at] === ']') return at
        if (text[at] !== ',' && at < text.length) at++
      }
    }
  }

  function object(from: number, depth: number): Part {
    const entries: Entry[] = []
    const to = list('}', () => {
      if (text[at] !== '"') {
        wrong('expecting a key in double quotes')
        return false
      }
      const key = string()
      blank()
      let colon = -1
      let held: Part | undefined
      if (text[at] === ':') {
        colon = at++
        held = value(depth + 1)
      } else wrong(found('a colon'))
      entries.push({ key: key.value, from: key.from, to: key.to, colon, value: held })
      return true
    })
    return { kind: 'object', from, to, entries, items: [] }
  }

  function array(from: number, depth: number): Part {
    const items: Part[] = []
    const to = list(']', () => {
      const item = value(depth + 1)
      if (item) items.push(item)
      return item !== undefined
    })
    return { kind: 'array', from, to, entries: [], items }
  }

  const root = value(0)
  blank()
  if (at < text.length) wrong('nothing may follow the request', at, text.length)
  return { root, mistake }
}

const MAX_DEPTH = 200
const BLANK = /[ \t\r\n]*/y
const STRING = /"(?:[^"\\\n]|\\[^\n])*"?/y
const ESCAPED_END = /(?:^|[^\\])(?:\\\\)*\\"$/
const WORD = /[^\s,:{}[\]"]*/y
const SCALAR = /^(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)$/

export type Path = readonly (string | number)[]

/** Reads a path as errors have it, such as `$.args.where.author.$or[1].id` or `$["a key"]`. */
export function pathOf(text: string): Path {
  return [...text.matchAll(/\.([^.[]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]/g)].map(([, name, index, quoted]) =>
    index !== undefined ? Number(index) : quoted !== undefined ? (JSON.parse(quoted) as string) : name!,
  )
}

/** Returns the range of what a path names, or of the innermost part around it that exists. A key is marked for a missing value. */
export function placeOf(root: Part | undefined, path: Path): { readonly from: number; readonly to: number } {
  let part = root
  let range = { from: root?.from ?? 0, to: Math.min(root?.to ?? 0, (root?.from ?? 0) + 1) }
  for (const step of path) {
    if (!part) break
    if (typeof step === 'number') {
      const item: Part | undefined = part.items[step]
      if (!item) break
      range = { from: item.from, to: item.to }
      part = item
    } else {
      // As in requests: the last of equal keys counts, and `_eq` is the same as `$eq`.
      const entry: Entry | undefined = part.entries.findLast(({ key }) => isSameKey(key, step))
      if (!entry) break
      range = { from: entry.from, to: entry.value?.kind === 'scalar' ? entry.value.to : entry.to }
      part = entry.value
    }
  }
  return range
}

const isSameKey = (a: string, b: string) => a === b || (a.startsWith('_') && b === `$${a.slice(1)}`)

/** Where a position is: the path of the part around it, and what may stand there. */
export interface Spot {
  readonly path: Path
  readonly what: 'key' | 'value'
  /** The range of the word at the position. */
  readonly from: number
  readonly to: number
  /** Other keys of the same object, or other texts of the same array. */
  readonly taken: readonly string[]
}

/** Finds where in a text a position is. */
export function spotAt(root: Part | undefined, text: string, position: number): Spot {
  const here = { from: wordStart(text, position), to: position }
  const walk = (part: Part | undefined, path: Path): Spot => {
    const isInside = part && part.from < position && (position < part.to || !isClosed(part, text))
    if (!part || part.kind === 'scalar' || !isInside) {
      const isWord = part?.kind === 'scalar' && part.from <= position && position <= part.to
      return { path, what: 'value', ...(isWord ? { from: part.from, to: part.to } : here), taken: [] }
    }
    if (part.kind === 'array') {
      const index = part.items.findIndex(({ from, to }) => from <= position && position <= to)
      const taken = part.items.flatMap((item, i) =>
        i === index || item.kind !== 'scalar' ? [] : [unquoted(text, item)],
      )
      if (index >= 0)
        return {
          ...walk(part.items[index], [...path, index]),
          ...(part.items[index]?.kind === 'scalar' ? { taken } : {}),
        }
      return { path: [...path, part.items.filter(({ to }) => to <= position).length], what: 'value', ...here, taken }
    }
    const taken = (but?: Entry) => part.entries.filter((entry) => entry !== but).map(({ key }) => key)
    const before = part.entries.findLast(({ from }) => from <= position)
    if (before && position <= before.to) {
      return { path, what: 'key', from: before.from, to: before.to, taken: taken(before) }
    }
    const isBehindValue = before?.value && position > before.value.to
    if (
      before &&
      before.colon >= 0 &&
      position > before.colon &&
      !isBehindValue &&
      !/,/.test(before.value ? '' : text.slice(before.colon, position))
    ) {
      return walk(before.value, [...path, before.key])
    }
    return { path, what: 'key', ...here, taken: taken() }
  }
  return walk(root, [])
}

const isClosed = ({ kind, to }: Part, text: string) => text[to - 1] === (kind === 'object' ? '}' : ']')
const unquoted = (text: string, { from, to }: Part) => text.slice(from, to).replaceAll('"', '')

function wordStart(text: string, position: number): number {
  let from = position
  while (from > 0 && /[\w$.+\-"]/.test(text[from - 1]!)) from--
  return from
}

/** Returns the part at a path. */
export const partAt = (root: Part | undefined, path: Path): Part | undefined =>
  path.reduce<Part | undefined>(
    (part, step) =>
      typeof step === 'number' ? part?.items[step] : part?.entries.findLast(({ key }) => key === step)?.value,
    root,
  )
