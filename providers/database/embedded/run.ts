import { execFile, type ExecFileException } from 'node:child_process'
import { promisify } from 'node:util'
import type { Account } from './account.js'

export interface Outcome {
  /** It ended by itself, with exit code 0. */
  readonly ok: boolean
  /** What it printed to both streams, trimmed. */
  readonly output: string
  /** Why it could not be started: `ENOENT`, `EACCES`, `EPERM`. */
  readonly failure?: string
}

interface RunOptions {
  /** Absent: the user that this process runs as. */
  readonly account?: Account
  readonly timeoutMs?: number
}

/** Runs a program to its end. */
export async function run(
  file: string,
  args: readonly string[],
  { account, timeoutMs = 30_000 }: RunOptions = {},
): Promise<Outcome> {
  try {
    const { stdout, stderr } = await promisify(execFile)(file, args, { ...runAs(account), timeout: timeoutMs })
    return { ok: true, output: `${stdout}${stderr}`.trim() }
  } catch (error) {
    // Node throws here, too, when the kernel refuses setuid.
    const { code, signal, message, stdout = '', stderr = '' } = error as ExecFileException
    if (typeof code === 'string') return { ok: false, output: '', failure: code }
    const end = typeof code === 'number' ? '' : `\n${signal ? `ended by ${signal}` : message}`
    return { ok: false, output: `${stdout}${stderr}${end}`.trim() }
  }
}

/** Options of a child process: the account may not be able to enter the folder that we run in. */
export function runAs(account: Account | undefined) {
  return { uid: account?.uid, gid: account?.gid, cwd: '/', env: environment() }
}

/**
 * The environment of PostgreSQL's programs: English messages, UTC, and none of the caller's `PG*` variables, with
 * which extensions of the server (postgres_fdw) would connect elsewhere.
 */
function environment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !/^(PG|LC_|LANG|TZ$)/.test(name))
  return { ...Object.fromEntries(kept), LC_ALL: 'C', TZ: 'UTC' }
}
