import { randomBytes } from 'node:crypto'
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { isAlive, startTime } from './processes.js'

/** A process that holds a lock. */
interface Holder {
  readonly pid: number
  /** Start time, which distinguishes it from a later process with the same pid. */
  readonly started: string
}

/**
 * Takes a lock file for this process. Takes over the lock of an ended process.
 * @returns `release`, or the process that holds the lock
 */
export async function takeLock(file: string): Promise<{ release: () => Promise<void> } | { holder: Holder }> {
  const mine = JSON.stringify({ pid: process.pid, started: await startTime(process.pid) } satisfies Holder)
  const draft = temporary(file)
  await writeFile(draft, mine, { mode: 0o600, flag: 'wx' })
  try {
    for (;;) {
      if (await linkIfAbsent(draft, file)) return { release: () => rm(file, { force: true }) }
      const holder = await readHolder(file)
      if (holder !== undefined) return { holder }
      await removeStale(file)
    }
  } finally {
    await rm(draft, { force: true })
  }
}

/** Returns the living process that holds a lock; `undefined` also for a damaged lock. */
export async function readHolder(file: string): Promise<Holder | undefined> {
  try {
    const holder = JSON.parse(await readFile(file, 'utf8')) as Holder
    return (await isAlive(holder.pid)) && (await startTime(holder.pid)) === holder.started ? holder : undefined
  } catch {
    return undefined
  }
}

/** Creates the lock as a hard link, which appears with its content, so that no process reads a partial lock. */
async function linkIfAbsent(draft: string, file: string): Promise<boolean> {
  try {
    await link(draft, file)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/** Renames a stale lock first, and restores it if another process has replaced it in between. */
async function removeStale(file: string): Promise<void> {
  const aside = temporary(file)
  try {
    await rename(file, aside)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw error
  }
  if ((await readHolder(aside)) !== undefined) await linkIfAbsent(aside, file)
  await rm(aside, { force: true })
}

const temporary = (file: string): string => `${file}.${randomBytes(6).toString('hex')}`
