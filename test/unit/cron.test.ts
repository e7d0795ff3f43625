import t from 'tap'
import { readCron } from '../../plugins/events/cron.js'

/** Set to `all`: all zones whose clocks change, for 20 years. */
const WHOLE = process.env['ROWHOUSE_TEST_CRON'] === 'all'
const FROM = Date.UTC(WHOLE ? 2008 : 2025, 0)
const TO = Date.UTC(WHOLE ? 2028 : 2027, 0)
const SOME = [
  'Europe/Berlin',
  'America/New_York',
  'Australia/Lord_Howe',
  'America/Santiago',
  'Africa/Cairo',
  'Asia/Kathmandu',
]
/** With days that were skipped, and clocks that went back at midnight. */
const ODD = [['Pacific/Apia', Date.UTC(2011, 8), Date.UTC(2012, 4)] as const]
const MINUTE = 60_000
const HOUR = 60 * MINUTE
const AROUND = 30 * HOUR

interface Pattern {
  readonly text: string
  /** Whether it is one time of the day. */
  readonly isFixed: boolean
  matches(local: Date): boolean
}

/** A change of the clock: minutes from UTC before and after. */
interface Change {
  readonly at: number
  readonly before: number
  readonly after: number
}

function offsetIn(zone: string): (at: number) => number {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: zone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
  return (at) => {
    const [month = 0, day = 0, year = 0, hour = 0, minute = 0, second = 0] = format.format(at).split(/\D+/).map(Number)
    return (Date.UTC(year, month - 1, day, hour, minute, second) - at) / MINUTE
  }
}

function changesOf(zone: string, from: number, to: number): readonly Change[] {
  const offset = offsetIn(zone)
  const changes: Change[] = []
  let before = offset(from)
  for (let at = from; at < to; at += 12 * HOUR) {
    const after = offset(at + 12 * HOUR)
    if (after === before) continue
    let [low, high] = [at, at + 12 * HOUR]
    while (high - low > MINUTE) {
      const middle = low + Math.floor((high - low) / MINUTE / 2) * MINUTE
      if (offset(middle) === before) low = middle
      else high = middle
    }
    changes.push({ at: high, before, after })
    before = after
  }
  return changes
}

/** Steps by minutes. */
function expected(pattern: Pattern, changes: readonly Change[], from: number, to: number): readonly number[] {
  const found: number[] = []
  for (let at = from; at < to; at += MINUTE) {
    const last = changes.findLast((change) => change.at <= at)
    const offset = last ? last.after : changes[0]!.before
    const back = last ? (last.before - last.after) * MINUTE : 0
    // The second time that a clock shows this.
    const isRepeated = last !== undefined && at < last.at + back
    const isHere = pattern.matches(new Date(at + offset * MINUTE)) && !(pattern.isFixed && isRepeated)
    // What the clock skips is when it goes on, but for a day that a zone does not have.
    const isSkipped = last?.at === at && back < 0 && back > -24 * HOUR && pattern.isFixed && skips(pattern, last)
    if (isHere || isSkipped) found.push(at)
  }
  return found
}

function skips(pattern: Pattern, { at, before, after }: Change): boolean {
  for (let local = at + before * MINUTE; local < at + after * MINUTE; local += MINUTE) {
    if (pattern.matches(new Date(local))) return true
  }
  return false
}

function actual(pattern: Pattern, zone: string, from: number, to: number): readonly number[] {
  const { next } = readCron(pattern.text, zone)
  const found: number[] = []
  for (let at = next(new Date(from - 1)); at && at.getTime() < to; at = next(at)) found.push(at.getTime())
  return found
}

/** Random numbers from 0 to 1, the same each time. */
function seeded(seed: number): () => number {
  let state = seed
  return () => (state = (state * 48271) % 2147483647) / 2147483647
}

/** Returns a field, and whether a value is in it. */
function field(
  random: () => number,
  from: number,
  to: number,
  wild: number,
): [string, (value: number) => boolean, boolean] {
  const pick = () => from + Math.floor(random() * (to - from + 1))
  const kind = random()
  if (kind < wild) return ['*', () => true, false]
  if (kind < wild + (1 - wild) * 0.6) {
    const only = pick()
    return [String(only), (value) => value === only, true]
  }
  if (kind < wild + (1 - wild) * 0.8) {
    const [one, other] = [pick(), pick()].sort((a, b) => a - b) as [number, number]
    return [`${one}-${other}`, (value) => value >= one && value <= other, one === other]
  }
  const step = 2 + Math.floor(random() * Math.min(20, to - from - 1))
  const isOne = from + step > to
  return [`*/${step}`, (value) => (value - from) % step === 0, isOne]
}

function randomPattern(random: () => number): Pattern {
  const [minute, inMinute, oneMinute] = field(random, 0, 59, 0.1)
  const [hour, inHour, oneHour] = random() < 0.6 ? field(random, 0, 4, 0) : field(random, 0, 23, 0.2)
  const [day, inDay] = field(random, 1, 31, 0.7)
  const [month, inMonth] = field(random, 1, 12, 0.8)
  const [weekday, inWeekday] = field(random, 0, 6, 0.7)
  // Of days and weekdays that are both given, either counts.
  const isDay = (local: Date) => {
    const [a, b] = [inDay(local.getUTCDate()), inWeekday(local.getUTCDay())]
    return day !== '*' && weekday !== '*' ? a || b : a && b
  }
  return {
    text: `${minute} ${hour} ${day} ${month} ${weekday}`,
    isFixed: oneMinute && oneHour,
    matches: (local) =>
      inMinute(local.getUTCMinutes()) &&
      inHour(local.getUTCHours()) &&
      inMonth(local.getUTCMonth() + 1) &&
      isDay(local),
  }
}

t.test('a schedule occurs when a reference says that steps by minutes, around each change of a clock', async (t) => {
  const random = seeded(42)
  const zones = WHOLE ? Intl.supportedValuesOf('timeZone') : SOME
  const all = [...zones.map((zone) => [zone, FROM, TO] as const), ...ODD]
  let compared = 0
  for (const [zone, from, to] of all) {
    const changes = changesOf(zone, from, to)
    for (const { at } of changes) {
      for (let n = 0; n < (WHOLE ? 3 : 12); n++) {
        const pattern = randomPattern(random)
        const [start, end] = [at - AROUND, at + AROUND]
        const near = changes.filter((change) => change.at > start - AROUND && change.at < end + AROUND)
        const wanted = expected(pattern, near, start, end)
        const found = actual(pattern, zone, start, end)
        compared += wanted.length
        if (JSON.stringify(found) === JSON.stringify(wanted)) continue
        t.same(
          found.map((each) => new Date(each).toISOString()),
          wanted.map((each) => new Date(each).toISOString()),
          `${pattern.text} in ${zone}, whose clock changes at ${new Date(at).toISOString()}`,
        )
      }
    }
  }
  t.ok(compared > 100, `${compared} occurrences`)
})
