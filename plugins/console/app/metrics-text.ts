/** A number of `/metrics`. */
export interface Metric {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** Parses the text format of Prometheus. Lines that are not in this format are left out. */
export function parseMetrics(text: string): readonly Metric[] {
  return text.split('\n').flatMap((line) => {
    const [, name, labels = '', number] = LINE.exec(line) ?? []
    if (name === undefined || number === undefined) return []
    const value = NAMED[number] ?? Number(number)
    const isNumber = !Number.isNaN(value) || number === 'NaN'
    return isNumber ? [{ name, labels: labelsOf(labels), value }] : []
  })
}

/** Name, labels, value, and perhaps a time. A value of a label may contain braces. */
const LINE = /^([A-Za-z_:][\w:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*\r?$/
const LABEL = /([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"/g
const NAMED: Readonly<Record<string, number>> = { '+Inf': Infinity, '-Inf': -Infinity, NaN: Number.NaN }

const labelsOf = (text: string): Readonly<Record<string, string>> =>
  Object.fromEntries([...text.matchAll(LABEL)].map(([, name, value]) => [name!, unescaped(value!)]))

const unescaped = (text: string): string => text.replaceAll(/\\(.)/g, (_, next: string) => (next === 'n' ? '\n' : next))
