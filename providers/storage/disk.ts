import { type FileHandle, mkdir, open, readdir, stat, unlink } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { addAbortSignal, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { callbackify } from 'node:util'
import { defineProvider, setting, type StoredObject } from 'rowhouse'
import { assertWritable } from './writable.js'

/** Maximum size of one read or write, in bytes. */
const PIECE_BYTES = 2 ** 20
const KEY = /^[0-9A-Za-z-]{2,}$/
const FOLDERS = Array.from({ length: 256 }, (_, i) => i.toString(16).padStart(2, '0'))

/**
 * Stores each object as a file that is written once. With the durability `full`, completed `put` and `delete` calls
 * survive a power failure; with `process`, only the end of the process.
 */
export default defineProvider({
  kind: 'storage',
  name: 'disk',
  config: {
    type: 'object',
    properties: {
      root: setting.text('Folder for the files. Defaults to "files" in the data directory.'),
      durability: setting.choice(
        ['full', 'process'],
        'full',
        'Durability of a finished upload. With `full`, it survives a power failure; with `process`, only the end of the process.',
      ),
    },
  },
  check: ({ root }, { dataDir }) => assertWritable(join(folderOf(dataDir, root), FOLDERS[0] as string)),
  async create({ root, durability }, { dataDir }) {
    const folder = folderOf(dataDir, root)
    const full = durability === 'full'
    const flushEntries = full ? directoryFlushes() : async () => {}
    await makeFolders(folder, full)
    const locate = (key: string) => {
      if (!KEY.test(key)) throw new Error(`"${key}" is not a valid key`)
      const directory = join(folder, key.slice(-2).toLowerCase())
      return { directory, path: join(directory, key) }
    }
    /** Creates the file of a key and calls `write`. Deletes the file when `write` fails. */
    const create = async <T>(key: string, write: (file: FileHandle) => Promise<T>): Promise<T> => {
      const { directory, path } = locate(key)
      // Fails if the file exists. It is not read before this function returns.
      const file = await open(path, 'wx')
      try {
        const result = await write(file)
        if (full) await file.sync()
        await file.close()
        await flushEntries(directory)
        return result
      } catch (error) {
        await file.close().catch(() => {})
        await unlink(path).catch(() => {})
        throw error
      }
    }

    return {
      async put(key, body, signal) {
        return create(key, async (file) => {
          const writer = new Writer(file)
          await pipeline(body, writer, { signal })
          return { size: writer.written }
        })
      },
      async write(key, pieces, signal) {
        signal.throwIfAborted()
        await create(key, (file) => writeAll(file, pieces))
      },
      async get(key, range, signal) {
        signal.throwIfAborted()
        const file = await open(locate(key).path)
        return addAbortSignal(signal, file.createReadStream({ ...range, highWaterMark: PIECE_BYTES }))
      },
      async read(key, { start, end }, signal) {
        signal.throwIfAborted()
        const file = await open(locate(key).path)
        try {
          return await readAll(file, start, end - start + 1)
        } finally {
          await file.close()
        }
      },
      async delete(key) {
        const { directory, path } = locate(key)
        await unlink(path).catch(ignoreMissing)
        await flushEntries(directory)
      },
      list: (signal) => listAll(folder, signal),
      path: (key) => locate(key).path,
    }
  },
})

const folderOf = (dataDir: string, root = 'files'): string => resolve(dataDir, root)

/** Collects bytes for the next write while the previous one is running. */
class Writer extends Writable {
  /** Number of bytes written. */
  written = 0
  private waiting: Buffer[] = []
  private length = 0

  constructor(private readonly file: FileHandle) {
    super({ highWaterMark: PIECE_BYTES })
  }

  override _writev(chunks: readonly { readonly chunk: Buffer }[], done: (error?: Error | null) => void): void {
    for (const { chunk } of chunks) {
      this.waiting.push(chunk)
      this.length += chunk.length
    }
    if (this.length < PIECE_BYTES) done()
    else this.flush(done)
  }

  override _final(done: (error?: Error | null) => void): void {
    if (this.length === 0) done()
    else this.flush(done)
  }

  private readonly flush = callbackify(async () => {
    const { waiting, length } = this
    this.waiting = []
    this.length = 0
    await writeAll(this.file, waiting)
    this.written += length
  })
}

async function writeAll(file: FileHandle, pieces: readonly Buffer[]): Promise<void> {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
  if (length === 0) return
  const { bytesWritten } = await file.writev(pieces)
  if (bytesWritten < length) await writeAll(file, [Buffer.concat(pieces).subarray(bytesWritten)])
}

async function readAll(file: FileHandle, start: number, most: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(most)
  for (let read = 0; read < most;) {
    const { bytesRead } = await file.read(bytes, read, most - read, start + read)
    if (bytesRead === 0) return bytes.subarray(0, read)
    read += bytesRead
  }
  return bytes
}

/** Yields files in the place of their key; ignores foreign files in the folder. */
async function* listAll(folder: string, signal: AbortSignal): AsyncIterable<StoredObject> {
  for (const ends of groups(FOLDERS, 16)) {
    signal.throwIfAborted()
    const keys = (await Promise.all(ends.map((end) => keysIn(folder, end)))).flat()
    for (const some of groups(keys, 64)) {
      const files = await Promise.all(
        some.map((key) => stat(join(folder, key.slice(-2).toLowerCase(), key)).catch(ignoreMissing)),
      )
      for (const [i, file] of files.entries()) if (file?.isFile()) yield { key: some[i] as string, size: file.size }
    }
  }
}

async function keysIn(folder: string, end: string): Promise<readonly string[]> {
  const names = (await readdir(join(folder, end)).catch(ignoreMissing)) ?? []
  return names.filter((name) => KEY.test(name) && name.slice(-2).toLowerCase() === end)
}

const groups = <T>(items: readonly T[], size: number): readonly (readonly T[])[] =>
  Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size))

/** Creates a folder for each of the 256 suffixes of a UUID before the first upload. */
async function makeFolders(folder: string, full: boolean): Promise<void> {
  const made = await mkdir(folder, { recursive: true, mode: 0o700 })
  await Promise.all(FOLDERS.map((name) => mkdir(join(folder, name), { mode: 0o700 }).catch(ignoreExisting)))
  if (!full) return
  await flush(folder)
  // Also flushes the parent folders, in which entries are new, including after a start that was killed.
  const last = resolve(made ?? folder, '..')
  for (let above = resolve(folder, '..'); above.length >= last.length; above = resolve(above, '..')) {
    await flush(above).catch(ignoreForbidden)
    if (above === resolve(above, '..')) break
  }
}

/** Makes the entries of a folder durable. */
async function flush(directory: string): Promise<void> {
  const handle = await open(directory)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Flushes folders. Calls during a flush share the next one, which starts when the current one has ended. */
function directoryFlushes(): (directory: string) => Promise<void> {
  const running = new Map<string, { readonly now: Promise<void>; next?: Promise<void> }>()
  const start = async (directory: string): Promise<void> => {
    const now = flush(directory)
    running.set(directory, { now })
    try {
      await now
    } finally {
      if (running.get(directory)?.now === now) running.delete(directory)
    }
  }
  return (directory) => {
    const current = running.get(directory)
    if (!current) return start(directory)
    return (current.next ??= current.now.catch(() => {}).then(() => start(directory)))
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
function ignoreForbidden(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EACCES') throw error
}
function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error
}
