import { readFile } from 'node:fs/promises'
import { run } from './run.js'

/** Returns whether a process is alive. An unreaped zombie (as with pid 1 of a container) is not. */
export async function isAlive(pid: number): Promise<boolean> {
  try {
    process.kill(pid, 0)
  } catch (error) {
    // EPERM: it exists and belongs to another user.
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false
  }
  return (await statFields(pid))?.[0] !== 'Z'
}

/**
 * Returns when a process started, as text for comparison only. Together with the pid it identifies a process even when
 * pids are reused. Empty if the platform does not provide it.
 */
export async function startTime(pid: number): Promise<string> {
  if (process.platform === 'linux') {
    const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '')
    return `${boot.trim()} ${(await statFields(pid))?.[19] ?? ''}`
  }
  if (process.platform === 'win32') return ''
  return (await run('ps', ['-o', 'lstart=', '-p', String(pid)])).output
}

/** Returns program and arguments separated by spaces; `undefined` when unreadable. */
export async function commandLine(pid: number): Promise<string | undefined> {
  if (process.platform === 'linux') {
    const raw = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => undefined)
    return raw?.replaceAll('\0', ' ').trim()
  }
  if (process.platform === 'win32') return undefined
  const { ok, output } = await run('ps', ['-ww', '-o', 'command=', '-p', String(pid)])
  return ok ? output : undefined
}

/**
 * Returns the fields of /proc/<pid>/stat after the program name, which may contain spaces and brackets. The first is
 * the state.
 */
async function statFields(pid: number): Promise<string[] | undefined> {
  if (process.platform !== 'linux') return undefined
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined)
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
}
