import { execFile, type ExecFileException } from 'node:child_process'
import { promisify } from 'node:util'
import type { Account } from './account.js'

export interface Outcome {
  /** Whether it exited with code 0. */
  readonly ok: boolean
  /** Trimmed output of both streams. */
  readonly output: string
  /** Why it could not start: `ENOENT`, `EACCES`, `EPERM`. */
  readonly failure?: string
}

interface RunOptions {
  /** Absent: the user of this process. */
  readonly account?: Account
  readonly timeoutMs?: number
}

/** Runs a program and waits for its end. */
export async function run(
  file: string,
  args: readonly string[],
  { account, timeoutMs = 30_000 }: RunOptions = {},
): Promise<Outcome> {
  try {
    const { stdout, stderr } = await promisify(execFile)(file, args, { ...runAs(account), timeout: timeoutMs })
    return { ok: true, output: `${stdout}${stderr}`.trim() }
  } catch (error) {
    // Node also throws here when the kernel refuses setuid.
    const { code, signal, message, stdout = '', stderr = '' } = error as ExecFileException
    if (typeof code === 'string') return { ok: false, output: '', failure: code }
    const end = typeof code === 'number' ? '' : `\n${signal ? `ended by ${signal}` : message}`
    return { ok: false, output: `${stdout}${stderr}${end}`.trim() }
  }
}

/**
 * Returns the options of a child process. Uses another working directory, because the user may not be able to enter
 * ours.
 */
export function runAs(account: Account | undefined) {
  return { uid: account?.uid, gid: account?.gid, cwd: '/', env: environment() }
}

/**
 * Returns the environment of PostgreSQL's programs: English messages, UTC, and none of the caller's `PG*` variables,
 * which extensions of the server (postgres_fdw) would use to connect elsewhere.
 */
function environment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !/^(PG|LC_|LANG|TZ$)/.test(name))
  return { ...Object.fromEntries(kept), LC_ALL: 'C', TZ: 'UTC' }
}
