import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import tap, { type Test } from 'tap'
import { filestore, user } from '../kit/files.js'
import { testServer } from '../kit/server.js'

const MIB = 2 ** 20

/** A plugin that reads files for whoever asks; before each look into the store it tells the test. */
const PEEK = `export default { name: 'peek', wants: ['filestore'], async setup(host) {
  const store = await host.provider('storage').catch(() => ({}))
  for (const name of ['get', 'read']) {
    const inner = store[name]?.bind(store)
    store[name] = async (...args) => {
      await globalThis.rowhousePeeks?.(args[0])
      const found = await inner(...args)
      globalThis.rowhousePeeked?.()
      return found
    }
  }
  const files = host.find('filestore')
  host.router.get('/peek', async (ctx) => {
    if (!files) return void (ctx.body = 'no files')
    const { id, most = '10000000' } = ctx.query
    const abort = new AbortController()
    if (ctx.query.gone) globalThis['rowhouse' + ctx.query.gone] = async () => abort.abort(new Error('nobody waits'))
    const { contentType, content } = await files.read(id, Number(most), abort.signal).catch((error) => {
      throw ctx.query.gone && error === abort.signal.reason ? new Error('its own reason') : error
    })
    ctx.set('X-Type', contentType)
    ctx.body = Buffer.from(content)
    content.fill(0)
  })
  host.formatError(({ status, code, message, cause }) => ({ status, code, message, cause: cause?.message }))
} }`

tap.test('another plugin reads a whole file', async (t) => {
  const { server, peek } = await withPeek(t)
  const large = Buffer.alloc(3 * MIB, 'large ')
  const contents = { small: Buffer.from('hello'), piece: Buffer.alloc(MIB, 'piece '), large, empty: Buffer.alloc(0) }

  for (const [id, content] of Object.entries(contents)) {
    await server.put(id, content)
    for (const again of ['', ', again']) {
      const got = await peek(id)
      t.match(got, { status: 200, text: content.toString() }, id + again)
      t.equal(got.headers.get('x-type'), 'text/plain; charset=utf-8')
    }
    t.equal((await server.get(id)).text, content.toString(), 'and a download is as it was')
  }

  await t.test('whoever may read it: that is for the plugin to say', async (t) => {
    t.match(await server.get('small', {}, user), { status: 403 })
    t.match(await server.fetch('/peek?id=small', {}, user), { status: 200, text: 'hello' })
  })
  await t.test('if it is not longer than the plugin takes', async (t) => {
    t.match(await peek('small', 5), { status: 200 })
    const tooLong = {
      status: 413,
      body: { code: 'payload-too-large', message: 'the file "small" is larger than 4 bytes' },
    }
    t.match(await peek('small', 4), tooLong)
    t.match(await peek('empty', 0), { status: 200, text: '' })
  })
  await t.test('if there is one', async (t) => {
    const absent = { status: 404, body: { code: 'not-found', message: 'file not found : absent' } }
    t.match(await peek('absent'), absent)
    t.match(await peek(''), { status: 400, body: { code: 'bad-request', message: 'missing parameter: file_id' } })
    t.match(await peek('a\0b'), { status: 400, body: { code: 'bad-request' } })
  })
})

tap.test('bytes that are lost are an error, never a shorter file', async (t) => {
  const { server, peek } = await withPeek(t, { cacheBytes: 0 })
  const broken = { status: 500, body: { code: 'fatal_internal_error', message: 'internal server error' } }
  for (const [id, size] of Object.entries({ small: 1000, large: 3 * MIB })) {
    await server.put(id, Buffer.alloc(size, 'x'))
    const blob = await server.blobOf(id)

    await truncate(blob, size - 1)
    t.match(await peek(id), { ...broken, body: { cause: /missing/ } }, `${id}: one byte is missing`)
    await writeFile(blob, Buffer.alloc(size + 1))
    t.match(await peek(id), { ...broken, body: { cause: /longer|more/ } }, `${id}: there is one more`)
    await rm(blob)
    t.match(await peek(id), { ...broken, body: { cause: /ENOENT/ } }, `${id}: all are gone`)
  }
})

tap.test('a file that is replaced meanwhile is read anew, and held to the limit again', async (t) => {
  const { server, peek, before } = await withPeek(t)
  const replaceWith = async (id: string, content: string) => {
    const old = await server.blobOf(id)
    await server.put(id, content)
    await rm(old)
  }
  for (const [id, content] of Object.entries({ small: 'old', large: 'o'.repeat(3 * MIB) })) {
    await server.put(id, content)
    before(() => replaceWith(id, 'new one'))
    t.match(await peek(id), { status: 200, text: 'new one' }, id)
  }
  await server.put('small', 'old again')
  before(() => replaceWith('small', 'longer than it may be'))
  t.match(await peek('small', 9), { status: 413 })

  await server.put('small', 'for the last time')
  before(async () => {
    const old = await server.blobOf('small')
    await server.fetch('/v1/file/small', { method: 'DELETE' }, { variables: { 'x-service-user-id': '7' } })
    await rm(old)
  })
  t.match(await peek('small'), { status: 404, body: { message: 'file not found : small' } })
})

tap.test('who does not wait any more is told so', async (t) => {
  const { server, end } = await withPeek(t)
  for (const [id, size] of Object.entries({ small: 1000, large: 3 * MIB })) {
    await server.put(id, Buffer.alloc(size, 'x'))
    t.match(await server.fetch(`/peek?id=${id}&gone=Peeks`), { body: { cause: 'its own reason' } }, id)
    end()
  }
  const halfway = await server.fetch('/peek?id=large&gone=Peeked')
  t.match(halfway, { body: { cause: 'its own reason' } }, 'while bytes are on their way')
})

tap.test('without the filestore a plugin that only wants it has none', async (t) => {
  const server = await testServer(t, { builtins: { peek: peekPlugin(t) } })

  t.match(await server.fetch('/peek?id=a'), { status: 200, text: 'no files' })
})

declare global {
  var rowhousePeeks: ((blob: string) => Promise<void>) | undefined
  var rowhousePeeked: (() => void) | undefined
}

async function withPeek(t: Test, config: object = { permissions: { public: ['read'] } }) {
  const server = await filestore(t, config, { peek: peekPlugin(t) })
  const end = () => {
    globalThis.rowhousePeeks = undefined
    globalThis.rowhousePeeked = undefined
  }
  t.teardown(end)
  return {
    server,
    end,
    peek: (id: string, most = 10 * MIB) => server.fetch(`/peek?id=${encodeURIComponent(id)}&most=${most}`),
    /** What happens before the next look into the store. */
    before(fn: () => Promise<void>) {
      globalThis.rowhousePeeks = async () => {
        end()
        await fn()
      }
    },
  }
}

function peekPlugin(t: Test): URL {
  const folder = mkdtempSync(join(tmpdir(), 'rowhouse-peek-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'peek.mjs')
  writeFileSync(file, PEEK)
  return pathToFileURL(file)
}
