import { readFileSync } from 'node:fs'

/** Ticks of `/proc` in a second, on every Linux that Node.js runs on. */
const TICKS = 100

/**
 * Returns the CPU seconds of the processes that a process started and that have ended, with those that these started: user
 * and system time. Undefined where there is no `/proc`.
 */
export function cpuOfChildren(pid: number | 'self' = 'self'): number | undefined {
  try {
    // The name of the program, in parentheses, may hold blanks.
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
      .replace(/^.*\) /s, '')
      .split(' ')
    return (Number(fields[13]) + Number(fields[14])) / TICKS
  } catch {
    return undefined
  }
}
