import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setImmediate as turn } from 'node:timers/promises'
import type { ByteRange, ObjectStore, StoredObject } from '../../../core/host/contracts.js'
import { type ContractCase, withDeadlines } from './case.js'
import { patience } from '../patience.js'

/** What an object store has to do. Every case uses keys of its own and removes what it wrote. */
export const storageContract: readonly ContractCase<ObjectStore>[] = withDeadlines([
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
    name: 'a store that reads in one piece gives a range, or what there is of it',
    run: (store) =>
      withObject(store, EVERY_BYTE, async (key) => {
        const read = (start: number, end: number) => store.read?.(key, { start, end }, deadline())
        if (!store.read) return
        assert.deepEqual(await read(0, 255), EVERY_BYTE)
        assert.deepEqual(await read(3, 5), Buffer.from([3, 4, 5]))
        assert.deepEqual(await read(0, 256), EVERY_BYTE)
        assert.deepEqual(await read(250, 1_000_000), EVERY_BYTE.subarray(250))
        assert.deepEqual(await read(256, 300), Buffer.alloc(0))
        await assert.rejects(store.read(randomUUID(), { start: 0, end: 0 }, deadline()), { code: 'ENOENT' })
        await assert.rejects(store.read(key, { start: 0, end: 0 }, AbortSignal.abort()))
      }),
  },
  {
    name: 'a store that writes in one piece does so once, and nothing when it is too late',
    async run(store) {
      if (!store.write) return
      const key = randomUUID()
      const other = randomUUID()
      await store.write(key, [EVERY_BYTE, Buffer.alloc(0), EVERY_BYTE.subarray(1)], deadline())
      await store.write(other, [], deadline())
      await assert.rejects(store.write(key, [Buffer.from('other')], deadline()))
      const written = await Promise.all([get(store, key), get(store, other)])
      for (const each of [key, other]) await store.delete(each)

      assert.deepEqual(written, [Buffer.concat([EVERY_BYTE, EVERY_BYTE.subarray(1)]), Buffer.alloc(0)])
      await assert.rejects(store.write(key, [EVERY_BYTE], AbortSignal.abort()))
      await assertNothing(store, key)
    },
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
      await assertNothing(store, key)
    },
  },
  {
    name: 'a large put that is aborted in the middle rejects and leaves nothing',
    async run(store) {
      const key = randomUUID()
      const abort = new AbortController()
      const rest = pieces()
      const body = new Readable({
        read() {
          const { value, done } = rest.next()
          if (done) setImmediate(() => abort.abort())
          else this.push(value)
        },
      })

      await assert.rejects(store.put(key, body, abort.signal))
      await assertNothing(store, key)
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
      await assertNothing(store, key)
    },
  },
  {
    name: 'a large body that breaks off near its end makes put reject and leaves nothing',
    async run(store) {
      const key = randomUUID()
      const body = Readable.from(
        (async function* () {
          yield* pieces()
          await turn()
          throw new Error('the client went away')
        })(),
      )

      await assert.rejects(store.put(key, body, deadline()))
      await assertNothing(store, key)
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
      const borders = [4, 5, 8].map((mebibytes) => mebibytes * 1_048_576)
      const across = await Promise.all(borders.map((at) => get(store, key, { start: at - 1, end: at })))
      await store.delete(key)

      assert.equal(size, LARGE_PIECES * PIECE_BYTES)
      assert.equal(read.digest('hex'), written.digest('hex'))
      assert.ok(largest < size, 'the object came in one piece')
      assert.deepEqual(
        across.map((bytes) => [...bytes]),
        borders.map((at) => [at / PIECE_BYTES - 1, at / PIECE_BYTES]),
      )
    },
  },
  {
    name: 'a reader that leaves halfway, or is told to, hurts nobody',
    async run(store) {
      const key = randomUUID()
      const written = createHash('sha256')
      await store.put(key, Readable.from(pieces(written)), deadline())
      const abandoned = await store.get(key, undefined, deadline())
      for await (const chunk of abandoned) {
        assert.ok(chunk)
        break
      }
      const abort = new AbortController()
      const cut = await store.get(key, undefined, abort.signal)
      await assert.rejects(async () => {
        for await (const chunk of cut) if (chunk) abort.abort()
      })
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
    name: 'a store that lists says what it holds, with sizes, until it is deleted',
    async run(store) {
      if (!store.list) return
      const keys = Array.from({ length: 3 }, () => randomUUID())
      for (const [i, key] of keys.entries())
        await store.put(key, Readable.from([EVERY_BYTE.subarray(0, i)]), deadline())
      const before = await list(store)
      for (const key of keys.slice(1)) await store.delete(key)
      const after = await list(store)
      await store.delete(keys[0] as string)

      for (const [i, key] of keys.entries()) assert.equal(before.get(key), i)
      for (const [i, key] of keys.entries()) assert.equal(after.get(key), i === 0 ? 0 : undefined)
    },
  },
  {
    name: 'listing ends when nobody waits any more',
    run: (store) =>
      withObject(store, EVERY_BYTE, async () => {
        if (store.list) await assert.rejects(list(store, AbortSignal.abort()))
      }),
  },
  {
    name: 'a signed address gives the bytes as what it was signed for (where the store has them)',
    async run(store) {
      const { signedUrl } = store
      if (!signedUrl) return
      await withObject(store, EVERY_BYTE, async (key) => {
        const disposition = 'attachment; filename="a b.bin"'
        const url = await signedUrl.call(store, key, { expiresInSeconds: 60, contentType: 'image/png', disposition })
        const answer = await fetch(url, { signal: deadline() })

        assert.equal(answer.status, 200)
        assert.equal(answer.headers.get('content-type'), 'image/png')
        assert.equal(answer.headers.get('content-disposition'), disposition)
        assert.deepEqual(Buffer.from(await answer.arrayBuffer()), EVERY_BYTE)
      })
    },
  },
  {
    name: 'closing succeeds',
    async run(store) {
      await store.close?.()
    },
  },
])

const DEADLINE_MS = patience(60_000)
const EVERY_BYTE = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
const PIECE_BYTES = 65_536
const LARGE_PIECES = 192

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

async function list(store: ObjectStore, signal = deadline()): Promise<ReadonlyMap<string, number>> {
  const all = new Map<string, number>()
  for await (const { key, size } of store.list?.(signal) ?? []) {
    assert.ok(!all.has(key), 'an object was listed twice')
    all.set(key, size)
  }
  return all
}

async function listed(store: ObjectStore, key: string): Promise<readonly StoredObject[]> {
  const found: StoredObject[] = []
  for await (const object of store.list?.(deadline()) ?? []) if (object.key === key) found.push(object)
  return found
}

async function assertNothing(store: ObjectStore, key: string): Promise<void> {
  await assert.rejects(get(store, key), { code: 'ENOENT' })
  assert.deepEqual(await listed(store, key), [])
}

function* pieces(hash?: { update(bytes: Buffer): unknown }) {
  for (let i = 0; i < LARGE_PIECES; i++) {
    const piece = Buffer.alloc(PIECE_BYTES, i)
    hash?.update(piece)
    yield piece
  }
}
