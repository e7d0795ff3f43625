import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { httpApp } from '../kit/http-app.js'

const ECHO = 'GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'

t.test('garbage behind a request does not become its answer', async (t) => {
  const { base, calls } = await httpApp(t)

  t.notMatch(
    await send(
      { port: Number(new URL(base).port), host: '127.0.0.1' },
      'GET /wait HTTP/1.1\r\nHost: a\r\n\r\n\x00\x00garbage\r\n\r\n',
    ),
    /HTTP\/1.1/,
  )
  t.equal(calls[0], 'wait')
})

t.test('a client that goes on sending can read why it was refused', async (t) => {
  const { base } = await httpApp(t, { maxHeaderBytes: 2000 })
  const socket = connect(Number(new URL(base).port), '127.0.0.1')
  const broken: unknown[] = []
  socket.on('error', (error) => broken.push(error))
  const closed = once(socket, 'close')
  let text = ''

  socket.write(`GET /echo HTTP/1.1\r\nHost: a\r\nA: ${'x'.repeat(3000)}`)
  for (let i = 0; i < 20; i++) {
    await sleep(10)
    socket.write('x'.repeat(10_000))
  }
  socket.on('data', (chunk) => (text += chunk.toString()))
  await closed

  t.match(text, /^HTTP\/1.1 431 .*"code":"headers-too-large"/s)
  t.same(text.match(/HTTP\/1\.1/g)?.length, 1, 'it was said once')
  t.same(broken, [])
})

t.test('a unix socket', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-socket-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const path = join(folder, 'http')
  const listenOn = (t: Test) => httpApp(t, { socket: { path } })

  await t.test('takes the place of a file that a killed server left', async (t) => {
    await leaveSocket(path)
    t.ok((await stat(path)).isSocket())

    const { app } = await listenOn(t)

    t.match(await send({ path }, ECHO), /^HTTP\/1.1 200 /)
    await app.close()
  })
  await t.test('has no reset: an answer that breaks off is short of its length', async (t) => {
    const { app } = await listenOn(t)
    const answer = await send({ path }, 'GET /breaks HTTP/1.1\r\nHost: a\r\n\r\n')
    t.match(answer, /first part/)
    t.notMatch(answer, /\r\n0\r\n\r\n$/, 'the last chunk is missing')
    await app.close()
  })
})

// What the tests need.

/** A socket file on which nobody listens any more, as SIGKILL leaves it. */
async function leaveSocket(path: string): Promise<void> {
  const code = `require('node:net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`
  await once(spawn(process.execPath, ['-e', code]), 'exit')
}

/** Sends bytes and reads until the server closes. */
async function send(to: { port: number; host: string } | { path: string }, bytes: string): Promise<string> {
  const socket = connect(to).on('error', () => {})
  const chunks: Buffer[] = []
  socket.on('data', (chunk) => chunks.push(chunk))
  socket.write(bytes, 'latin1')
  await once(socket, 'close')
  return Buffer.concat(chunks).toString()
}
