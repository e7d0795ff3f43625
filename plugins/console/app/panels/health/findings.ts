import { bytes, count, duration, number, share } from './format.js'
import { type Point, recent } from './history.js'
import { CLASSES, type Sample } from './samples.js'

/** A figure of now, and whether somebody should look at it. */
export interface Finding {
  readonly title: string
  readonly figure: string
  /** What is behind the figure; if it needs attention, why. */
  readonly words: string
  /** undefined while it is not known. */
  readonly isFine: boolean | undefined
}

/** What else is known about the server, for limits and comparisons. */
interface Known {
  readonly maxConnections?: number | undefined
  /** Version of the metadata in the database. */
  readonly storedMetadata?: string | undefined
}

const SLOW_SECONDS = 1
const LAG_SECONDS = 0.1
const STUCK_SECONDS = 300
const MINUTE_MS = 60_000

/** Judges the last figures. What only lasts a moment is fine. */
export function findingsOf(points: readonly Point[], known: Known = {}): readonly Finding[] {
  const last = points.at(-1)
  if (last?.sample === undefined) return []
  const { sample } = last
  const now = recent(points)
  return [
    requestsOf(points),
    latencyOf(now),
    databaseOf(sample),
    connectionsOf(now, sample, known),
    workersOf(now, sample),
    eventLoopOf(now, sample),
    memoryOf(sample, last),
    metadataOf(now, sample, known),
    ...outboxOf(points, sample),
    ...filesOf(sample),
  ]
}

function requestsOf(points: readonly Point[]): Finding {
  const title = 'Requests'
  const rates = points.at(-1)?.rates
  if (!rates) return { title, figure: '–', words: 'counted in a moment', isFine: true }
  const total = CLASSES.reduce((sum, each) => sum + rates.requests[each], 0)
  const failing = recent(points, MINUTE_MS).some(({ rates: each }) => (each?.requests['5xx'] ?? 0) > 0)
  return {
    title,
    figure: `${number(total)} / s`,
    words: failing ? 'some failed at the server (5xx) in the last minute' : 'none failed at the server',
    isFine: !failing,
  }
}

function latencyOf(now: readonly Point[]): Finding {
  const title = 'Latency (p99)'
  const p99 = now.at(-1)?.rates?.p99
  const p50 = now.at(-1)?.rates?.p50
  if (p99 === undefined || p50 === undefined) return { title, figure: '–', words: 'no requests just now', isFine: true }
  // Both are of the last ten seconds already.
  const isFine = p99 <= SLOW_SECONDS
  const half = `half of the requests take ${duration(p50)} or less`
  return { title, figure: duration(p99), words: isFine ? half : `longer than a second; ${half}`, isFine }
}

const databaseOf = ({ isDatabaseDown }: Sample): Finding => ({
  title: 'Database',
  figure: isDatabaseDown ? 'down' : 'up',
  words: isDatabaseDown ? 'requests fail until it answers again' : 'answers',
  isFine: !isDatabaseDown,
})

function connectionsOf(now: readonly Point[], { connections }: Sample, { maxConnections }: Known): Finding {
  const waiting = lowest(now, ({ sample }) => sample?.connections['waiting'])
  return {
    title: 'Connections',
    figure: `${number(connections['busy'] ?? 0)}${maxConnections === undefined ? '' : ` of ${maxConnections}`}`,
    words: waiting > 0 ? `${count(waiting, 'request')} or more wait for one` : 'in use, and no request waits',
    isFine: waiting === 0,
  }
}

function workersOf(now: readonly Point[], { compiling }: Sample): Finding {
  const waiting = lowest(now, ({ sample }) => sample?.compiling['waiting'])
  return {
    title: 'Compile workers',
    figure: `${number(compiling['busy'] ?? 0)} busy`,
    words: waiting > 0 ? `${count(waiting, 'new request')} or more wait for one` : 'no request waits',
    isFine: waiting === 0,
  }
}

function eventLoopOf(now: readonly Point[], { lagMean, lagP99 }: Sample): Finding {
  const isFine = lowest(now, ({ sample }) => sample?.lagP99) <= LAG_SECONDS
  return {
    title: 'Event loop (p99)',
    figure: lagP99 === undefined ? '–' : duration(lagP99),
    words: isFine ? `delay; the mean is ${duration(lagMean ?? 0)}` : 'something keeps the process busy too long',
    isFine,
  }
}

const memoryOf = ({ memory, heap }: Sample, { rates }: Point): Finding => ({
  title: 'Memory',
  figure: memory === undefined ? '–' : bytes(memory),
  words: `heap ${bytes(heap ?? 0)}${rates?.cpu === undefined ? '' : `, processor ${share(rates.cpu)}`}`,
  isFine: true,
})

function metadataOf(now: readonly Point[], sample: Sample, { storedMetadata }: Known): Finding {
  const { metadataVersion, isDatabaseDown } = sample
  const title = 'Metadata'
  const figure = `version ${metadataVersion ?? '–'}`
  if (isDatabaseDown) return { title, figure, words: NO_DATABASE, isFine: undefined }
  const isBehind =
    storedMetadata !== undefined && metadataVersion !== undefined && Number(storedMetadata) > metadataVersion
  // It listens again some seconds after it lost the database.
  const isDeaf = now.every((point) => point.sample?.isListening === false)
  const words = isBehind
    ? `the database has version ${storedMetadata}`
    : isDeaf
      ? 'does not listen: changes arrive within 5 s'
      : 'current, and listens for changes'
  return { title, figure, words, isFine: !isBehind && !isDeaf }
}

function outboxOf(points: readonly Point[], { outbox, isDatabaseDown, oldestMessage = 0 }: Sample): readonly Finding[] {
  const title = 'Outbox'
  if (isDatabaseDown && points.some(({ sample }) => sample?.outbox))
    return [{ title, figure: '–', words: NO_DATABASE, isFine: undefined }]
  if (!outbox) return []
  const waiting = (outbox['queued'] ?? 0) + (outbox['sending'] ?? 0)
  const failed = outbox['failed'] ?? 0
  const isFine = !(oldestMessage > STUCK_SECONDS)
  const words = isFine
    ? `to send; ${failed === 0 ? 'none' : number(failed)} failed`
    : `the oldest waits for ${duration(oldestMessage)}`
  return [{ title, figure: count(waiting, 'message'), words, isFine }]
}

const NO_DATABASE = 'known again when the database is up'

function filesOf({ damagedFiles }: Sample): readonly Finding[] {
  if (damagedFiles === undefined) return []
  const words = damagedFiles === 0 ? 'found by the last checks' : 'run rowhouse fsck'
  return [{ title: 'Damaged files', figure: number(damagedFiles), words, isFine: damagedFiles === 0 }]
}

/** Returns the lowest value of the points: what is above a limit for a moment only stays below it here. */
const lowest = (points: readonly Point[], valueOf: (point: Point) => number | undefined): number =>
  points.length === 0 ? 0 : Math.min(...points.map((point) => valueOf(point) ?? 0))
