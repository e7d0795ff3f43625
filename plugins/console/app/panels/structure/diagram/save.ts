import type { Placed } from './graph.js'

/** Saves a drawing as a file of its own: the colours of the page are written into it. */
export function saveSvg(drawing: SVGGElement, { width, height }: Placed): void {
  const margin = 24
  const copy = drawing.cloneNode(true) as SVGGElement
  copy.removeAttribute('transform')
  for (const each of copy.querySelectorAll('[tabindex]'))
    for (const name of ['tabindex', 'role', 'aria-pressed', 'aria-label', 'class', 'opacity'])
      each.removeAttribute(name)
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg')
  svg.setAttribute('viewBox', [-margin, -margin, width + 2 * margin, height + 2 * margin].map(Math.round).join(' '))
  svg.setAttribute('font-family', 'system-ui, sans-serif')
  svg.append(background(width + 2 * margin, height + 2 * margin, margin), copy)
  const styles = getComputedStyle(document.documentElement)
  const text = new XMLSerializer()
    .serializeToString(svg)
    .replaceAll(/="var\((--\w+)\)"/g, (_, name: string) => `="${styles.getPropertyValue(name).trim()}"`)
    // What XML cannot contain, even in names of tables.
    .replaceAll(/[^\P{Cc}\t\n\r]|[\ufffe\uffff]/gu, '\ufffd')
  const url = URL.createObjectURL(new Blob([text], { type: 'image/svg+xml' }))
  Object.assign(document.createElement('a'), { href: url, download: 'tables.svg' }).click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}

function background(width: number, height: number, margin: number): SVGRectElement {
  const rect = document.createElementNS('http://www.w3.org/2000/svg', 'rect')
  const attributes = { x: -margin, y: -margin, width, height, fill: 'var(--paper)' }
  for (const [name, value] of Object.entries(attributes)) rect.setAttribute(name, String(value))
  return rect
}
