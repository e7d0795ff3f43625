import { defaultOperators, type Emitter, Liquid, type LiquidOptions } from 'liquidjs'
import { escapeHtml } from 'rowhouse'

/** Maximum characters of one part of a template. Mail clients truncate messages longer than about this. */
export const MAX_SOURCE = 131_072
/** Maximum tags and outputs of one part. Parsing time grows with the square of their number. */
export const MAX_TAGS = 2_000
/** Maximum characters of one part after rendering. */
export const MAX_OUTPUT = 1_048_576
/** Maximum characters and list members that filters and ranges create while one part is rendered. */
const MAX_MEMORY = 2_000_000
const MAX_RENDER_MS = 250

/** Allowed tags and filters. None reads files or other templates, and all have limits. */
const TAGS: ReadonlySet<string> = new Set(['assign', 'case', 'comment', 'for', 'if', 'raw', 'unless'])
const FILTERS: ReadonlySet<string> = new Set([
  'append',
  'capitalize',
  'date',
  'default',
  'divided_by',
  'downcase',
  'first',
  'join',
  'last',
  'minus',
  'modulo',
  'plus',
  'prepend',
  'remove',
  'replace',
  'reverse',
  'round',
  'size',
  'split',
  'strip',
  'times',
  'truncate',
  'upcase',
  'url_encode',
])

const OPTIONS: LiquidOptions = {
  // Instead of the file system.
  templates: {},
  strictVariables: true,
  strictFilters: true,
  // With `if name` and `name | default: ""` a variable may be missing.
  lenientIf: true,
  ownPropertyOnly: true,
  timezoneOffset: 0,
  locale: 'en-US',
  parseLimit: MAX_SOURCE,
  memoryLimit: MAX_MEMORY,
  operators: timed(),
}

/** For subjects and plain text: values are not escaped. */
export function plainEngine(): Liquid {
  return engine(printed)
}

/** For HTML: every value is escaped, and a template cannot prevent it. */
export function htmlEngine(): Liquid {
  const liquid = engine((value) => escapeHtml(printed(value)))
  // Escapes the value itself, so that its own tags are not escaped, unless another filter follows.
  liquid.registerFilter('newline_to_br', {
    raw: true,
    handler: (value: unknown) => escapeHtml(printed(value)).replaceAll(/\r?\n/g, '<br>\n'),
  })
  return liquid
}

/**
 * Limits the time to render one part. Time that other processes take from this one does not count, so that a busy machine refuses
 * no template.
 * @returns what the library takes for its own limit
 */
export function renderLimit(): { check(): void; use(): void } {
  const began = performance.now()
  const used = process.cpuUsage()
  return {
    check() {
      if (performance.now() - began <= MAX_RENDER_MS) return
      const { user, system } = process.cpuUsage(used)
      if ((user + system) / 1000 > MAX_RENDER_MS) throw new Error('template render limit exceeded')
    },
    use() {},
  }
}

function engine(outputEscape: (value: unknown) => string): Liquid {
  const liquid = new Liquid({ ...OPTIONS, outputEscape })
  for (const name in liquid.tags) if (!TAGS.has(name)) delete liquid.tags[name]
  for (const name in liquid.filters) if (!FILTERS.has(name)) delete liquid.filters[name]
  return liquid
}

/** Checks the time at each comparison. The library checks it only between tags, and a condition may have thousands. */
function timed(): typeof defaultOperators {
  const all = Object.entries(defaultOperators).map(([name, operator]) => {
    const compare = operator as (...operands: unknown[]) => unknown
    const checked = (...operands: unknown[]): unknown => {
      // The last operand is the context.
      const { renderLimit } = operands.at(-1) as { renderLimit: { check(): void } }
      renderLimit.check()
      return compare(...operands)
    }
    return [name, checked]
  })
  return Object.fromEntries(all) as typeof defaultOperators
}

/** Collects the output of a template, up to a limit. */
export class Output implements Emitter {
  buffer = ''

  constructor(private readonly maxLength: number) {}

  write(part: unknown): void {
    const text = printed(part)
    if (this.buffer.length + text.length > this.maxLength) throw new Error(`longer than ${this.maxLength} characters`)
    this.buffer += text
  }
}

function printed(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (Array.isArray(value)) return value.map(printed).join('')
  return typeof value === 'object' ? '' : String(value as string | number | boolean)
}
