import { isObject, type Json, type JsonObject, textAt, textOf } from '../../json.js'

/** Levels of log lines, the least important first. */
export const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'] as const
export type Level = (typeof LEVELS)[number]

/** Maximum number of lines that are kept. */
const MAX_LINES = 1000
const MAX_CHARACTERS = 4000
/** Of a level and a time. */
const MAX_SHORT = 30

export interface NumberedLine {
  readonly number: number
  readonly line: JsonObject
}

/** The answer of `log_lines`. */
export interface LogAnswer {
  readonly server: string
  readonly last: number
  readonly lines: readonly NumberedLine[]
}

/** Lines of one server, the oldest first. */
export interface LogState {
  readonly server: string
  /** Number of the last line that was read. */
  readonly last: number
  readonly lines: readonly NumberedLine[]
}

/** Returns the state with the lines of an answer. A server that started again begins anew. */
export function added(state: LogState | undefined, { server, last, lines }: LogAnswer): LogState {
  const isSame = state?.server === server
  const known = isSame ? state.lines : []
  const newest = isSame ? state.last : 0
  const fresh = lines.filter(({ number }) => number > newest)
  return { server, last, lines: fresh.length === 0 ? known : [...known, ...fresh].slice(-MAX_LINES) }
}

/** What a line shows. All of it is text from elsewhere. */
interface Shown {
  readonly level: string
  readonly time: string
  readonly message: string
  /** All other fields, as `key=value`. */
  readonly rest: string
  /** Stack of an error. */
  readonly stack: string
}

export function shownOf({ level, time, msg, err, ...rest }: JsonObject): Shown {
  const error = isObject(err) ? err : {}
  const { stack, ...others } = error
  const fields = Object.entries({ ...rest, ...(Object.keys(others).length > 0 ? { err: others } : {}) })
  return {
    level: visible(textOf(level), MAX_SHORT),
    time: visible(textOf(time), MAX_SHORT),
    message: visible(msg === undefined ? (textAt(error, 'message') ?? '') : textOf(msg)),
    rest: visible(fields.map(([key, value]) => `${key}=${quoted(value)}`).join(' ')),
    stack: visible(textOf(stack)),
  }
}

const quoted = (value: Json | undefined): string => {
  const text = textOf(value)
  return typeof value === 'string' && /[\s"=]/.test(value) ? JSON.stringify(value) : text
}

/** Shows characters that are invisible or change the direction as their code, and cuts what is very long. */
function visible(text: string, most = MAX_CHARACTERS): string {
  const cut = text.length > most ? `${text.slice(0, most)}…` : text
  return cut.replaceAll(HIDDEN, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

const HIDDEN = /(?![\t\n])[\p{Cc}\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu

/** Returns the lines of at least a level that contain a text in any case. */
export function matching(lines: readonly NumberedLine[], level: Level, text: string): readonly NumberedLine[] {
  const from = LEVELS.indexOf(level)
  const wanted = text.trim().toLowerCase()
  return lines.filter(
    ({ line }) =>
      LEVELS.indexOf(textOf(line['level']) as Level) >= from &&
      (wanted === '' || JSON.stringify(line).toLowerCase().includes(wanted)),
  )
}
