import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { commandLine, isAlive } from './processes.js'

/** The content of a cluster's `postmaster.pid`. */
export interface Postmaster {
  readonly pid: number
  readonly port: number
  /**
   * State of the process:
   * - `ours`: a living `postgres` that was started on this data directory
   * - `foreign`: another program has the pid now, e.g. after a restart of a container
   * - `unknown`: alive, but the platform does not reveal the program
   * - `gone`: no such process
   */
  readonly state: 'ours' | 'foreign' | 'unknown' | 'gone'
}

/**
 * Returns the server process of a data directory, if any.
 * @param data absolute path, as passed to `postgres -D`
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
