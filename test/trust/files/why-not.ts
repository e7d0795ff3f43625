import { spawnSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeDiskImage } from './disk-image.js'

/** @returns why no server can be held by strace here */
export function whyNoTrace(): string | undefined {
  const { status, stderr, error } = spawnSync('strace', ['-o', '/dev/null', 'true'], { encoding: 'utf8' })
  if (error) return 'strace is missing'
  return status === 0 ? undefined : `strace may not trace: ${stderr.trim()}`
}

/** @returns why the power of no disk can be cut here */
export async function whyNoPower(): Promise<string | undefined> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-trust-'))
  try {
    const image = await makeDiskImage(join(folder, 'image'), join(folder, 'disk'))
    try {
      image.cut()
    } finally {
      await image.remove()
    }
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
