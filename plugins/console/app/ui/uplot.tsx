import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'

export interface Axis {
  readonly label: string
  /** Ascending: seconds since 1970, numbers, or positions of `names`. */
  readonly values: readonly number[]
  readonly scale: 'time' | 'number' | 'names'
  readonly names?: readonly string[]
}

export interface Series {
  readonly label: string
  readonly values: readonly (number | null)[]
}

export interface PlotProps {
  readonly label: string
  readonly kind: 'line' | 'bar' | 'scatter'
  readonly x: Axis
  readonly series: readonly Series[]
  /** Receives the plot, to save it as a picture. */
  readonly handle?: (plot: PlotHandle) => void
}

export interface PlotHandle {
  picture(): Promise<Blob | null>
}

/** Colours of the series, as names of properties in tokens.css. */
const COLOURS = ['--brick', '--busy', '--good', '--odd', '--acting', '--soft']

/** The plot itself. Only `ui/plot.tsx` imports it, because its library is loaded when it is needed. Times are in UTC. */
export default function Drawing(props: PlotProps) {
  const box = useRef<HTMLDivElement>(null)
  const { label, kind, x, series, handle } = props
  useEffect(() => {
    const element = box.current!
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    let made: uPlot | undefined
    const draw = () => {
      made?.destroy()
      made = new uPlot(
        optionsFor(props, element),
        [x.values as number[], ...series.map(({ values }) => values as number[])],
        element,
      )
    }
    draw()
    const watch = new ResizeObserver(() => made?.setSize(sizeOf(element)))
    watch.observe(element)
    scheme.addEventListener('change', draw)
    handle?.({ picture: () => pictureOf(made!, label, element) })
    return () => {
      watch.disconnect()
      scheme.removeEventListener('change', draw)
      made?.destroy()
    }
  }, [label, kind, x, series])
  return <div class="plot" ref={box} role="img" aria-label={`${label}: ${summary(props)}`} />
}

/** Height of the legend below the plot. */
const LEGEND_PX = 52

function sizeOf(element: HTMLElement): { readonly width: number; readonly height: number } {
  return { width: Math.max(120, element.clientWidth), height: Math.max(160, element.clientHeight - LEGEND_PX) }
}

function optionsFor({ kind, x, series }: PlotProps, element: HTMLElement): uPlot.Options {
  const colour = (name: string) => getComputedStyle(element).getPropertyValue(name).trim()
  const font = `12px ${getComputedStyle(element).fontFamily}`
  const axis = {
    stroke: colour('--soft'),
    font,
    labelFont: font,
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { stroke: colour('--line'), width: 1 },
  }
  const isLong = (x.names ?? []).some((name) => name.length > 6) && x.values.length > 5
  return {
    ...sizeOf(element),
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC'),
    scales: {
      x: { time: x.scale === 'time', range: (_plot, min, max) => padded(x, kind, min, max) },
      y: {
        range: (_plot, min, max) =>
          uPlot.rangeNum(kind === 'bar' ? Math.min(0, min) : min, kind === 'bar' ? Math.max(0, max) : max, 0.1, true),
      },
    },
    axes: [
      { ...axis, label: x.label, ...(x.scale === 'names' ? namesOf(x, isLong) : {}) },
      {
        ...axis,
        size: 64,
        label: series.length === 1 ? series[0]!.label : '',
        values: (_plot, splits) => splits.map(short),
      },
    ],
    series: [
      { label: x.label, value: (_plot, value) => (value === null ? '' : nameAt(x, value)) },
      ...series.map(({ label }, i) => drawn(kind, label, colour(COLOURS[i % COLOURS.length]!), x.values.length)),
    ],
    cursor: { drag: { x: true, y: false } },
  }
}

