import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { pino } from 'pino'
import PostalMime, { type Email } from 'postal-mime'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import type { EmailSender, Mail } from '../../core/host/contracts.js'
import smtp from '../../providers/email/smtp.js'
import { selfSigned } from './certificate.js'
import type { Fault, Stage, TakenMail } from './index.js'
import { patience } from './patience.js'

type Teardown = { teardown(fn: () => Promise<void>): unknown }

export const USER = { username: 'rowhouse', password: 'correct horse' }
export const certificate = selfSigned('localhost')

/** One mail as the server got it. */
export interface Received {
  readonly from: string
  readonly to: readonly string[]
  readonly user: string | undefined
  readonly secure: boolean
  /** Without what SMTP adds. */
  readonly bytes: Buffer
}
export interface Sink {
  readonly port: number
  readonly received: readonly Received[]
  /** How many connections there were. */
  readonly connections: number
  /** Ends those that are open; says this before. */
  cut(words?: string): void
  /** What happens in place of the answer to a mail that was taken. */
  atEnd: (() => void) | undefined
}

/** A mail server on loopback that keeps what it gets. It wants `USER` unless told otherwise. */
export async function startSink(t: Teardown, options: SMTPServerOptions = {}): Promise<Sink> {
  const received: Received[] = []
  let connections = 0
  const server = new SMTPServer({
    key: certificate.key,
    cert: certificate.cert,
    onConnect(_session, done) {
      connections++
      done()
    },
    onAuth({ username, password }, _session, done) {
      const right = username === USER.username && password === USER.password
      done(right ? null : new Error('wrong'), right ? { user: username } : undefined)
    },
    onData(stream, { envelope, user, secure }, done) {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', () => {
        const from = envelope.mailFrom === false ? '' : envelope.mailFrom.address
        const to = envelope.rcptTo.map(({ address }) => address)
        received.push({ from, to, user: user as string | undefined, secure, bytes: Buffer.concat(chunks) })
        if (sink.atEnd) sink.atEnd()
        else done(null, `queued as ${received.length}`)
      })
    },
    ...options,
  })
  server.on('error', () => {})
  server.listen(0, '127.0.0.1')
  await once(server.server, 'listening')
  t.teardown(() => new Promise((resolve) => server.close(resolve)))
  const sink: Sink = {
    port: (server.server.address() as AddressInfo).port,
    received,
    get connections() {
      return connections
    },
    atEnd: undefined,
    cut(words) {
      for (const { _socket: socket } of server.connections) {
        if (words === undefined) socket.destroy()
        else socket.end(`${words}\r\n`)
      }
    },
  }
  return sink
}

/** The stage of the provider, on a mail server that fails as the suite says. */
export async function smtpStage(t: Teardown): Promise<Stage<EmailSender, TakenMail> & { readonly sink: Sink }> {
  let fault: Fault | undefined
  const problem = (responseCode: number, text: string) => Object.assign(new Error(text), { responseCode })
  const sink = await startSink(t, {
    onAuth: (_auth, _session, done) =>
      done(fault && 'text' in fault ? problem(fault.kind === 'failed' ? 454 : 535, fault.text) : null, { user: 'x' }),
    onMailFrom: (_address, _session, done) => (fault?.kind === 'unread' ? sink.cut() : done()),
    onRcptTo({ address }, _session, done) {
      const isAmong = (key: 'postponed' | 'refused') => fault?.kind === 'some' && fault[key].includes(address)
      if (fault?.kind === 'refused' || isAmong('refused')) done(problem(550, 'no such mailbox'))
      else done(isAmong('postponed') ? problem(450, 'greylisted') : null)
    },
  })
  return {
    sink,
    provider: await sender(t, { port: sink.port, security: 'starttls', ...USER }),
    secrets: [USER.password],
    taken: () => Promise.all(sink.received.map(takenOf)),
    fail(next) {
      fault = next
      // Who has logged in before has to do it again.
      if (next && 'text' in next) sink.cut()
      sink.atEnd = undefined
      if (next?.kind === 'lost') sink.atEnd = () => sink.cut()
      if (next?.kind === 'nonsense') sink.atEnd = () => sink.cut(next.body)
      if (next?.kind === 'silent') sink.atEnd = next.asked
    },
  }
}

async function takenOf({ to: recipients, bytes }: Received): Promise<TakenMail> {
  const { to = [], cc = [], bcc = [], subject, text, html, attachments } = await parse(bytes)
  return {
    recipients,
    shown: [...to, ...cc, ...bcc].map(({ address }) => address ?? ''),
    subject,
    text,
    html,
    attachments: attachments.map(({ content }) => Buffer.from(content as ArrayBuffer)),
  }
}

type SmtpSettings = Parameters<typeof smtp.create>[0]

/** The provider with its defaults, for a server on this machine. */
export async function sender(t: Teardown, settings: Partial<SmtpSettings>): Promise<EmailSender> {
  const defaults = {
    connections: 3,
    connectTimeoutMs: patience(20_000),
    silenceTimeoutMs: patience(20_000),
    timeoutMs: patience(40_000),
  }
  const all = { host: 'localhost', port: 465, ca: certificate.cert, ...defaults, ...settings }
  const provider = await smtp.create(all, { log: pino({ level: 'silent' }), dataDir: tmpdir() })
  t.teardown(async () => provider.close?.())
  return provider
}

export const parse = (bytes: Buffer): Promise<Email> => PostalMime.parse(bytes)

/** A mail with a new id. */
export const mail = (more: Partial<Mail> = {}): Mail => ({
  id: crypto.randomUUID(),
  from: { address: 'shop@example.com', name: 'Shop' },
  to: { address: 'reader@example.org' },
  subject: 'Hello',
  text: 'Hello',
  ...more,
})

/** Nobody waits that long. */
export const soon = (): AbortSignal => AbortSignal.timeout(patience(60_000))
