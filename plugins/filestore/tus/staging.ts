import { randomUUID } from 'node:crypto'
import { constants, createReadStream } from 'node:fs'
import { type FileHandle, link, mkdir, open, readdir, readFile, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'

const CHUNK_BYTES = 256 * 1024
const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/

/** The bytes of uploads that are not complete: a file for each, whose size is how far it has come. */
export class Staging {
  /** Names this folder, wherever it is mounted. */
  readonly place: string
  private readonly folder: string

  private constructor(folder: string, place: string) {
    this.folder = folder
    this.place = place
  }

  /** Makes the folder unless it is there. */
  static async open(folder: string): Promise<Staging> {
    const made = await mkdir(folder, { recursive: true, mode: 0o700 })
    if (made !== undefined) await sync(dirname(folder))
    return new Staging(folder, await placeOf(folder))
  }

  /** Bytes that are here, and would be after a power cut. */
  async size(id: string): Promise<number> {
    const known = await this.with(id, constants.O_WRONLY, async (file) => {
      await file.datasync()
      return file.stat()
    }).catch(ignoreMissing)
    return known?.size ?? 0
  }

  /** Puts bytes behind the first `offset`. What has come of a body that breaks off stays; durable when this settles. */
  async write(id: string, offset: number, body: AsyncIterable<Buffer>): Promise<void> {
    await this.with(id, constants.O_WRONLY | constants.O_CREAT, async (file) => {
      try {
        await writeAll(file, offset, body)
      } finally {
        await this.settle(id, file)
        if (offset === 0) await sync(this.folder)
      }
    })
  }

  /** Takes away what is behind the first `size` bytes. */
  async cut(id: string, size: number): Promise<void> {
    await this.with(id, constants.O_WRONLY, async (file) => {
      // It would fill up a shorter one.
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

  /** The uploads that have bytes here. */
  async list(): Promise<readonly string[]> {
    return (await readdir(this.folder)).filter((name) => UUID.test(name))
  }

  private path(id: string): string {
    if (!UUID.test(id)) throw new Error(`"${id}" is no id of an upload`)
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

  /** After a sync that failed nobody knows which bytes are there. */
  private async settle(id: string, file: FileHandle): Promise<void> {
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
  const read = () => readFile(path, 'utf8')
  const known = await read().catch(ignoreMissing)
  if (known !== undefined) return known
  await makePlace(folder, path)
  return read()
}

/** There as a whole or not at all; who comes second leaves it as it is. */
async function makePlace(folder: string, path: string): Promise<void> {
  const draft = join(folder, `place-${randomUUID()}`)
  const file = await open(draft, 'wx', 0o600)
  try {
    await file.writeFile(randomUUID())
    await file.sync()
  } finally {
    await file.close()
  }
  await link(draft, path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  await unlink(draft)
  await sync(folder)
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
