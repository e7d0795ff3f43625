import { send } from '../../api.js'
import { isObject, type Json, type JsonObject, parse, textAt } from '../../json.js'
import type { GridRow } from '../../ui/grid.js'

/** An answer, or what has arrived of it. */
export interface Answer {
  readonly state: 'reading' | 'complete' | 'stopped' | 'capped' | 'broken'
  /** The whole answer; rows that are still arriving. */
  readonly json: Json
  /** The rows of the answer, if it has some. */
  readonly rows: readonly GridRow[] | undefined
  /** Bytes of the answer as JSON, uncompressed. */
  readonly bytes: number
  readonly ms: number
  /** Whether the server rolled it back. */
  readonly isDry: boolean
}

/** Maximum rows and bytes of an answer that are kept. */
export const MOST_ROWS = 100_000
const MOST_BYTES = 64 * 1024 * 1024
const SHOW_EVERY_MS = 250

/**
 * Asks, and shows what arrives. A dry run is rolled back. Rows of a select are read line by line, so that an answer of any size can be stopped.
 * @throws Failure
 */
export async function run(
  text: string,
  type: string,
  isDry: boolean,
  abort: AbortSignal,
  show: (answer: Answer) => void,
): Promise<void> {
  const reading = new AbortController()
  const stop = () => reading.abort()
  abort.addEventListener('abort', stop)
  const start = performance.now()
  const isRows = type === 'select'
  try {
    const response = await send('/v1/query', {
      method: 'POST',
      body: text,
      headers: {
        'Content-Type': 'application/json',
        ...(isRows ? { Accept: 'application/x-ndjson' } : {}),
        ...(isDry ? { Prefer: 'tx=rollback' } : {}),
      },
      signal: reading.signal,
    })
    const isLines = response.headers.get('Content-Type')?.startsWith('application/x-ndjson') ?? false
    let bytes = 0
    let shownAt = start
    let rest = ''
    const rows: GridRow[] = []
    const parts: string[] = []
    const answer = (state: Answer['state'], json: Json = rows as Json): Answer => ({
      state,
      json,
      rows: isLines ? rows : rowsOf(json),
      bytes,
      ms: performance.now() - start,
      isDry: response.headers.get('Preference-Applied') === 'tx=rollback',
    })
    const decoder = new TextDecoder()
    const reader = response.body!.getReader()
    let state: Answer['state'] = 'complete'
    try {
      for (;;) {
        const { done, value } = await reader.read()
        if (done) break
        bytes += value.byteLength
        const chunk = decoder.decode(value, { stream: true })
        if (isLines) {
          const lines = (rest + chunk).split('\n')
          rest = lines.pop()!
          for (const line of lines) if (line !== '' && rows.length < MOST_ROWS) rows.push(parse(line) as GridRow)
        } else parts.push(chunk)
        if (rows.length >= MOST_ROWS || bytes > MOST_BYTES) {
          state = 'capped'
          reading.abort()
          break
        }
        if (isLines && performance.now() - shownAt > SHOW_EVERY_MS) {
          shownAt = performance.now()
          show(answer('reading'))
          await new Promise((resolve) => setTimeout(resolve))
        }
      }
    } catch (error) {
      if (!isLines && !abort.aborted) throw error
      state = abort.aborted ? 'stopped' : 'broken'
    }
    if (isLines) {
      if (state === 'complete' && rest.trim() !== '') rows.push(parse(rest) as GridRow)
      show(answer(state))
    } else if (state === 'complete') show(answer(state, parts.length === 0 ? null : parse(parts.join(''))))
    else if (state === 'capped') show(answer(state, `The answer has more than ${MOST_BYTES / 1024 / 1024} MiB.`))
  } finally {
    abort.removeEventListener('abort', stop)
  }
}

/** Finds the rows of an answer: those of a list, those that a write returns, and those of SQL. */
function rowsOf(json: Json): readonly GridRow[] | undefined {
  if (Array.isArray(json)) {
    const list = json as readonly Json[]
    if (list.every(isObject)) return list as readonly GridRow[]
    return list.every((each) => !Array.isArray(each)) ? list.map((value) => ({ value })) : undefined
  }
  if (!isObject(json)) return json === null ? undefined : [{ value: json }]
  if (Array.isArray(json['returning'])) return rowsOf(json['returning'] as Json)
  if (textAt(json, 'result_type') !== undefined) return sqlRows(json)
  return Object.values(json).some((value) => typeof value === 'object' && value !== null) ? undefined : [json]
}

function sqlRows({ result }: JsonObject): readonly GridRow[] | undefined {
  const [names, ...cells] = (result ?? []) as readonly (readonly string[])[]
  if (!names) return undefined
  const keys = names.map((name, i) => (names.indexOf(name) === i ? name : `${name} (${i + 1})`))
  return cells.map((row) => Object.fromEntries(keys.map((key, i) => [key, row[i]])))
}
