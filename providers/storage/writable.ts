import { randomUUID } from 'node:crypto'
import { open, stat, statfs, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** Minimum free space, in bytes. A file without bytes fits on a disk that is full. */
const MIN_FREE = 2 ** 20

/**
 * Creates and deletes a file in a folder, and checks that the disk has room. If the folder does not exist, does so in the nearest one above, where it would
 * be created.
 * @throws Error that names the folder in the way, and its owner if that is the reason
 */
export async function assertWritable(folder: string): Promise<void> {
  try {
    await touch(folder)
    await assertRoom(folder)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    const above = dirname(folder)
    if (code === 'ENOENT' && above !== folder) return assertWritable(above)
    const place = await visible(folder)
    const reason = /^[A-Z0-9]+: (.+?), /.exec(message)?.[1] ?? message
    const owner = code === 'EACCES' ? `, owned by uid ${place.uid}, and this is uid ${process.geteuid?.()}` : ''
    throw new Error(`cannot write to ${place.path}: ${reason}${owner}`, { cause: error })
  }
}

/** No key of an object contains a dot. */
async function touch(folder: string): Promise<void> {
  const path = join(folder, `.check-${randomUUID()}`)
  const file = await open(path, 'wx', 0o600)
  await file.close()
  await unlink(path)
}

/** Some file systems do not know their size. */
async function assertRoom(folder: string): Promise<void> {
  const { blocks, bsize, bavail, bfree } = await statfs(folder)
  const free = (process.geteuid?.() === 0 ? bfree : bavail) * bsize
  if (blocks > 0 && free < MIN_FREE) throw new Error(`no space left on device (${free} bytes)`)
}

/** Returns the folder, or the nearest one above that this user may see. */
async function visible(path: string): Promise<{ readonly path: string; readonly uid: number }> {
  const found = await stat(path).catch(() => undefined)
  return found ? { path, uid: found.uid } : visible(dirname(path))
}
