import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { commandLine, isAlive } from './processes.js'

/** The `postmaster.pid` of a cluster. */
export interface Postmaster {
  readonly pid: number
  readonly port: number
  /**
   * - `ours`: a living `postgres` that was started on this data directory
   * - `foreign`: the pid was given to another program meanwhile, as happens when a container starts again
   * - `unknown`: alive, and the platform does not tell what it is
   * - `gone`: no such process
   */
  readonly state: 'ours' | 'foreign' | 'unknown' | 'gone'
}

/**
 * Who runs the cluster in a data directory, if anybody.
 * @param data its absolute path, as given to `postgres -D`
 */
export async function readPostmaster(data: string): Promise<Postmaster | undefined> {
  const text = await readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => undefined)
  if (text === undefined) return undefined
  // Lines, as in PostgreSQL's pidfile.h: pid, data directory, start time, port, socket directory, address, key, state.
  const lines = text.split('\n')
  const [pid, port] = [Number(lines[0]), Number(lines[3])]
  if (!Number.isInteger(pid) || pid <= 0) return undefined
  return { pid, port, state: await stateOf(pid, data) }
}

async function stateOf(pid: number, data: string): Promise<Postmaster['state']> {
  if (!(await isAlive(pid))) return 'gone'
  const command = await commandLine(pid)
  if (command === undefined) return 'unknown'
  return `${command} `.includes(`postgres -D ${data} `) ? 'ours' : 'foreign'
}
