import { setTimeout as sleep } from 'node:timers/promises'
import { patience } from './patience.js'

const DEADLINE_MS = patience(120_000)
const EVERY_MS = 20

/** Waits for what must come to be true; for events, not for their speed. */
export async function until(what: string, isTrue: () => Promise<boolean> | boolean): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS
  while (!(await isTrue())) {
    if (performance.now() > deadline) throw new Error(`it never came to be: ${what}`)
    await sleep(EVERY_MS)
  }
}
