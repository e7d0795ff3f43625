import { execFile } from 'node:child_process'
import { patience } from '../../kit/patience.js'

/** Runs a command to its end, as somebody who has just installed Node.js. */
export function run(
  cwd: string,
  [command = '', ...args]: readonly string[],
  env: Readonly<Record<string, string>> = {},
) {
  const options = { cwd, env: environment(env), timeout: patience(300_000), maxBuffer: 2 ** 26 }
  return new Promise<{ readonly code: number; readonly out: string; readonly err: string }>((resolve) => {
    execFile(command, args, options, (error, out, err) =>
      resolve({ code: error ? Number(error.code ?? 1) : 0, out, err }),
    )
  })
}

/** The environment of this process, without what the runner and npm have added. */
export function environment(env: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(
    ([name]) => !/^(ROWHOUSE_|NODE_OPTIONS$|npm_|TAP|DATABASE_URL$)/.test(name),
  )
  return { ...Object.fromEntries(own), ...env }
}
