import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { text } from 'node:stream/consumers'

/** A program of PostgreSQL or another one, where Debian or the path has it. */
export function findProgram(name: string): string | undefined {
  const debian = '/usr/lib/postgresql'
  const versions = existsSync(debian) ? readdirSync(debian).toSorted((a, b) => Number(b) - Number(a)) : []
  const folders = [
    ...versions.map((version) => join(debian, version, 'bin')),
    ...(process.env['PATH'] ?? '').split(delimiter),
  ]
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path))
}

const running = new Set<ChildProcess>()

/** Ends the programs that run now: whoever waits for one has an error. */
export function stopPrograms(): void {
  for (const child of running) child.kill('SIGTERM')
}

/**
 * Runs a program to its end.
 * @param input for its standard input
 * @returns its standard output
 * @throws Error with what it complained of
 */
export async function runProgram(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  input = '',
): Promise<string> {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'], env: { ...process.env, ...env } })
  running.add(child)
  child.once('close', () => running.delete(child))
  // A program that ends before it has read all of it says why itself.
  child.stdin.once('error', () => {}).end(input)
  const [output, complaint, [code]] = (await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ])) as [string, string, [number | null]]
  if (code === 0) return output
  throw new Error(`${program} failed (${code ?? 'killed'}): ${complaint.trim()}`)
}
