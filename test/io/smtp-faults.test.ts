import { createServer, type AddressInfo } from 'node:net'
import { once } from 'node:events'
import t from 'tap'
import type { EmailSender, SendError } from '../../core/host/contracts.js'
import { patience } from '../kit/patience.js'
import { certificate, mail, sender, soon, USER } from '../kit/smtp.js'
import { startScript, type Step } from '../kit/smtp-script.js'
import { until } from '../kit/until.js'

/** Short, because some cases wait for them. */
const LIMITS = { connectTimeoutMs: patience(1_000), silenceTimeoutMs: patience(1_000), timeoutMs: patience(20_000) }
const settings = { security: 'starttls', ...USER, ...LIMITS } as const

type Result = 'sent' | 'refused' | 'retry' | 'unknown'
const errorOf = (sending: Promise<unknown>): Promise<SendError | undefined> =>
  sending.then(
    () => undefined,
    (error: SendError) => error,
  )
const resultOf = async (sending: Promise<unknown>): Promise<Result> => (await errorOf(sending))?.outcome ?? 'sent'

const closing = { say: '421 4.3.2 closing', cut: true }
const later = { say: '451 4.3.0 later' }
const never = { say: '550 5.7.1 never' }
const garbage = { say: 'x-garbage \x00\xff' }
const FAULTS = { hang: 'hang', cut: 'cut', '421': closing, '4xx': later, '5xx': never, garbage } as const

/** What is known when the server does this at that step, and it did it to the only connection that was tried. */
const TABLE: Readonly<Record<Exclude<Step, 'quit'>, Readonly<Record<keyof typeof FAULTS, Result>>>> = {
  connect: { hang: 'retry', cut: 'retry', '421': 'retry', '4xx': 'retry', '5xx': 'retry', garbage: 'retry' },
  ehlo: { hang: 'retry', cut: 'retry', '421': 'retry', '4xx': 'retry', '5xx': 'retry', garbage: 'retry' },
  starttls: { hang: 'retry', cut: 'retry', '421': 'retry', '4xx': 'retry', '5xx': 'retry', garbage: 'retry' },
  tls: { hang: 'retry', cut: 'retry', '421': 'retry', '4xx': 'retry', '5xx': 'retry', garbage: 'retry' },
  auth: { hang: 'retry', cut: 'retry', '421': 'retry', '4xx': 'retry', '5xx': 'retry', garbage: 'retry' },
  mail: { hang: 'retry', cut: 'retry', '421': 'retry', '4xx': 'retry', '5xx': 'refused', garbage: 'retry' },
  rcpt: { hang: 'retry', cut: 'retry', '421': 'retry', '4xx': 'retry', '5xx': 'refused', garbage: 'retry' },
  data: { hang: 'retry', cut: 'retry', '421': 'retry', '4xx': 'retry', '5xx': 'refused', garbage: 'retry' },
  bytes: { hang: 'unknown', cut: 'unknown', '421': 'unknown', '4xx': 'retry', '5xx': 'refused', garbage: 'unknown' },
  dot: { hang: 'unknown', cut: 'unknown', '421': 'unknown', '4xx': 'retry', '5xx': 'refused', garbage: 'unknown' },
}

for (const extensions of [[], ['PIPELINING']]) {
  t.test(`what is known of a mail when its server fails ${extensions.join('')}`, async (t) => {
    for (const name of Object.keys(FAULTS) as (keyof typeof FAULTS)[]) {
      await Promise.all(
        (Object.keys(TABLE) as (keyof typeof TABLE)[]).map(async (step) => {
          const server = await startScript(t, certificate, extensions)
          const provider = await sender(t, { port: server.port, ...settings })
          server.set({ [step]: FAULTS[name] })

          const error = await errorOf(provider.send(mail(), soon()))

          const what = `${name} at ${step}`
          t.equal(error?.outcome, TABLE[step][name], `${what}: ${error?.message}`)
          t.equal(server.steps.filter((at) => at === step).length, 1, `${what}: it is tried once`)
          t.equal(server.messages.length, step === 'dot' ? 1 : 0, `${what}: and nothing else is sent`)
          t.notMatch(`${error?.message} ${error?.response}`, /correct horse|Y29ycmVjdCBob3JzZQ/)
          t.equal(await resultOf(provider.send(mail(), soon())), 'sent', `${what}: and the next one is sent`)
        }),
      )
    }
  })
}

t.test(
  'a server that behaves badly at the end of a conversation has taken the mail, and closing does not wait for it',
  async (t) => {
    for (const fault of Object.values(FAULTS)) {
      const server = await startScript(t, certificate)
      const provider = await sender(t, { port: server.port, ...settings })
      server.set({ quit: fault })

      t.equal(await resultOf(provider.send(mail(), soon())), 'sent')
      await provider.close?.()
      t.equal(server.steps.at(-1), 'quit')
      t.equal(server.messages.length, 1)
    }
  },
)

