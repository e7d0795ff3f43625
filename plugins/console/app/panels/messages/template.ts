import { textAt } from '../../json.js'
import { Failure } from '../../api.js'
import type { Place } from '../../ui/editor.js'

/** Path of the endpoint of stored templates. */
export const TEMPLATES = '/v1/send/template'

const PARTS = ['subject', 'text', 'html'] as const
export type Part = (typeof PARTS)[number]

/** A template while it is edited. An empty text or HTML is absent. */
export interface Draft {
  readonly name: string
  readonly subject: string
  readonly text: string
  readonly html: string
  readonly comment: string
}

export const EMPTY: Draft = { name: '', subject: '', text: '', html: '', comment: '' }
export const FIRST: Draft = {
  name: '',
  subject: 'Welcome, {{ name }}',
  text: 'Hello {{ name }}.\n',
  html: '<p>Hello <b>{{ name }}</b>.</p>\n',
  comment: '',
}

/** Returns the body of a request. */
export const bodyOf = ({ subject, text, html }: Draft) => ({
  subject,
  text: text === '' ? null : text,
  html: html === '' ? null : html,
})

/** What is wrong with a template, and where if that is known. */
export interface TemplateProblem {
  readonly failure: unknown
  readonly part?: Part
  readonly place?: Place
}

const PLACED = /^(subject|text|html)(?: of template "[^"]*")?(?:, line (\d+), column (\d+))?: ([^]*)$/
const FIELD = /^Error in \$\.(subject|text|html): ([^]*)$/

/** Finds the place of an error in the part of a template that the server names. */
export function problemOf(failure: unknown, draft: Draft): TemplateProblem {
  const said = failure instanceof Failure ? (textAt(failure.body, 'message') ?? '') : ''
  const [, part, line, column, message] = PLACED.exec(said) ?? []
  if (part !== undefined) {
    const text = draft[part as Part]
    const from = line === undefined ? 0 : offsetOf(text, Number(line), Number(column))
    return { failure, part: part as Part, place: { from, to: endOf(text, from), message: message ?? '' } }
  }
  const [, field, what = ''] = FIELD.exec(said) ?? []
  if (field === undefined) return { failure }
  return { failure, part: field as Part, place: { from: 0, to: draft[field as Part].length, message: what } }
}

/** @param line from 1 @param column from 1 */
function offsetOf(text: string, line: number, column: number): number {
  const before = text.split('\n').slice(0, line - 1)
  return before.reduce((sum, each) => sum + each.length + 1, 0) + column - 1
}

/** Returns the end of the tag or output at an offset. */
function endOf(text: string, from: number): number {
  const length = /^\{[{%][^]*?[}%]\}/.exec(text.slice(from))?.[0].length
  return length === undefined ? text.length : from + length
}

/** Words of Liquid that are no variables. */
const WORDS = new Set(
  'true false nil null empty blank and or not contains in reversed limit offset forloop with as'.split(' '),
)

/** Returns the names of the variables in a template that get their values from outside. */
export function variablesOf(draft: Draft): readonly string[] {
  const used = new Set<string>()
  for (const part of PARTS) {
    const own = new Set<string>()
    const source = draft[part].replaceAll(/\{%-?\s*(raw|comment)\s*-?%\}[^]*?\{%-?\s*end\1\s*-?%\}/g, '')
    for (const [, output, tag, rest] of source.matchAll(/\{\{([^]*?)\}\}|\{%-?\s*(\w+)([^]*?)%\}/g)) {
      const [, defined] = /^\s*([\w-]+)\s+in\b|^\s*([\w-]+)\s*=/.exec(rest ?? '')?.filter((each) => each) ?? []
      if ((tag === 'for' || tag === 'assign') && defined !== undefined) own.add(defined)
      for (const name of namesIn(output ?? rest ?? '')) if (!own.has(name)) used.add(name)
    }
  }
  return [...used].slice(0, 100)
}

/** Returns the identifiers of an expression but for its properties, filters and the names of their arguments. */
function namesIn(expression: string): readonly string[] {
  const plain = expression.replaceAll(/"[^"]*"|'[^']*'/g, ' ').replaceAll(/\|\s*\w+\s*:?/g, ' ')
  return [...plain.matchAll(/(?<![.\w-])[A-Za-z_][\w-]*(?![\w-]|\s*:)/g)]
    .map(([name]) => name)
    .filter((name) => !WORDS.has(name))
}
