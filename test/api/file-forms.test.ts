import { EventEmitter } from 'node:events'
import { connect } from 'node:net'
import busboy, { type Busboy } from 'busboy'
import tap from 'tap'
import { onPartHeaders } from '../../plugins/filestore/form.js'
import { admin, filestore, type Files } from '../kit/files.js'
import fc, { cases } from '../kit/property.js'
import { type As, ADMIN_SECRET } from '../kit/server.js'
import { until } from '../kit/until.js'

const bad = (message: RegExp | string) => ({ status: 400, body: { code: 'bad_request', message } })

const send = (server: Files, path: string, body: FormData, method = 'POST', as: As = admin) =>
  server.fetch(path, { method, body }, as)

function form(...files: readonly (readonly [id: string | undefined, text: string, type?: string])[]): FormData {
  const data = new FormData()
  data.append('comment', 'nobody reads this')
  for (const [id, text, type = 'text/plain'] of files) {
    if (id !== undefined) data.append('file_id', id)
    data.append('upload', new Blob([text], { type }), 'name.txt')
  }
  return data
}

tap.test('the headers of parts are read from this version of busboy, and not silently lost with another', async (t) => {
  const parser = busboy({ headers: { 'content-type': 'multipart/form-data; boundary=B' } })
  const types: unknown[] = []
  onPartHeaders(parser, (headers) => types.push(headers['content-type']))
  for (const type of ['text/plain; charset=utf-8', 'a/b; c=d'])
    parser.write(`--B\r\nContent-Disposition: form-data; name="a"\r\nContent-Type: ${type}\r\n\r\nx\r\n`)
  t.same(types, [['text/plain; charset=utf-8'], ['a/b; c=d']], 'a new version of busboy needs a new onPartHeaders')
  t.throws(() => onPartHeaders(new EventEmitter() as Busboy, () => {}), { message: /this version of busboy/ })
})

/** A form as text, for what FormData would not send. */
const raw = (server: Files, body: string | Buffer, type = 'multipart/form-data; boundary=B', path = '/v1/file') =>
  server.fetch(path, { method: 'POST', body: body as string, headers: { 'Content-Type': type } }, admin)

const part = (head: string, text: string) => `--B\r\nContent-Disposition: form-data; ${head}\r\n\r\n${text}\r\n`

tap.test('the files of a form are stored all together or not at all', async (t) => {
  const server = await filestore(t, { maxBytes: 100_000 })
  await server.put('taken', 'x')

  const made = await send(server, '/v1/file', form(['ü/1', 'one'], [undefined, ''], ['3', 'three', 'a/b']))
  t.equal(made.status, 200)
  t.match(made.body, [
    { file_id: 'ü/1', file_size: 3, content_type: 'text/plain' },
    { file_id: /^[0-9a-f-]{36}$/, file_size: 0 },
    { file_id: '3', file_size: 5, content_type: 'a/b' },
  ])
  t.equal((await server.get('ü/1')).text, 'one')
  t.equal((await server.get(made.body[1].file_id)).text, '')

  t.match(await send(server, '/v1/file', form(['n1', 'x'], ['taken', 'y'])), bad('file already exists : taken'))
  t.match(await send(server, '/v1/file', form(['n1', 'x'], ['n1', 'y'])), bad('file already exists : n1'))
  t.match(await send(server, '/v1/file', form(['n1', 'x'], ['a\u0000', 'y'])), bad(/control characters/))
  t.match(await send(server, '/v1/file', form(['n1', 'x'], ['x'.repeat(2000), 'y'])), bad(/1024 bytes/))
  t.match(await send(server, '/v1/file', form(['n1', 'x'.repeat(60_000)], ['n2', 'y'.repeat(60_000)])), { status: 413 })
  const many = form(...Array.from({ length: 101 }, (_, i): [string, string] => [`m${i}`, 'x']))
  t.match(await send(server, '/v1/file', many), bad(/at most 100 files/))
  for (const id of ['n1', 'n2', 'm0']) t.equal((await server.get(id)).status, 404, id)
  await until('nothing is left over', async () => (await server.blobs()) === 4)
})

tap.test('a form whose connection breaks leaves nothing', async (t) => {
  const server = await filestore(t)
  const { hostname, port } = new URL(server.url)
  const body = form(['a', 'done'])
  const whole = Buffer.from(await new Response(body).arrayBuffer())
  for (const length of [whole.length - 10, whole.length - 100, 50]) {
    const socket = connect(Number(port), hostname)
    socket.write(
      `POST /v1/file HTTP/1.1\r\nHost: x\r\nX-Service-Admin-Secret: ${ADMIN_SECRET}\r\nX-Service-User-Id: 7\r\n` +
        `Content-Type: multipart/form-data; boundary=${whole.subarray(2, whole.indexOf('\r\n')).toString()}\r\nContent-Length: ${whole.length}\r\n\r\n`,
    )
    socket.write(whole.subarray(0, length))
    await new Promise((resolve) => setTimeout(resolve, 50))
    socket.destroy()
  }
  await until('nothing is left over', async () => (await server.blobs()) === 0)
  t.equal((await server.get('a')).status, 404)
})

tap.test('damaged forms have an answer, and leave nothing but what they say', async (t) => {
  const server = await filestore(t)
  const whole = Buffer.from(
    `${part('name="file_id"', 'f')}${part('name="f"; filename="a.txt"', 'hello')}${part('name="g"; filename="b"', 'bye')}--B--\r\n`,
  )
  const damage = fc.array(
    fc.record({
      at: fc.nat({ max: whole.length - 1 }),
      cut: fc.nat({ max: 40 }),
      put: fc.oneof(fc.constantFrom('\r\n', '--B', '--B--', '"', ';', '\0'), fc.string({ maxLength: 8 })),
    }),
    { minLength: 1, maxLength: 4 },
  )
  let kept = 0
  await fc.assert(
    fc.asyncProperty(damage, async (changes) => {
      let body = whole
      for (const { at, cut, put } of changes) {
        body = Buffer.concat([body.subarray(0, at), Buffer.from(put), body.subarray(at + cut)])
      }
      const { status, body: answer } = await raw(server, body)
      if (status !== 200) return status === 400
      kept += answer.length
      for (const { file_id: id } of answer)
        await server.fetch(`/v1/file/${encodeURIComponent(id)}`, { method: 'DELETE' }, admin)
      return true
    }),
    { numRuns: cases(200, 'ROWHOUSE_FUZZ_RUNS') },
  )
  await until('only deleted bytes are left', async () => (await server.blobs()) === kept)
})
