import { once } from 'node:events'
import { Agent, request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { httpApp } from '../kit/http-app.js'
import { patience } from '../kit/patience.js'

const MIB = 1024 * 1024

t.test('C1: connections that send nothing, or too slowly, are closed and others served', async (t) => {
  const { base, get } = await httpApp(t, { headersTimeoutMs: patience(1_000) })
  const starts = ['', 'G', 'GET /echo HTTP/1.1\r\nHost: a\r\nA: ']

  const slow = starts
    .flatMap((begin) => Array.from({ length: 30 }, () => begin))
    .map(async (begin) => {
      const socket = connect(Number(new URL(base).port), '127.0.0.1')
        .on('error', () => {})
        .resume()
      socket.write(begin)
      const trickle = setInterval(() => begin !== '' && socket.write('a'), 50)
      await once(socket, 'close')
      clearInterval(trickle)
    })
  const good = Array.from({ length: 30 }, () => get('/echo'))

  t.ok((await Promise.all(good)).every(({ status }) => status === 200))
  await Promise.all(slow)
  t.pass('all were closed')
})

t.test('a connection that is owed a hundred answers is cut', async (t) => {
  const { base, release, calls } = await httpApp(t)
  const request = 'GET /wait HTTP/1.1\r\nhost: x\r\n\r\n'
  const socket = connect(Number(new URL(base).port), '127.0.0.1')
  socket.on('error', () => undefined)
  socket.write(request.repeat(100))
  await until(() => calls.length > 0)
  t.equal(socket.destroyed, false)
  const closed = new Promise((resolve) => socket.once('close', resolve))
  socket.write(request)
  await closed
  release()
})

t.test('P8: a drain under load fails no request', async (t) => {
  let failed = 0
  let answered = 0
  let apps = [await httpApp(t), await httpApp(t)]
  const stop = new AbortController()
  const clients = Array.from({ length: 8 }, async () => {
    const agent = new Agent({ keepAlive: true })
    let target = 0
    while (!stop.signal.aborted) {
      const result = await once200(`${apps[target]!.base}/echo`, agent)
      if (result === 'refused') target = 1 - target
      else if (result === 'ok') answered++
      else failed++
    }
    agent.destroy()
  })

  for (let roll = 0; roll < 4; roll++) {
    const before = answered
    await until(() => answered > before + 500)
    const gone = apps[roll % 2]!
    const slow = gone.get('/wait')
    await until(() => gone.calls.includes('wait'))
    const drained = gone.app.drain()
    await until(() => gone.app.state === 'draining')
    gone.release()
    t.equal((await slow).status, 200)
    await drained
    apps = apps.with(roll % 2, await httpApp(t))
  }
  stop.abort()
  await Promise.all(clients)

  t.equal(failed, 0, `${answered} requests answered`)
})

t.test('a drain', async (t) => {
  await t.test('says so while the listener is still open', async (t) => {
    const { app, get } = await httpApp(t, { drainDelayMs: 1_500, metrics: 'open' })
    const drained = app.drain()
    t.equal(app.state, 'leaving')
    const answer = await get('/readyz')
    t.equal(answer.status, 503)
    t.match(await answer.json(), { status: 'not ready', probes: [{ name: 'draining', ok: false }] })
    t.equal((await get('/healthz')).status, 200)
    await drained
    await t.rejects(get('/healthz'), 'nobody listens any more')
  })
  await t.test('is one drain, however often it is asked for, and closing after it is harmless', async (t) => {
    const { app } = await httpApp(t)
    const first = app.drain()
    t.equal(app.drain(), first)
    await first
    await app.close()
    t.equal(app.state, 'closed')
    t.equal(app.address, undefined)
  })
  await t.test('does not wait for connections that nobody uses', async (t) => {
    const { app, base } = await httpApp(t, { drainTimeoutMs: 600_000, headersTimeoutMs: 600_000 })
    const opened = connect(Number(new URL(base).port), '127.0.0.1').resume()
    await once(opened, 'connect')
    const agent = new Agent({ keepAlive: true })
    t.equal(await once200(`${base}/echo`, agent), 'ok')
    await app.drain()
    agent.destroy()
  })
  await t.test('serves the connections that wait', async (t) => {
    const { app, base } = await httpApp(t)
    await setImmediate()
    const waiting = Array.from({ length: 20 }, () => once200(`${base}/echo`, new Agent()))
    // By then the system has connected them, and the server has not accepted them.
    process.nextTick(() => process.nextTick(stall, 50))
    const drained = app.drain()
    t.same(await Promise.all(waiting), Array<string>(20).fill('ok'))
    await drained
  })
  await t.test('reads what has come before it ends connections, also on a busy machine', async (t) => {
    const { app, base } = await httpApp(t)
    const socket = connect(Number(new URL(base).port), '127.0.0.1').on('error', () => {})
    await once(socket, 'connect')
    socket.write('GET /echo HTTP/1.1\r\nHost: a\r\n\r\n')
    await once(socket, 'data')
    const drained = app.drain()
    await until(() => app.state === 'draining')
    // After it come the timers, before what has arrived.
    await setImmediate()
    socket.write('GET /echo HTTP/1.1\r\nHost: a\r\n\r\n')
    stall(1_200)
    t.match(String((await Promise.race([once(socket, 'data'), once(socket, 'close')]))[0]), /200 OK/)
    await drained
  })
  await t.test('answers with Connection: close, and cuts what does not end in time', async (t) => {
    const { app, base, get, calls } = await httpApp(t, { drainTimeoutMs: patience(2_000) })
    const stuck = t.rejects(get('/wait'))
    await until(() => calls.includes('wait'))
    const socket = connect(Number(new URL(base).port), '127.0.0.1').on('error', () => {})
    await once(socket, 'connect')
    // The server has taken it from its queue once an answer has come.
    socket.write('GET /echo HTTP/1.1\r\nHost: a\r\n\r\n')
    t.match(String((await once(socket, 'data'))[0]), /keep-alive/)
    const drained = app.drain()
    await until(() => app.state === 'draining')
    socket.write('GET /echo HTTP/1.1\r\nHost: a\r\n\r\n')
    t.match(String((await once(socket, 'data'))[0]), /Connection: close/i)
    await drained
    await stuck
  })
})

t.test('a client that sends 20 MiB to their end can read why they were refused', async (t) => {
  const { post } = await httpApp(t, { maxJsonBytes: 1000 })

  const answer = await post('x'.repeat(20 * MIB))

  t.equal(answer.status, 413)
  t.match(await answer.json(), { code: 'payload-too-large' })
})

t.test('a client that sends a large body first and reads later gets its answer', async (t) => {
  const { base, errors } = await httpApp(t, { maxJsonBytes: 1000 })
  const socket = connect(Number(new URL(base).port), '127.0.0.1').pause()
  socket.write(`POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: ${20 * MIB}\r\n\r\n${'x'.repeat(MIB)}`)
  await until(() => errors.length > 0)
  await sleep(50)
  socket.write('x'.repeat(MIB))
  await sleep(50)
  const received = once(socket, 'data')
  socket.resume()
  t.match(String((await received)[0]), /^HTTP\/1.1 413 /)
  socket.destroy()
})

// What the tests need.

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(5)
}

/** Keeps the process from doing anything, as a busy machine does. */
const stall = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)

/** One GET on a connection of the agent: a refused connection is not a failed request. */
function once200(url: string, agent: Agent): Promise<'ok' | 'refused' | 'failed'> {
  return new Promise((resolve) => {
    const req = httpRequest(url, { agent }, (res) => {
      res.on('error', () => resolve('failed'))
      res.on('end', () => resolve(res.complete && res.statusCode === 200 ? 'ok' : 'failed'))
      res.resume()
    })
    req.on('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'ECONNREFUSED' ? 'refused' : 'failed'))
    req.end()
  })
}
