import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Victim } from './victim.js'

export interface Tampering {
  /** Its own process. */
  readonly pid: number
  /** Lets go of the server. */
  stop(): Promise<void>
}

/**
 * Holds a server by strace; resolves when it is held.
 * @param args what to do to it: `-e inject=...`, `-P path`
 * @param log where its calls are written down, with the paths of their files
 */
export async function tamper(victim: Victim, args: readonly string[], log = '/dev/null'): Promise<Tampering> {
  const strace = spawn('strace', ['-f', '-y', '-o', log, ...args, '-p', String(victim.process.pid)], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  await new Promise<void>((resolve, reject) => {
    strace.once('error', reject)
    strace.once('exit', () => reject(new Error(`strace: ${said}`)))
    strace.stderr.on('data', (chunk: Buffer) => {
      said += chunk.toString()
      if (said.includes('attached')) resolve()
    })
  })
  return {
    pid: strace.pid as number,
    async stop() {
      if (strace.exitCode !== null || strace.signalCode !== null) return
      const gone = once(strace, 'exit')
      strace.kill('SIGINT')
      await gone
    },
  }
}
