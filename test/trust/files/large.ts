import { mkdir, mkdtemp, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readMemory } from '../../../bench/cpu.js'
import { freshDatabase } from '../../kit/database.js'
import { readLarge, sendLarge } from '../../kit/large-file.js'
import type { PartOptions, Score } from '../part.js'
import { startVictim, writeConfig } from './victim.js'

const GIB = 2 ** 30
const SIZE = 5 * GIB
/** What the disk must have room for. */
const ROOM = 2 * SIZE
const WARM = 64 * 2 ** 20
const GROWTH_MIB = 32
const EVERY_MS = 100

/** One file of 5 GiB up and down, in pieces: the server's memory stays as it is. */
export async function largeFile({ progress }: PartOptions): Promise<Score> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-trust-'))
  const { bavail, bsize } = await statfs(folder)
  if (bavail * bsize < ROOM) {
    await rm(folder, { recursive: true })
    return { done: 'a large file NOT RUN: the disk has no room', violations: [], figures: [] }
  }
  await mkdir(join(folder, 'data'))
  await writeConfig(folder, undefined, { maxBytes: SIZE })
  const { url: databaseUrl, drop } = await freshDatabase()
  const victim = await startVictim(folder, databaseUrl, 4)
  const violations: string[] = []
  try {
    const memory = () => readMemory(victim.process.pid as number, 'VmRSS') ?? 0
    /** @returns the most memory that the server has meanwhile */
    const during = async (what: string, act: () => Promise<void>): Promise<number> => {
      let most = 0
      const look = setInterval(() => (most = Math.max(most, memory())), EVERY_MS)
      const began = performance.now()
      await act()
      clearInterval(look)
      progress(`large: ${what} in ${((performance.now() - began) / 1000).toFixed(0)} s, at most ${most.toFixed(0)} MiB`)
      return most
    }
    const upAndDown = async (size: number): Promise<readonly number[]> => {
      let hash = ''
      const up = await during(`${size} bytes up`, async () => void (hash = await sendLarge(victim.url, 'f', size)))
      const down = await during(`${size} bytes down`, async () => {
        const got = await readLarge(victim.url, 'f')
        if (got.size !== size || got.hash !== hash || got.etag !== hash) violations.push(`other bytes: ${got.size}`)
      })
      return [up, down]
    }
    const cold = memory()
    await upAndDown(WARM)
    const rest = memory()
    const [up = 0, down = 0] = await upAndDown(SIZE)
    const growth = Math.max(up, down) - rest
    if (growth > GROWTH_MIB) violations.push(`memory grew by ${growth.toFixed(0)} MiB`)
    return {
      done: `${SIZE / GIB} GiB up and down`,
      violations,
      figures: [
        `memory ${cold.toFixed(0)} MiB after the start, ${rest.toFixed(0)} after 64 MiB, at most ${up.toFixed(0)} while 5 GiB go up, ${down.toFixed(0)} down`,
      ],
    }
  } finally {
    victim.process.kill('SIGKILL')
    await victim.gone
    await drop()
    await rm(folder, { recursive: true, force: true })
  }
}
