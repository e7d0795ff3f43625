import { randomUUID } from 'node:crypto'
import { open, stat, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/**
 * Creates and deletes a file in a folder. If the folder does not exist, does so in the nearest one above, where it would
 * be created.
 * @throws Error that names the folder in the way, and its owner if that is the reason
 */
export async function assertWritable(folder: string): Promise<void> {
  try {
    await touch(folder)
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

/** Returns the folder, or the nearest one above that this user may see. */
async function visible(path: string): Promise<{ readonly path: string; readonly uid: number }> {
  const found = await stat(path).catch(() => undefined)
  return found ? { path, uid: found.uid } : visible(dirname(path))
}
