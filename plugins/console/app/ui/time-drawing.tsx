import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { clockText } from '../time.js'

export interface TimeSeries {
  readonly label: string
  /** Name of a property in tokens.css. */
  readonly colour: string
  /** null where the line has a gap. */
  readonly values: readonly (number | null)[]
}

export interface TimePlotProps {
  /** What the plot shows, in words. */
  readonly label: string
  /** Seconds since 1970, ascending. */
  readonly times: readonly number[]
  readonly series: readonly TimeSeries[]
  readonly format: (value: number) => string
  /** Lowest end of the axis. */
  readonly atLeast?: number
  /** Called with the index of the time under the pointer, of this plot or of another. */
  readonly onPoint?: (index: number | undefined) => void
}

/** The plot itself. Only `ui/time-plot.tsx` imports it, because its library is loaded when it is needed. */
export default function TimeDrawing(props: TimePlotProps) {
  const { label, times, series } = props
  const box = useRef<HTMLDivElement>(null)
  const made = useRef<uPlot>(undefined)
  const latest = useRef(props)
  latest.current = props
  const data = [times, ...series.map(({ values }) => values)] as uPlot.AlignedData
  const shape = series.map((each) => each.label).join('\n')

  useEffect(() => {
    const element = box.current!
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    const draw = () => {
      made.current?.destroy()
      const { current } = latest
      const values = [current.times, ...current.series.map((each) => each.values)] as uPlot.AlignedData
      made.current = new uPlot(optionsFor(latest, element), values, element)
    }
    draw()
    const watch = new ResizeObserver(() => made.current?.setSize(sizeOf(element)))
    watch.observe(element)
    scheme.addEventListener('change', draw)
    return () => {
      watch.disconnect()
      scheme.removeEventListener('change', draw)
      made.current?.destroy()
    }
  }, [shape])

  useEffect(() => {
    if (made.current?.data[0] !== times) made.current?.setData(data)
  }, [times, series])
  return <div class="time-plot" ref={box} role="img" aria-label={label} />
}

const sizeOf = ({ clientWidth, clientHeight }: HTMLElement) => ({
  width: Math.max(120, clientWidth),
  height: Math.max(80, clientHeight),
})

const SHORTEST_SECONDS = 60

function optionsFor(latest: { readonly current: TimePlotProps }, element: HTMLElement): uPlot.Options {
  const style = getComputedStyle(element)
  const colour = (name: string) => style.getPropertyValue(name).trim()
  const axis: uPlot.Axis = {
    stroke: colour('--soft'),
    font: `11px ${style.fontFamily}`,
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
  }
  return {
    ...sizeOf(element),
    padding: [8, 26, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: 'time' }, drag: { x: false, y: false }, y: false },
    scales: {
      // The range of uPlot is a day long for a single time.
      x: { time: true, range: () => rangeOf(latest.current.times) },
      y: { range: (_plot, _min, max) => [0, Math.max(latest.current.atLeast ?? 1, max) * 1.1] },
    },
    axes: [
      {
        ...axis,
        size: 28,
        gap: 6,
        space: 75,
        values: (_plot, splits) => splits.map((seconds) => clockText(seconds * 1000)),
      },
      { ...axis, size: 58, space: 30, values: (_plot, splits) => splits.map((each) => latest.current.format(each)) },
    ],
    series: [
      {},
      ...latest.current.series.map(({ label, colour: name }) => ({
        label,
        stroke: colour(name),
        width: 1.5,
        points: { show: (plot: uPlot) => plot.data[0].length < 3 },
      })),
    ],
    hooks: { setCursor: [({ cursor }) => latest.current.onPoint?.(cursor.idx ?? undefined)] },
  }
}

function rangeOf(times: readonly number[]): [number, number] {
  const last = times.at(-1) ?? Date.now() / 1000
  return [Math.min(times[0] ?? last, last - SHORTEST_SECONDS), last]
}
