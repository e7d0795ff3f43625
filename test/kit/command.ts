import { Readable, Writable } from 'node:stream'
import { main } from '../../core/cli/main.js'
import { patience } from './patience.js'
import { endKeptConnections } from './server.js'

export interface Done {
  readonly code: number
  /** What it wrote to standard output and to standard error. */
  readonly out: string
  readonly err: string
}

/** No command fails because the machine is slow. */
export const PATIENT = {
  ROWHOUSE_DATABASE__POOL_WAIT_MS: String(patience(30_000)),
  ROWHOUSE_DATABASE__STATEMENT_TIMEOUT_MS: String(patience(60_000)),
  ROWHOUSE_DATABASE__LOCK_TIMEOUT_MS: String(patience(30_000)),
}

/** Calls `rowhouse` in this process. Modules that a configuration names are imported once by their path. */
function call(
  cwd: string,
  args: readonly string[],
  { env = {}, stdin = '', signal, hear = () => {} }: Options & { signal: AbortSignal; hear?: () => void },
) {
  const written = { out: '', err: '' }
  const into = (name: 'out' | 'err') =>
    new Writable({
      decodeStrings: false,
      write(text: string | Buffer, _encoding, done) {
        written[name] += text.toString()
        hear()
        done()
      },
    })
  const [stdout, stderr] = [into('out'), into('err')]
  const terminal = {
    stdin: Readable.from(stdin === '' ? [] : [stdin]),
    stdout,
    stderr,
    logTo: stderr,
    env: { ...PATIENT, ...env },
    cwd,
    signal,
  }
  return { written, ended: main(args, terminal) }
}

interface Options {
  /** All environment variables but the time limits of the database. */
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly stdin?: string
}

/** Runs a command in a folder until its end. */
export async function run(folder: string, args: readonly string[], options: Options = {}): Promise<Done> {
  const { written, ended } = call(folder, args, { ...options, signal: new AbortController().signal })
  return { code: await ended, ...written }
}

export interface Running {
  readonly url: string
  /** What it wrote so far, standard output first. */
  output(): string
  /** The exit code, when it has ended. */
  readonly ended: Promise<number>
  /** Asks it to end. @returns the exit code */
  stop(): Promise<number>
}

/** Runs a command that serves, until it says where. It ends with the test. */
export async function start(
  t: { teardown(fn: () => Promise<unknown>): unknown },
  folder: string,
  args: readonly string[],
  options: Options = {},
): Promise<Running> {
  const abort = new AbortController()
  let hear = () => {}
  const { written, ended } = call(folder, args, { ...options, signal: abort.signal, hear: () => hear() })
  const output = () => written.out + written.err
  const stop = () => {
    endKeptConnections()
    abort.abort(new Error('interrupted', { cause: 'the test' }))
    return ended
  }
  t.teardown(stop)
  // `dev` prints its address once it serves, and `start` logs it.
  const told = new Promise<string>((resolve) => {
    hear = () => {
      const place = args[0] === 'dev' ? written.out : written.err
      const url = /https?:\/\/127\.0\.0\.1:\d+/.exec(place)?.[0]
      if (url !== undefined) resolve(url)
    }
  })
  const failed = ended.then((code) => {
    throw new Error(`it ended with ${code}:\n${output()}`)
  })
  return { url: await Promise.race([told, failed]), output, ended, stop }
}
