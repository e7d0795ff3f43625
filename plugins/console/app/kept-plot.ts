import type { Choice } from './ui/figures.js'

const keyOf = (template: string): string => `rowhouse-plot-${template}`

/** Returns the plot that this browser keeps for a template, if there is one. */
export function keptPlot(template: string): Choice | undefined {
  return (JSON.parse(localStorage.getItem(keyOf(template)) ?? 'null') as Choice | null) ?? undefined
}

/** Keeps the plot of a template in this browser, until its user signs out. */
export function keepPlot(template: string, plot: Choice): void {
  localStorage.setItem(keyOf(template), JSON.stringify(plot))
}
