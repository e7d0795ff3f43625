import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setImmediate as turn } from 'node:timers/promises'
import type { ByteRange, ObjectStore } from '../../../core/contracts.js'
import type { ContractCase } from './case.js'

/** What an object store has to do. Every case uses keys of its own and removes what it wrote. */
export const storageContract: readonly ContractCase<ObjectStore>[] = [
  {
    name: 'what was put is got back, byte for byte',
    run: (store) =>
      withObject(store, EVERY_BYTE, async (key) => {
        assert.deepEqual(await get(store, key), EVERY_BYTE)
      }),
  },
  {
    name: 'put tells how many bytes it stored',
    async run(store) {
      const key = randomUUID()
      const { size } = await store.put(key, Readable.from([EVERY_BYTE, EVERY_BYTE]), deadline())
      await store.delete(key)

      assert.equal(size, 2 * EVERY_BYTE.length)
    },
  },
  {
    name: 'an empty object is an object',
    run: (store) =>
      withObject(store, Buffer.alloc(0), async (key) => {
        assert.equal((await get(store, key)).length, 0)
      }),
  },
  {
    name: 'a range has both its ends',
    run: (store) =>
      withObject(store, EVERY_BYTE, async (key) => {
        assert.deepEqual(await get(store, key, { start: 3, end: 5 }), Buffer.from([3, 4, 5]))
        assert.deepEqual(await get(store, key, { start: 0, end: 0 }), Buffer.from([0]))
        assert.deepEqual(await get(store, key, { start: 255, end: 255 }), Buffer.from([255]))
        assert.deepEqual(await get(store, key, { start: 0, end: 255 }), EVERY_BYTE)
      }),
  },
  {
    name: 'a key that does not exist is ENOENT',
    async run(store) {
      await assert.rejects(get(store, randomUUID()), { code: 'ENOENT' })
    },
  },
  {
    name: 'a deleted object is gone, and deleting it again succeeds',
    async run(store) {
      const key = randomUUID()
      await store.put(key, Readable.from([EVERY_BYTE]), deadline())

      await store.delete(key)
      await store.delete(key)

      await assert.rejects(get(store, key), { code: 'ENOENT' })
    },
  },
  {
    name: 'a key is written once, and a second put leaves the first as it is',
    run: (store) =>
      withObject(store, EVERY_BYTE, async (key) => {
        await assert.rejects(store.put(key, Readable.from([Buffer.from('other')]), deadline()))
        assert.deepEqual(await get(store, key), EVERY_BYTE)
      }),
  },
  {
    name: 'an aborted put rejects and leaves nothing',
    async run(store) {
      const key = randomUUID()
      const abort = new AbortController()
      const body = new Readable({ read() {} })
      body.push(EVERY_BYTE)
      setImmediate(() => abort.abort())

      await assert.rejects(store.put(key, body, abort.signal))
      await assert.rejects(get(store, key), { code: 'ENOENT' })
    },
  },
  {
    name: 'a body that breaks off makes put reject and leaves nothing',
    async run(store) {
      const key = randomUUID()
      const body = Readable.from(
        (async function* () {
          yield EVERY_BYTE
          await turn()
          throw new Error('the client went away')
        })(),
      )

      await assert.rejects(store.put(key, body, deadline()))
      await assert.rejects(get(store, key), { code: 'ENOENT' })
    },
  },
  {
    name: 'get rejects when nobody waits any more',
    run: (store) =>
      withObject(store, EVERY_BYTE, async (key) => {
        await assert.rejects(store.get(key, undefined, AbortSignal.abort()).then((body) => buffer(body)))
      }),
  },
  {
    name: 'a large object goes in and out in pieces, to a slow reader too',
    async run(store) {
      const key = randomUUID()
      const written = createHash('sha256')
      const { size } = await store.put(key, Readable.from(pieces(written)), deadline())
      const read = createHash('sha256')
      let largest = 0
      for await (const chunk of await store.get(key, undefined, deadline())) {
        assert.ok(Buffer.isBuffer(chunk))
        largest = Math.max(largest, chunk.length)
        read.update(chunk)
        await turn()
      }
      await store.delete(key)

      assert.equal(size, LARGE_PIECES * PIECE_BYTES)
      assert.equal(read.digest('hex'), written.digest('hex'))
      assert.ok(largest < size, 'the object came in one piece')
    },
  },
  {
    name: 'a reader that leaves halfway hurts nobody',
    async run(store) {
      const key = randomUUID()
      const written = createHash('sha256')
      await store.put(key, Readable.from(pieces(written)), deadline())
      const abandoned = await store.get(key, undefined, deadline())
      for await (const chunk of abandoned) {
        assert.ok(chunk)
        break
      }
      const whole = await get(store, key)
      await store.delete(key)

      assert.ok(abandoned.destroyed)
      assert.equal(createHash('sha256').update(whole).digest('hex'), written.digest('hex'))
    },
  },
  {
    name: 'readers at the same time each get all of it',
    run: (store) =>
      withObject(store, EVERY_BYTE, async (key) => {
        const all = await Promise.all(Array.from({ length: 8 }, () => get(store, key)))
        for (const bytes of all) assert.deepEqual(bytes, EVERY_BYTE)
      }),
  },
  {
    name: 'closing succeeds',
    async run(store) {
      await store.close?.()
    },
  },
]

const DEADLINE_MS = 60_000
const EVERY_BYTE = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
const PIECE_BYTES = 65_536
const LARGE_PIECES = 128

const deadline = () => AbortSignal.timeout(DEADLINE_MS)

async function withObject(store: ObjectStore, bytes: Buffer, check: (key: string) => Promise<void>): Promise<void> {
  const key = randomUUID()
  await store.put(key, Readable.from(bytes.length === 0 ? [] : [bytes]), deadline())
  try {
    await check(key)
  } finally {
    await store.delete(key)
  }
}

async function get(store: ObjectStore, key: string, range?: ByteRange): Promise<Buffer> {
  return buffer(await store.get(key, range, deadline()))
}

function* pieces(hash: { update(bytes: Buffer): unknown }) {
  for (let i = 0; i < LARGE_PIECES; i++) {
    const piece = Buffer.alloc(PIECE_BYTES, i)
    hash.update(piece)
    yield piece
  }
}
