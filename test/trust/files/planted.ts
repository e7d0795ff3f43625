import { open, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { defineProvider } from 'rowhouse'

const halves = (bytes: Buffer): readonly Buffer[] => {
  const middle = bytes.length >> 1
  return [bytes.subarray(0, middle), bytes.subarray(middle)]
}

/** A store with a fault that the loop has to catch: `in-place` writes over what is there, `late` says done too early. */
export default defineProvider({
  kind: 'storage',
  name: 'planted',
  config: {
    type: 'object',
    properties: {
      root: { type: 'string' },
      fault: { type: 'string', enum: ['in-place', 'late'] },
    },
    required: ['root', 'fault'],
  },
  create({ root, fault }) {
    const place = (key: string) => join(root, fault === 'in-place' ? 'one' : key)
    const write = async (path: string, bytes: Buffer): Promise<void> => {
      const file = await open(path, 'w')
      for (const half of halves(bytes)) await file.write(half)
      await file.close()
    }
    return {
      async put(key, body) {
        const bytes = await buffer(body)
        if (fault === 'in-place') await write(place(key), bytes)
        else setTimeout(() => void write(place(key), bytes), 20)
        return { size: bytes.length }
      },
      async get(key, range) {
        const bytes = await readFile(place(key))
        return Readable.from([range ? bytes.subarray(range.start, range.end + 1) : bytes])
      },
      async delete(key) {
        if (fault === 'late') await writeFile(place(key), '').catch(() => {})
      },
    }
  },
})
