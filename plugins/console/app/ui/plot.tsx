import { lazy, Suspense } from 'preact/compat'
import type { PlotProps } from './uplot.js'

export type { Axis, PlotHandle, PlotProps, Series } from './uplot.js'

const UPlot = lazy(() => import('./uplot.js'))

/** A plot of numbers. The library is loaded when the first one is shown. */
export function Plot(props: PlotProps) {
  return (
    <Suspense fallback={<p class="wait">Loading …</p>}>
      <UPlot {...props} />
    </Suspense>
  )
}
