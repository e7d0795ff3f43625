type Attributes = Readonly<Record<string, string | number>>

/** An element of SVG or HTML. @param content escaped already */
export function element(name: string, attributes: Attributes, ...content: readonly string[]): string {
  const given = Object.entries(attributes).map(([key, value]) => ` ${key}="${escape(shown(value))}"`)
  return `<${name}${given.join('')}>${content.join('')}</${name}>`
}

export const escape = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

/** A tenth of a pixel is enough. */
const shown = (value: string | number): string =>
  typeof value === 'number' ? String(Math.round(value * 10) / 10) : value

export interface Chart {
  /** What it shows, for who cannot see it. */
  readonly title: string
  readonly description: string
  readonly height: number
}

/** How wide every picture is drawn; shown, it is as wide as there is room. */
export const WIDTH = 440

/** A picture that shrinks and grows with the room that it has. */
export function chart({ title, description, height }: Chart, ...content: readonly string[]): string {
  const size = { viewBox: `0 0 ${WIDTH} ${height}` }
  return element(
    'div',
    { class: 'chart' },
    element(
      'svg',
      { role: 'img', 'aria-label': title, ...size },
      element('title', {}, escape(title)),
      element('desc', {}, escape(description)),
      ...content,
    ),
  )
}

interface Place {
  readonly x: number
  readonly y: number
}

export function text({ x, y }: Place, words: string, kind = '', most = Infinity): string {
  const cut = words.length > most ? `${words.slice(0, most - 1)}…` : words
  const whole = cut === words ? '' : element('title', {}, escape(words))
  return element('text', { x, y, class: kind }, whole, escape(cut))
}

export function line(from: Place, to: Place, kind: string): string {
  return element('line', { x1: from.x, y1: from.y, x2: to.x, y2: to.y, class: kind })
}

/** @param tip what a pointer over it is told */
export function bar(at: Place & { width: number; height: number }, kind: string, tip: string): string {
  const { x, y, width, height } = at
  return element(
    'rect',
    { x, y, width: Math.max(width, 1), height, rx: 2, class: kind },
    element('title', {}, escape(tip)),
  )
}

/** A line with ends, from the least to the most. */
export function whisker(from: number, to: number, y: number): string {
  const end = 4
  return [
    line({ x: from, y }, { x: to, y }, 'whisker'),
    line({ x: from, y: y - end }, { x: from, y: y + end }, 'whisker'),
    line({ x: to, y: y - end }, { x: to, y: y + end }, 'whisker'),
  ].join('')
}
