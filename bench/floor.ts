import { ratiosOf } from './ratios.js'
import type { Floor } from './result.js'
import type { Section } from './section.js'

/** Behind the name of a system that is the same build once more. */
export const AGAIN = ' again'

/** @returns undefined where nothing was measured twice */
export function floorOf(sections: readonly Section[]): Floor | undefined {
  const ratios = sections.flatMap((section) =>
    ratiosOf(section)
      .filter(({ system, against }) => against === `${system}${AGAIN}`)
      .map((ratio) => ({ section: section.id, ...ratio })),
  )
  if (ratios.length === 0) return undefined
  return { ratios, furthest: Math.max(...ratios.flatMap(({ low, high }) => [Math.abs(low - 1), Math.abs(high - 1)])) }
}
