import { readFile } from 'node:fs/promises'
import { run } from './run.js'

/** Whether a process exists and has not ended. A zombie that nobody reaps (pid 1 of a container) has ended. */
export async function isAlive(pid: number): Promise<boolean> {
  try {
    process.kill(pid, 0)
  } catch (error) {
    // EPERM: it exists and belongs to somebody else.
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false
  }
  return (await statFields(pid))?.[0] !== 'Z'
}

/**
 * When a process started, as text that only compares: together with the pid it names one process, however often the
 * pid is given out again. Empty where the platform does not tell.
 */
export async function startTime(pid: number): Promise<string> {
  if (process.platform === 'linux') {
    const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '')
    return `${boot.trim()} ${(await statFields(pid))?.[19] ?? ''}`
  }
  if (process.platform === 'win32') return ''
  return (await run('ps', ['-o', 'lstart=', '-p', String(pid)])).output
}

/** Program and arguments, joined by one space; `undefined` when it cannot be read. */
export async function commandLine(pid: number): Promise<string | undefined> {
  if (process.platform === 'linux') {
    const raw = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => undefined)
    return raw?.replaceAll('\0', ' ').trim()
  }
  if (process.platform === 'win32') return undefined
  const { ok, output } = await run('ps', ['-ww', '-o', 'command=', '-p', String(pid)])
  return ok ? output : undefined
}

/** What /proc/<pid>/stat says after the program's name, which may itself hold spaces and brackets: state first. */
async function statFields(pid: number): Promise<string[] | undefined> {
  if (process.platform !== 'linux') return undefined
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined)
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
}
