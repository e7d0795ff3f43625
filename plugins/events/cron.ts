import { Cron } from 'croner'
import { parseFailed, unexpectedPayload } from 'rowhouse/plan'

/** When something is due, by the clock of a time zone. */
export interface Occurrences {
  /** Returns the first one after a time. */
  next(after: Date): Date | undefined
  /** Returns the last one before a time. */
  last(before: Date): Date | undefined
}

/**
 * Reads a cron expression of five fields, or `@daily` and the like. A time that a change of clocks skips is when the clock goes on;
 * one that it repeats is the first of the two. A day that a zone skips has none. Expressions for more than one time a day follow the clock.
 * @throws ServiceError 400
 */
export function readCron(cron: string, timeZone: string, path = '$.args'): Occurrences {
  if (!isZone(timeZone)) {
    throw unexpectedPayload(
      `there is no time zone "${timeZone}"; expecting one such as "Europe/Berlin"`,
      `${path}.time_zone`,
    )
  }
  const parsed = parse(cron, timeZone, `${path}.cron`)
  return {
    next: (after) => parsed.nextRun(after) ?? undefined,
    last: (before) => parsed.previousRuns(1, before)[0],
  }
}

function parse(cron: string, timezone: string, path: string): Cron {
  // A pattern that is a date would be one occurrence.
  if (!/^(@|\S+\s+\S+\s+\S+\s+\S+\s+\S+\s*$)/.test(cron)) {
    throw parseFailed('expecting five fields: minute, hour, day of month, month, day of week', path)
  }
  try {
    return new Cron(cron, { timezone, paused: true, mode: '5-part' })
  } catch (error) {
    throw parseFailed(error instanceof Error ? error.message : String(error), path)
  }
}

function isZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}