function drawn(kind: PlotProps['kind'], label: string, stroke: string, count: number): uPlot.Series {
  const value = (_plot: uPlot, found: number | null) => (found === null ? '' : LONG.format(found))
  const fill = `color-mix(in srgb, ${stroke} 45%, transparent)`
  if (kind === 'bar')
    return { label, value, stroke, fill, paths: uPlot.paths.bars!({ size: [0.75, 80] }), points: { show: false } }
  if (kind === 'scatter')
    return { label, value, stroke, paths: () => null, points: { show: true, size: count > 2000 ? 3 : 6, fill } }
  return { label, value, stroke, width: 2, points: { show: count < 100 } }
}

/** Leaves space at both ends: half a bar, or a little. */
function padded({ values, scale }: Axis, kind: PlotProps['kind'], min: number, max: number): [number, number] {
  if (scale === 'names') return [min - 0.6, max + 0.6]
  const gaps = kind === 'bar' ? values.slice(1).map((value, i) => value - values[i]!) : []
  const pad = gaps.length > 0 ? gaps.reduce((a, b) => Math.min(a, b)) * 0.6 : (max - min) * 0.02
  return pad > 0 ? [min - pad, max + pad] : [min - 1, max + 1]
}

const namesOf = (x: Axis, isLong: boolean): Partial<uPlot.Axis> => ({
  splits: (_plot, _axis, min, max) => {
    const shown = x.values.filter((value) => value >= min && value <= max)
    const step = Math.ceil(shown.length / 40)
    return shown.filter((_, i) => i % step === 0)
  },
  values: (_plot, splits) => splits.map((at) => cut(x.names?.[at] ?? '')),
  ...(isLong ? { rotate: -45, size: 92 } : {}),
})

const cut = (text: string) => (text.length > 14 ? `${text.slice(0, 13)}…` : text)
const LONG = new Intl.NumberFormat('en', { maximumFractionDigits: 6 })
const SHORT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 2 })
const short = (value: number | null) =>
  value === null ? '' : Math.abs(value) < 10_000 ? LONG.format(value) : SHORT.format(value)

const nameAt = ({ scale, names }: Axis, value: number): string =>
  scale === 'names'
    ? (names?.[value] ?? '')
    : scale === 'time'
      ? new Date(value * 1000).toISOString().slice(0, 16).replace('T', ' ').replace(' 00:00', '')
      : LONG.format(value)

/** Says in words what a plot shows, for those who do not see it. */
function summary({ kind, x, series }: PlotProps): string {
  const [first, last] = [x.values[0], x.values.at(-1)]
  if (first === undefined || last === undefined) return 'nothing'
  const ranges = series.map(({ label, values }) => {
    const given = values.filter((value) => value !== null)
    const min = given.reduce((a, b) => Math.min(a, b), Infinity)
    const max = given.reduce((a, b) => Math.max(a, b), -Infinity)
    return given.length === 0 ? label : `${label} from ${LONG.format(min)} to ${LONG.format(max)}`
  })
  return `${kind === 'scatter' ? 'points' : `${kind}s`}, ${x.label} from ${nameAt(x, first)} to ${nameAt(x, last)}, ${ranges.join(', ')}`
}

/** Draws the plot with a title on the colour of the page. */
function pictureOf({ ctx: { canvas: drawing } }: uPlot, label: string, element: HTMLElement): Promise<Blob | null> {
  const canvas = document.createElement('canvas')
  const scale = devicePixelRatio
  const head = 36 * scale
  canvas.width = drawing.width
  canvas.height = drawing.height + head
  const context = canvas.getContext('2d')!
  const style = getComputedStyle(element)
  context.fillStyle = style.getPropertyValue('--card').trim()
  context.fillRect(0, 0, canvas.width, canvas.height)
  context.fillStyle = style.getPropertyValue('--ink').trim()
  context.font = `600 ${15 * scale}px ${style.fontFamily}`
  context.fillText(label, 12 * scale, 23 * scale, canvas.width - 24 * scale)
  context.drawImage(drawing, 0, head)
  return new Promise((resolve) => canvas.toBlob(resolve, 'image/png'))
}
