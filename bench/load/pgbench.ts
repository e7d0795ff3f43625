import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { clientEnvironment } from '../database.js'
import { findProgram, runProgram } from '../program.js'
import type { Parameter } from '../scenarios/scenario.js'
import type { Window } from './load.js'

/** The limit: the SQL that the server would run, prepared, with nothing around it. */
export interface PgbenchJob {
  readonly url: string
  /** With `$1`, `$2`, ... */
  readonly sql: string
  readonly parameters: readonly Parameter[]
  /** How many different sets of values there are. */
  readonly count: number
  readonly clients: number
  readonly window: Window
}

/** A script of pgbench's own language, and its variables `name=value`. */
export interface ScriptJob extends Pick<PgbenchJob, 'url' | 'clients' | 'window'> {
  readonly script: string
  readonly defined: readonly string[]
}

export const pgbench = (): string | undefined => findProgram('pgbench')

export type Pgbenched = Readonly<Record<'requests' | 'failures' | 'rps', number>>

export function runPgbench(job: PgbenchJob, folder: string): Promise<Pgbenched> {
  return runPgbenchScript({ ...job, script: scriptOf(job), defined: [] }, folder)
}

export async function runPgbenchScript(job: ScriptJob, folder: string): Promise<Pgbenched> {
  const script = join(folder, 'pgbench.sql')
  await writeFile(script, job.script)
  const { window, clients } = job
  const length =
    window.kind === 'seconds'
      ? [`--time=${Math.ceil(window.seconds)}`]
      : [`--transactions=${Math.ceil(window.requests / clients)}`]
  const args = ['--no-vacuum', '--protocol=prepared', '--random-seed=1', `--client=${clients}`, '--jobs=1']
  const output = await runProgram(
    pgbench() ?? 'pgbench',
    [...args, ...length, ...job.defined.map((each) => `--define=${each}`), `--file=${script}`],
    clientEnvironment(job.url),
  )
  const figure = (pattern: RegExp) => Number(pattern.exec(output)?.[1] ?? 0)
  return {
    requests: figure(/transactions actually processed: (\d+)/),
    failures: figure(/failed transactions: (\d+)/),
    rps: figure(/tps = ([\d.]+) \(without initial connection time\)/),
  }
}

/** `\set n random(0, 99)`, a `\set` for each parameter, the statement with `:p1` in place of `$1`. */
function scriptOf({ sql, parameters, count }: PgbenchJob): string {
  const sets = parameters.map((parameter, i) => {
    const value = typeof parameter === 'string' ? parameter : `${parameter.base} + ${parameter.step} * :n`
    return `\\set p${i + 1} ${value}`
  })
  const statement = sql.replaceAll(/\$(\d+)/g, ':p$1')
  return [`\\set n random(0, ${count - 1})`, ...sets, `${statement};`, ''].join('\n')
}
