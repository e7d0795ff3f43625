import { useState } from 'preact/hooks'
import { clockText } from '../../time.js'
import { TimePlot, type TimeSeries } from '../../ui/time-plot.js'
import { bytes, duration, number } from './format.js'
import type { Point } from './history.js'

interface Line {
  readonly label: string
  readonly colour: string
  readonly valueOf: (point: Point) => number | undefined
}

interface Chart {
  readonly title: string
  readonly format: (value: number) => string
  readonly atLeast: number
  readonly lines: readonly Line[]
}

const CHARTS: readonly Chart[] = [
  {
    title: 'Requests per second',
    format: number,
    atLeast: 1,
    lines: [
      { label: '2xx', colour: '--good', valueOf: ({ rates }) => rates?.requests['2xx'] },
      { label: '3xx', colour: '--busy', valueOf: ({ rates }) => rates?.requests['3xx'] },
      { label: '4xx', colour: '--odd', valueOf: ({ rates }) => rates?.requests['4xx'] },
      { label: '5xx', colour: '--bad', valueOf: ({ rates }) => rates?.requests['5xx'] },
    ],
  },
  {
    title: 'Latency',
    format: duration,
    atLeast: 0.01,
    lines: [
      { label: 'p50', colour: '--busy', valueOf: ({ rates }) => rates?.p50 },
      { label: 'p99', colour: '--brick', valueOf: ({ rates }) => rates?.p99 },
    ],
  },
  {
    title: 'Connections for requests',
    format: number,
    atLeast: 4,
    lines: [
      { label: 'in use', colour: '--brick', valueOf: ({ sample }) => sample?.connections['busy'] },
      { label: 'idle', colour: '--good', valueOf: ({ sample }) => sample?.connections['idle'] },
      { label: 'requests that wait', colour: '--odd', valueOf: ({ sample }) => sample?.connections['waiting'] },
    ],
  },
  {
    title: 'Compile workers',
    format: number,
    atLeast: 2,
    lines: [
      { label: 'busy', colour: '--brick', valueOf: ({ sample }) => sample?.compiling['busy'] },
      { label: 'requests that wait', colour: '--odd', valueOf: ({ sample }) => sample?.compiling['waiting'] },
    ],
  },
  {
    title: 'Event loop delay',
    format: duration,
    atLeast: 0.02,
    lines: [
      { label: 'mean', colour: '--busy', valueOf: ({ sample }) => sample?.lagMean },
      { label: 'p99', colour: '--brick', valueOf: ({ sample }) => sample?.lagP99 },
    ],
  },
  {
    title: 'Processors in use',
    format: number,
    atLeast: 0.5,
    lines: [{ label: 'processors', colour: '--brick', valueOf: ({ rates }) => rates?.cpu }],
  },
  {
    title: 'Memory',
    format: bytes,
    atLeast: 1e6,
    lines: [
      { label: 'process', colour: '--brick', valueOf: ({ sample }) => sample?.memory },
      { label: 'heap', colour: '--busy', valueOf: ({ sample }) => sample?.heap },
    ],
  },
  {
    title: 'Outbox: messages not sent',
    format: number,
    atLeast: 4,
    lines: [
      { label: 'queued', colour: '--busy', valueOf: ({ sample }) => sample?.outbox?.['queued'] },
      { label: 'sending', colour: '--good', valueOf: ({ sample }) => sample?.outbox?.['sending'] },
      { label: 'failed', colour: '--bad', valueOf: ({ sample }) => sample?.outbox?.['failed'] },
      { label: 'unknown', colour: '--odd', valueOf: ({ sample }) => sample?.outbox?.['unknown'] },
    ],
  },
]

/** The plots of all figures that the server has. The pointer shows the values of the same time in all of them. */
export function Plots({ points }: { readonly points: readonly Point[] }) {
  const times = points.map(({ at }) => at / 1000)
  return (
    <div class="plots">
      {CHARTS.map((chart) => (
        <Plotted key={chart.title} chart={chart} points={points} times={times} />
      ))}
    </div>
  )
}

function Plotted({
  chart: { title, lines, format, atLeast },
  points,
  times,
}: {
  readonly chart: Chart
  readonly points: readonly Point[]
  readonly times: readonly number[]
}) {
  const [pointed, setPointed] = useState<number>()
  const series: readonly TimeSeries[] = lines.map(({ label, colour, valueOf }) => ({
    label,
    colour,
    values: points.map((point) => valueOf(point) ?? null),
  }))
  if (
    series.every(({ values }) => values.at(-1) === null && values.every((value) => value === null)) &&
    times.length > 5
  )
    return null
  const index = pointed !== undefined && pointed < times.length ? pointed : times.length - 1
  const shown = series.map(({ label, colour, values }) => ({ label, colour, text: said(values[index], format) }))
  const words = shown.map(({ label, text }) => `${label} ${text}`).join(', ')
  return (
    <section class="plot-card">
      <header>
        <h2>{title}</h2>
        <span class="soft">{index === times.length - 1 ? '' : clockText(times[index]! * 1000)}</span>
      </header>
      <TimePlot
        label={`${title} over time; last: ${words}`}
        times={times}
        series={series}
        format={format}
        atLeast={atLeast}
        onPoint={setPointed}
      />
      <ul class="legend">
        {shown.map(({ label, colour, text }) => (
          <li key={label}>
            <span class="swatch" style={{ background: `var(${colour})` }} aria-hidden="true" />
            {label} <b>{text}</b>
          </li>
        ))}
      </ul>
    </section>
  )
}

const said = (value: number | null | undefined, format: Chart['format']): string =>
  value === null || value === undefined ? '–' : format(value)
