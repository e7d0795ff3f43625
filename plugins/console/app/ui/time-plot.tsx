import { lazy, Suspense } from 'preact/compat'
import type { TimePlotProps } from './time-drawing.js'

export type { TimeSeries } from './time-drawing.js'

const Drawing = lazy(() => import('./time-drawing.js'))

/** A plot of numbers over time, to which more are added while it is shown. Its library is loaded with the first one. */
export function TimePlot(props: TimePlotProps) {
  return (
    <Suspense fallback={<div class="time-plot" />}>
      <Drawing {...props} />
    </Suspense>
  )
}
