import { execFile } from 'node:child_process'
import type { Account } from './account.js'

export interface Outcome {
  /** Exit code; `undefined` when the program could not be started, was killed, or ran out of time. */
  readonly code: number | undefined
  /** What it printed to both streams, trimmed. */
  readonly output: string
  /** Why it could not be started: `ENOENT`, `EACCES`, `EPERM`. */
  readonly failure?: string
}

interface RunOptions {
  /** Absent: the user that this process runs as. */
  readonly account?: Account | undefined
  readonly timeoutMs?: number
}

/** Runs a program to its end, in `/` because the account may not be able to enter the folder that we run in. */
export function run(file: string, args: readonly string[], options: RunOptions = {}): Promise<Outcome> {
  const { account, timeoutMs = 30_000 } = options
  return new Promise((resolve) => {
    const as = account === undefined ? {} : { uid: account.uid, gid: account.gid }
    try {
      execFile(file, args, { ...as, cwd: '/', env: environment(), timeout: timeoutMs }, (error, stdout, stderr) => {
        const output = `${stdout}${stderr}`.trim()
        if (error === null) resolve({ code: 0, output })
        else if (typeof error.code === 'string') resolve({ code: undefined, output, failure: error.code })
        else if (typeof error.code === 'number') resolve({ code: error.code, output })
        else resolve({ code: undefined, output: `${output}\nended by ${error.signal ?? 'an unknown cause'}`.trim() })
      })
    } catch (error) {
      // Node throws, instead of reporting, when the kernel refuses setuid.
      resolve({ code: undefined, output: '', failure: (error as NodeJS.ErrnoException).code ?? String(error) })
    }
  })
}

/**
 * The environment of PostgreSQL's programs: English messages, UTC, and none of the caller's `PG*` variables, with
 * which extensions of the server (postgres_fdw) would connect elsewhere.
 */
export function environment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !/^(PG|LC_|LANG|TZ$)/.test(name))
  return { ...Object.fromEntries(kept), LC_ALL: 'C', TZ: 'UTC' }
}
