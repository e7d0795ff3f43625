import { isAbsolute, relative, resolve } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import type { DestinationStream } from 'pino'

/** Where the configuration of a command comes from. */
export interface ConfigSource {
  readonly flags: Readonly<Record<string, string | boolean | undefined>>
  readonly env: Readonly<Record<string, string | undefined>>
  /** Absolute path of the folder that relative paths start from. */
  readonly cwd: string
  /** Receives the log lines of servers. Default: standard error of this process. */
  readonly logTo?: DestinationStream | undefined
}

/** The terminal of this process, or what another caller gives to a command in its place. */
export interface Terminal extends Omit<ConfigSource, 'flags'> {
  readonly stdin: Readable & { readonly isTTY?: boolean }
  readonly stdout: Writable
  readonly stderr: Writable & { readonly isTTY?: boolean }
  /** Aborts when the command should end. The log of a server names the cause of the reason. */
  readonly signal: AbortSignal
}

/** The arguments of a command, and its terminal. */
export interface Invocation extends ConfigSource {
  /** Values of options that may be repeated. */
  readonly lists: Readonly<Record<string, readonly string[]>>
  readonly words: readonly string[]
  /** Prints a line of the result to standard output. */
  print(text: string): void
  /** Prints a message to standard error. */
  tell(text: string): void
  readonly terminal: Terminal
}

/** Returns the path of a file that the user named. Errors of the file system then show it as the user wrote it. */
export const pathIn = (cwd: string, file: string): string =>
  isAbsolute(file) ? file : relative('', resolve(cwd, file)) || '.'

/** `id=5` is the name `id` with the value `5`. */
export function namedValue(word: string): readonly [string, string] {
  const equals = word.indexOf('=')
  if (equals < 1) throw new Error(`expected NAME=VALUE instead of "${word}"`)
  return [word.slice(0, equals), word.slice(equals + 1)]
}

/** `X-Service-Org=5` is the session variable with the value `5`. */
export function sessionVariable(word: string): readonly [string, string] {
  const [name, value] = namedValue(word)
  if (!/^x-service-./i.test(name))
    throw new Error(`expected a session variable such as X-Service-Org instead of "${name}"`)
  return [name, value]
}
