import { type Json, textOf } from './json.js'

/**
 * Returns a time for people, in the zone of the browser: `24 Nov 2026, 09:05:00`.
 * @param at milliseconds since 1970, or a text; a text that is no time is returned as it is
 */
export const timeText = (at: Json | undefined): string => shown(at, DATE_TIME)

/** Returns the time of the day of a time: `09:05:00`. */
export const clockText = (at: Json | undefined): string => shown(at, CLOCK)

function shown(at: Json | undefined, format: Intl.DateTimeFormat): string {
  const date = new Date(typeof at === 'number' ? at : textOf(at))
  return Number.isNaN(date.getTime()) ? textOf(at) : format.format(date)
}

const CLOCK = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' })
const DATE_TIME = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' })
