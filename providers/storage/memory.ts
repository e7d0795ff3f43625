import { addAbortSignal, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { defineProvider } from 'rowhouse'

/** Keeps objects in memory; they are lost with the process. */
export default defineProvider({
  kind: 'storage',
  name: 'memory',
  create() {
    const objects = new Map<string, Buffer>()
    const find = (key: string, signal: AbortSignal): Buffer => {
      signal.throwIfAborted()
      const bytes = objects.get(key)
      if (bytes === undefined) throw Object.assign(new Error(`key "${key}" does not exist`), { code: 'ENOENT' })
      return bytes
    }
    return {
      async put(key, body, signal) {
        if (objects.has(key)) throw exists(key)
        const bytes = await buffer(addAbortSignal(signal, body))
        if (objects.has(key)) throw exists(key)
        objects.set(key, bytes)
        return { size: bytes.length }
      },
      async write(key, pieces, signal) {
        signal.throwIfAborted()
        if (objects.has(key)) throw exists(key)
        objects.set(key, Buffer.concat(pieces))
      },
      async get(key, range, signal) {
        const bytes = find(key, signal)
        return addAbortSignal(signal, Readable.from(chunks(range ? bytes.subarray(range.start, range.end + 1) : bytes)))
      },
      async read(key, { start, end }, signal) {
        return Buffer.from(find(key, signal).subarray(start, end + 1))
      },
      async delete(key) {
        objects.delete(key)
      },
      async *list(signal) {
        for (const [key, { length }] of objects) {
          signal.throwIfAborted()
          yield { key, size: length }
        }
      },
    }
  },
})

const exists = (key: string): Error => Object.assign(new Error(`key "${key}" already exists`), { code: 'EEXIST' })

const CHUNK_BYTES = 65_536

function* chunks(bytes: Buffer) {
  for (let start = 0; start < bytes.length; start += CHUNK_BYTES) yield bytes.subarray(start, start + CHUNK_BYTES)
}
