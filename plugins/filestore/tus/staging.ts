import { randomUUID } from 'node:crypto'
import { constants, createReadStream } from 'node:fs'
import { type FileHandle, link, mkdir, open, readdir, readFile, unlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { isUuid } from '../file-id.js'

const CHUNK_BYTES = 256 * 1024

/** Stores the bytes of unfinished uploads: one file each, whose size is the offset of the upload. */
export class Staging {
  private constructor(
    private readonly folder: string,
    /** Identifies this folder wherever it is mounted. */
    readonly place: string,
  ) {}

  /** Opens the folder. Creates it if missing. */
  static async open(folder: string): Promise<Staging> {
    const made = await mkdir(folder, { recursive: true, mode: 0o700 })
    if (made !== undefined) await sync(dirname(folder))
    return new Staging(folder, await placeOf(folder))
  }

  /** Returns the number of bytes, after making them durable. */
  async size(id: string): Promise<number> {
    const known = await this.with(id, constants.O_WRONLY, async (file) => {
      await file.datasync()
      return file.stat()
    }).catch(ignoreMissing)
    return known?.size ?? 0
  }

  /** Writes bytes from `offset` on. If the body breaks off, the bytes so far are kept. Durable when this settles. */
  async write(id: string, offset: number, body: AsyncIterable<Buffer>): Promise<void> {
    await this.with(id, constants.O_WRONLY | constants.O_CREAT, async (file) => {
      try {
        await writeAll(file, offset, body)
      } finally {
        await this.syncOrRemove(id, file)
        if (offset === 0) await sync(this.folder)
      }
    })
  }

  /** Removes everything after the first `size` bytes. */
  async truncate(id: string, size: number): Promise<void> {
    await this.with(id, constants.O_WRONLY, async (file) => {
      // ftruncate would extend a shorter file.
      if ((await file.stat()).size <= size) return
      await file.truncate(size)
      await file.datasync()
    }).catch(ignoreMissing)
  }

  read(id: string): Readable {
    return createReadStream(this.path(id), { highWaterMark: CHUNK_BYTES })
  }

  async remove(id: string): Promise<void> {
    await unlink(this.path(id)).catch(ignoreMissing)
  }

  /** Lists the ids of uploads with staged bytes. */
  async list(): Promise<readonly string[]> {
    return (await readdir(this.folder)).filter((name) => isUuid(name))
  }

  private path(id: string): string {
    if (!isUuid(id)) throw new Error(`"${id}" is not the id of an upload`)
    return join(this.folder, id)
  }

  private async with<T>(id: string, flags: number, use: (file: FileHandle) => Promise<T>): Promise<T> {
    const file = await open(this.path(id), flags, 0o600)
    try {
      return await use(file)
    } finally {
      await file.close()
    }
  }

  /** Removes the file if the sync fails, because it is then unknown which bytes are on the disk. */
  private async syncOrRemove(id: string, file: FileHandle): Promise<void> {
    try {
      await file.datasync()
    } catch (error) {
      await this.remove(id)
      throw error
    }
  }
}

async function writeAll(file: FileHandle, offset: number, body: AsyncIterable<Buffer>): Promise<void> {
  let at = offset
  for await (const chunk of body) {
    for (let from = 0; from < chunk.length;) {
      const { bytesWritten } = await file.write(chunk, from, chunk.length - from, at)
      from += bytesWritten
      at += bytesWritten
    }
  }
}

async function placeOf(folder: string): Promise<string> {
  const path = join(folder, 'place')
  const known = await readFile(path, 'utf8').catch(ignoreMissing)
  if (known !== undefined) return known
  const draft = join(folder, `place-${randomUUID()}`)
  await writeFile(draft, randomUUID(), { mode: 0o600, flush: true })
  // A link makes the file appear with its content. If two servers start at the same time, the first one wins.
  await link(draft, path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  await unlink(draft)
  await sync(folder)
  return readFile(path, 'utf8')
}

async function sync(folder: string): Promise<void> {
  const handle = await open(folder)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
  return undefined
}
