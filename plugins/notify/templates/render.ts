import { Context, type Emitter, LiquidError, type Template, toValueSync } from 'liquidjs'
import { type ServiceError, serviceError } from 'rowhouse'
import { htmlEngine, MAX_OUTPUT, MAX_SOURCE, MAX_TAGS, Output, plainEngine, renderLimit } from './engine.js'
import { headerProblem, MAX_SUBJECT } from '../mailbox.js'

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

/** Renders a parsed template. */
export type Parsed = (content: readonly Content[]) => Rendered

const plain = plainEngine()
const html = htmlEngine()

/**
 * @param suffix follows the name of the part in errors, e.g. ` of template "welcome"`
 * @returns a function that renders the template. It throws a ServiceError 400 `invalid_payload` for a variable without a
 * value, a subject with a line break, and output that takes too long or is too large
 * @throws ServiceError 400 `invalid_payload` with the line of a syntax error, or of a tag or filter that is not allowed
 */
export function parseTemplate(source: Source, suffix = ''): Parsed {
  const subject = parsePart('subject', source.subject, suffix, MAX_SUBJECT)
  const text = source.text === null ? undefined : parsePart('text', source.text, suffix, MAX_OUTPUT)
  const body = source.html === null ? undefined : parsePart('html', source.html, suffix, MAX_OUTPUT)
  return (content) => ({
    subject: subject(content),
    text: text?.(content),
    html: body?.(content),
  })
}

type Part = 'subject' | 'text' | 'html'

function parsePart(
  part: Part,
  source: string,
  suffix: string,
  maxLength: number,
): (content: readonly Content[]) => string {
  const liquid = part === 'html' ? html : plain
  const label = `${part}${suffix}`
  if (source.length > MAX_SOURCE) throw badTemplate(`${label}: longer than ${MAX_SOURCE} characters`)
  if (source.split(/\{[{%]/, MAX_TAGS + 2).length > MAX_TAGS + 1) {
    throw badTemplate(`${label}: more than ${MAX_TAGS} tags and outputs`)
  }
  const parsed = withLabel(label, () => liquid.parse(source))
  return (content) =>
    withLabel(label, () => {
      const output = part === 'subject' ? new Line(maxLength) : new Output(maxLength)
      return render(parsed, content, output, liquid)
    })
}

function render(parsed: Template[], content: readonly Content[], output: Emitter, liquid: typeof plain): string {
  // Without a prototype, so that a variable named "constructor" exists only if it is in `content`.
  const values = Object.create(null) as Record<string, string>
  for (const { name, content: value } of content) values[name] = value
  const limits = { liquid, renderLimit: renderLimit() as never }
  const context = new Context(values, liquid.options, { sync: true }, limits)
  toValueSync(liquid.renderer.renderTemplates(parsed, context, output))
  return output.buffer
}

/** Collects a subject, which must be valid in a header. */
class Line extends Output {
  override write(part: unknown): void {
    super.write(part)
    const problem = headerProblem(this.buffer)
    if (problem !== undefined) throw new Error(`a subject must not have ${problem}`)
  }
}

/** Adds the part, the line and the column to an error. */
function withLabel<T>(label: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    const deep = /call stack/.test(message) ? 'nested too deep' : undefined
    if (!LiquidError.is(error)) throw badTemplate(`${label}: ${deep ?? message}`, error)
    const [line, column] = error.token.getPosition()
    const what = deep ?? message.replace(/, line:\d+, col:\d+$/, '')
    throw badTemplate(`${label}, line ${line}, column ${column}: ${what}`, error)
  }
}

const badTemplate = (message: string, cause?: unknown): ServiceError =>
  serviceError('invalid_payload', message, '$', { cause })
