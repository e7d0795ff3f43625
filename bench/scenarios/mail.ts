import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../../test/kit/free-port.js'
import type { Bench } from '../bench.js'
import { withClient } from '../database.js'
import { type Load, runLoad, type Window } from '../load/load.js'
import { measured, type Run } from '../load-rounds.js'
import { interleave, type Job, type Section } from '../section.js'
import { type Child, startChild } from '../systems/child.js'
import type { MailJob } from '../systems/nodemailer.js'
import { byAdmin, NOTHING_MUCH, queryPost, send, startServerChild } from '../systems/server.js'
import type { Arrived } from '../systems/sink.js'

const CLIENTS = 16
/** Of each to the mail server. */
const CONNECTIONS = 8
const MAIL = {
  from: 'shop@example.com',
  to: 'reader@example.com',
  text: 'Thank you for your order. It is on its way.\r\n'.repeat(20),
}
const SUBJECT = 'Your order'
/** How many mails wait for the server in each window of a backlog. */
const BACKLOG_PER_SECOND = 1000
const ARRIVED_MS = 120_000
const COLUMNS = {
  rps: 'answers/s',
  delivered: 'mails/s delivered',
  p50: 'p50 ms',
  p99: 'p99 ms',
  server: 'server CPU µs/mail',
  database: 'PostgreSQL CPU µs/mail',
}
const SYNC = 'rowhouse'
const QUEUED = 'rowhouse, queued'
const BACKLOG = 'rowhouse, a backlog'

/** Mails through SMTP to a server on this machine that takes them all, beside nodemailer alone. */
export async function measureMail(bench: Bench): Promise<Section> {
  const smtpPort = await freePort()
  const smtp = { SMTP_PORT: String(smtpPort), CONNECTIONS: String(CONNECTIONS) }
  const sink = await startChild('sink', smtp, queryPost({}, {}))
  const url = await bench.database.create('mail')
  const server = await startServerChild(url, NOTHING_MUCH, { smtp })
  const nodemailer = await startChild('nodemailer', smtp, queryPost(jobOf({ kind: 'requests', requests: 1 }), {}))
  try {
    const mails: Mails = { sink, server, nodemailer, url }
    await check(mails)
    const jobs: Job[] = [
      { system: SYNC, measure: measured(bench, server, overHttp(mails, false)) },
      { system: QUEUED, measure: measured(bench, server, overHttp(mails, true)) },
      { system: BACKLOG, measure: measured(bench, server, backlog(mails)) },
      { system: 'nodemailer alone', measure: measured(bench, nodemailer, alone(mails)) },
    ]
    return {
      id: 'n',
      title: `mails of ${MAIL.text.length} bytes to an SMTP server on this machine, ${CLIENTS} clients, ${CONNECTIONS} connections`,
      columns: COLUMNS,
      compared: 'delivered',
      subjects: [SYNC, QUEUED, BACKLOG],
      cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`n: ${text}`)),
      notMeasured: [],
    }
  } finally {
    await Promise.all([server, nodemailer, sink].map((child) => child.stop()))
  }
}

interface Mails {
  readonly sink: Child
  readonly server: Child
  readonly nodemailer: Child
  /** Of the server's database. */
  readonly url: string
}

/** Every mail is there in the end, and `delivered` counts until then. */
const overHttp =
  ({ sink, server }: Mails, queue: boolean): Run =>
  async (window) => {
    await begin(sink)
    const began = performance.now()
    const body = JSON.stringify({ ...MAIL, sub: SUBJECT, queue })
    const job = {
      port: server.port,
      path: '/v1/send/email',
      headers: { 'content-type': 'application/json', ...byAdmin },
      bodies: [body],
      clients: CLIENTS,
      window,
    }
    const load = await runLoad(job)
    await arrived(sink, load.requests)
    const all = (performance.now() - began) / 1000
    return { ...load, delivered: queue ? load.requests / all : load.rps }
  }

/** Mails that are in the outbox already. */
const backlog =
  ({ sink, url }: Mails): Run =>
  async (window) => {
    const requests = window.kind === 'requests' ? window.requests : window.seconds * BACKLOG_PER_SECOND
    await begin(sink)
    await withClient(url, (client) =>
      client.query(
        `insert into svc_catalog.svc_outbox (kind, "to", "from", sub, text)
         select 'email', $1, $2, $3, $4 from generate_series(1, $5)`,
        [MAIL.to, MAIL.from, SUBJECT, MAIL.text, requests],
      ),
    )
    const { ms } = await arrived(sink, requests)
    return { requests, failures: 0, delivered: (requests * 1000) / ms }
  }

const alone =
  ({ sink, nodemailer }: Mails): Run =>
  async (window) => {
    await begin(sink)
    const { text } = await send(nodemailer.port, queryPost(jobOf(window), {}))
    const load = JSON.parse(text) as Load
    await arrived(sink, load.requests)
    return { ...load, rps: undefined, delivered: load.rps }
  }

const jobOf = (window: Window): MailJob => {
  const { from, to, text } = MAIL
  return { mail: { from, to, text, subject: SUBJECT }, window, clients: CLIENTS }
}

/** Each gets a mail through, whole, before anything is timed. */
async function check(mails: Mails): Promise<void> {
  const one: Window = { kind: 'requests', requests: 1 }
  for (const run of [overHttp(mails, false), overHttp(mails, true), backlog(mails), alone(mails)]) {
    await run(one)
    const { text } = await ask(mails.sink, '/')
    const wanted = [`Subject: ${SUBJECT}\r\n`, `From: ${MAIL.from}\r\n`, `To: ${MAIL.to}\r\n`, MAIL.text.trimEnd()]
    for (const part of wanted) if (!text.includes(part)) throw new Error(`n: the mail has no ${part}: ${text}`)
  }
}

const begin = (sink: Child): Promise<Arrived> => ask(sink, '/new')

async function ask({ port }: Child, path: string): Promise<Arrived> {
  return JSON.parse((await send(port, { path, headers: {}, body: '' })).text) as Arrived
}

/** @throws Error when there are more or less mails than were sent */
async function arrived(sink: Child, count: number): Promise<Arrived> {
  for (const start = performance.now(); performance.now() - start < ARRIVED_MS; await sleep(5)) {
    const now = await ask(sink, '/')
    if (now.mails > count) throw new Error(`n: ${count} mails were sent, ${now.mails} have come`)
    if (now.mails === count) return now
  }
  throw new Error(`n: ${count} mails were sent, and do not come`)
}
