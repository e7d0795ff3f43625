import { Context, type Emitter, LiquidError, type Template, toValueSync } from 'liquidjs'
import { type ServiceError, serviceError } from 'rowhouse'
import { htmlEngine, MOST_OUTPUT, MOST_SOURCE, MOST_TAGS, Output, plainEngine, renderLimit } from './engine.js'
import { headerProblem, MOST_SUBJECT } from '../mailbox.js'

/** A mail template in Liquid. At least one of `text` and `html` is present. */
export interface Source {
  readonly subject: string
  readonly text: string | null
  readonly html: string | null
}

/** A value for a variable of a template. */
export interface Content {
  readonly name: string
  readonly content: string
}

export interface Rendered {
  readonly subject: string
  readonly text?: string
  readonly html?: string
}

/** A parsed template, which can be rendered any number of times. */
export type Parsed = (content: readonly Content[]) => Rendered

const plain = plainEngine()
const html = htmlEngine()

/**
 * @param of follows the name of the part in errors, e.g. ` of template "welcome"`
 * @returns a function that renders the template, and throws a ServiceError 400 `invalid_payload` for a variable without
 * a value, a subject with a line break, and output that takes too long or is too large
 * @throws ServiceError 400 `invalid_payload` with the line of a syntax error, or of a tag or filter that is not allowed
 */
export function parseTemplate(source: Source, of = ''): Parsed {
  const subject = parsePart('subject', source.subject, of, MOST_SUBJECT)
  const text = source.text === null ? undefined : parsePart('text', source.text, of, MOST_OUTPUT)
  const body = source.html === null ? undefined : parsePart('html', source.html, of, MOST_OUTPUT)
  return (content) => ({
    subject: subject(content),
    ...(text ? { text: text(content) } : {}),
    ...(body ? { html: body(content) } : {}),
  })
}

type Part = 'subject' | 'text' | 'html'

function parsePart(part: Part, source: string, of: string, most: number): (content: readonly Content[]) => string {
  const liquid = part === 'html' ? html : plain
  const about = `${part}${of}`
  if (source.length > MOST_SOURCE) throw badTemplate(`${about}: longer than ${MOST_SOURCE} characters`)
  if (source.split(/\{[{%]/, MOST_TAGS + 2).length > MOST_TAGS + 1) {
    throw badTemplate(`${about}: more than ${MOST_TAGS} tags and outputs`)
  }
  const parsed = explained(about, () => liquid.parse(source))
  return (content) =>
    explained(about, () => {
      const output = part === 'subject' ? new Line(most) : new Output(most)
      return rendered(parsed, content, output, liquid)
    })
}

function rendered(parsed: Template[], content: readonly Content[], output: Emitter, liquid: typeof plain): string {
  // Without a prototype, so that a variable called "constructor" exists only if it was given.
  const values = Object.create(null) as Record<string, string>
  for (const { name, content: value } of content) values[name] = value
  const limits = { liquid, renderLimit: renderLimit() as never }
  const context = new Context(values, liquid.options, { sync: true }, limits)
  toValueSync(liquid.renderer.renderTemplates(parsed, context, output))
  return output.buffer
}

/** A header of a mail. */
class Line extends Output {
  override write(part: unknown): void {
    super.write(part)
    const problem = headerProblem(this.buffer)
    if (problem !== undefined) throw new Error(`a subject must not have ${problem}`)
  }
}

/** Adds the part, line and column to an error. */
function explained<T>(about: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    const deep = /call stack/.test(message) ? 'nested too deep' : undefined
    if (!LiquidError.is(error)) throw badTemplate(`${about}: ${deep ?? message}`, error)
    const [line, column] = error.token.getPosition()
    const what = deep ?? message.replace(/, line:\d+, col:\d+$/, '')
    throw badTemplate(`${about}, line ${line}, column ${column}: ${what}`, error)
  }
}

const badTemplate = (message: string, cause?: unknown): ServiceError =>
  serviceError('invalid_payload', message, '$', { cause })
