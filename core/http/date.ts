const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

const LONG = `(?<day>${DAYS.join('|')})`
const SHORT = `(?<day>${DAYS.map((day) => day.slice(0, 3)).join('|')})`
const MONTH = `(?<month>${MONTHS.join('|')})`
const TIME = String.raw`(?<hour>\d\d):(?<minute>\d\d):(?<second>\d\d)`
/** The three forms: that of today, that of RFC 850, and that of asctime. */
const FORMS = [
  String.raw`${SHORT}, (?<date>\d\d) ${MONTH} (?<year>\d{4}) ${TIME} GMT`,
  String.raw`${LONG}, (?<date>\d\d)-${MONTH}-(?<year>\d\d) ${TIME} GMT`,
  String.raw`${SHORT} ${MONTH} (?<date>\d\d| \d) ${TIME} (?<year>\d{4})`,
].map((form) => new RegExp(`^${form}$`))

/**
 * Reads a date of HTTP (RFC 9110 section 5.6.7). All three forms are UTC, whatever the time zone of the server is.
 * @param now for years of two digits
 * @returns milliseconds since 1970; undefined for any other text, and for a day that does not exist or has another name
 */
export function readHttpDate(text: string, now: number = Date.now()): number | undefined {
  for (const form of FORMS) {
    const groups = form.exec(text)?.groups as Record<Part, string> | undefined
    if (groups) return timeOf(groups, now)
  }
  return undefined
}
type Part = 'day' | 'date' | 'month' | 'year' | 'hour' | 'minute' | 'second'

function timeOf({ day, date, month, year, hour, minute, second }: Record<Part, string>, now: number) {
  const isLeapSecond = hour === '23' && minute === '59' && second === '60'
  if (hour > '23' || minute > '59' || (second > '59' && !isLeapSecond)) return undefined
  const time = ((Number(hour) * 60 + Number(minute)) * 60 + Number(second)) * 1000
  const at = (fullYear: number): number =>
    new Date(0).setUTCFullYear(fullYear, MONTHS.indexOf(month), Number(date)) + time
  let fullYear = Number(year)
  if (year.length === 2) {
    const limit = new Date(now)
    limit.setUTCFullYear(limit.getUTCFullYear() + 50)
    // The latest year with these digits that is not more than 50 years in the future.
    fullYear += Math.floor(limit.getUTCFullYear() / 100) * 100
    if (at(fullYear) > limit.getTime()) fullYear -= 100
  }
  const start = new Date(at(fullYear) - time)
  const exists = start.getUTCDate() === Number(date) && start.getUTCMonth() === MONTHS.indexOf(month)
  return exists && DAYS[start.getUTCDay()]!.startsWith(day) ? at(fullYear) : undefined
}