for (const extensions of [[], ['PIPELINING']]) {
  t.test(`a kept connection that ends is replaced before the message began ${extensions.join('')}`, async (t) => {
    for (const fault of ['hang', 'cut', closing] as const) {
      await Promise.all(
        (['mail', 'rcpt', 'data', 'bytes', 'dot'] as const).map(async (step) => {
          const server = await startScript(t, certificate, extensions)
          const provider = await sender(t, { port: server.port, ...settings })
          await provider.send(mail(), soon())
          server.set({ [step]: fault })
          const began = step === 'bytes' || step === 'dot'

          const what = `${JSON.stringify(fault)} at ${step}`
          t.equal(await resultOf(provider.send(mail(), soon())), began ? 'unknown' : 'sent', what)
          t.equal(server.messages.length, step === 'bytes' ? 1 : 2, `${what}: it goes out once`)
          t.equal(server.steps.filter((at) => at === 'connect').length, began ? 1 : 2, what)
        }),
      )
    }
  })
}

t.test('an answer that comes before the end of a message is not believed', async (t) => {
  const server = await startScript(t, certificate)
  const provider = await sender(t, { port: server.port, ...settings })
  server.set({ bytes: { say: '250 taken' }, dot: 'hang' })
  const attachments = [{ filename: 'x', contentType: 'image/png', content: Buffer.alloc(20_000_000) }]

  t.equal(await resultOf(provider.send(mail({ attachments }), soon())), 'unknown')
})

t.test('who does not wait any more ends the sending', async (t) => {
  for (const [step, result] of [
    ['connect', 'retry'],
    ['auth', 'retry'],
    ['rcpt', 'retry'],
    ['dot', 'unknown'],
  ] as const) {
    const server = await startScript(t, certificate)
    const provider = await sender(t, {
      port: server.port,
      ...settings,
      connectTimeoutMs: patience(30_000),
      silenceTimeoutMs: patience(30_000),
    })
    server.set({ [step]: 'hang' })
    const aborter = new AbortController()
    const sending = errorOf(provider.send(mail(), aborter.signal))
    await until('the server hangs', () => server.steps.includes(step))
    aborter.abort(new Error('gone home'))
    t.match(await sending, { outcome: result, message: 'gone home' }, step)
  }
})

t.test('who waits for a free connection waits no longer than a mail may take, and nothing of it is sent', async (t) => {
  const server = await startScript(t, certificate)
  const limits = {
    connections: 1,
    connectTimeoutMs: patience(30_000),
    silenceTimeoutMs: patience(30_000),
    timeoutMs: patience(1_500),
  }
  const provider = await sender(t, { port: server.port, ...settings, ...limits })
  server.set({ dot: 'hang' })
  const results = Promise.all([resultOf(provider.send(mail(), soon())), resultOf(provider.send(mail(), soon()))])
  await until('the first mail is on its way', () => server.messages.length === 1)
  // The first gives its place back just before the time of the second ends: too late for another connection.
  server.set({ connect: 'hang' })

  t.same(await results, ['unknown', 'retry'])
  t.equal(server.messages.length, 1)
  server.set({})
  t.equal(await resultOf(provider.send(mail(), soon())), 'sent', 'and the place is free again')
})

t.test('a server that never comes to an end of what it says is not waited for', async (t) => {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.write('220 localhost\r\n')
    const drip = setInterval(() => socket.write('250-still here\r\n'), 50)
    socket.on('close', () => clearInterval(drip))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const provider = await sender(t, {
    port: (server.address() as AddressInfo).port,
    ...settings,
    timeoutMs: patience(3_000),
  })

  const error = await errorOf(provider.send(mail(), soon()))
  t.match(error, { outcome: 'retry', message: /aborted due to timeout/ })
})

t.test('where no server is, the mail may be sent elsewhere', async (t) => {
  const closed = createServer().listen(0, '127.0.0.1')
  await once(closed, 'listening')
  const { port } = closed.address() as AddressInfo
  closed.close()
  await once(closed, 'close')
  const ask = async (more: object): Promise<Result> => {
    const provider: EmailSender = await sender(t, { ...settings, port, ...more })
    return resultOf(provider.send(mail(), soon()))
  }

  t.equal(await ask({}), 'retry')
  t.equal(await ask({ host: 'nowhere.invalid' }), 'retry')
  t.equal(await ask({ security: 'tls' }), 'retry')
})

t.test('a server says what it thinks of us, of the mail, or of its size', async (t) => {
  const server = await startScript(t, certificate, ['SIZE 2000'])
  const provider = await sender(t, { port: server.port, ...settings })
  const answers = [
    ['mail', '530 5.7.0 authenticate first', 'retry'],
    ['rcpt', '521 we take no mail', 'retry'],
    ['mail', '503 first things first', 'retry'],
    ['rcpt', '501 bad address', 'refused'],
    ['dot', '554 5.7.1 spam', 'refused'],
    ['dot', '452 full', 'retry'],
    ['mail', '552 5.3.4 message too big', 'refused', true],
    ['data', '552 too much', 'refused', true],
    ['dot', '552 5.3.4 too much', 'refused', true],
    ['dot', '554 5.3.4 too much', 'refused', true],
    ['dot', '552 5.2.2 the mailbox is full', 'refused'],
  ] as const
  for (const [step, say, result, limit = false] of answers) {
    server.set({ [step]: { say } })
    const error = await errorOf(provider.send(mail(), soon()))
    t.match(error, { outcome: result, response: say, unreadable: false, limit }, say)
  }
  server.set({ dot: garbage })
  t.match(await errorOf(provider.send(mail(), soon())), { outcome: 'unknown', unreadable: true })
})
