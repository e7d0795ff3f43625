import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Asked } from './fake-provider.js'

const PROGRAM = fileURLToPath(new URL('./fake-provider.js', import.meta.url))
export const PROVIDER = fileURLToPath(new URL('./provider.js', import.meta.url))

/** A provider in a process of its own, which lives on when senders die. */
export interface Fake {
  readonly url: string
  /** All that it was asked so far, in order. */
  asked(): Promise<readonly Asked[]>
  stop(): Promise<void>
}

export async function startFake(seed: number): Promise<Fake> {
  const child = spawn(process.execPath, [PROGRAM, String(seed)], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(child, 'exit')
  const [url] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
  return {
    url,
    asked: async () => (await (await fetch(url)).json()) as readonly Asked[],
    async stop() {
      child.stdin.end()
      await ended
    },
  }
}
