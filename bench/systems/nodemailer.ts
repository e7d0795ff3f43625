import { createServer } from 'node:http'
import { json } from 'node:stream/consumers'
import nodemailer from 'nodemailer'
import { type Load, loadOf, type Window } from '../load/load.js'

export interface MailJob {
  readonly mail: { readonly from: string; readonly to: string; readonly subject: string; readonly text: string }
  readonly window: Window
  /** How many mails are under way at once. */
  readonly clients: number
}

/** nodemailer alone, with a pool of `CONNECTIONS` to `SMTP_PORT`: sends for as long as `POST /` says. */
process.stdin.once('end', () => process.exit()).resume()
process.once('SIGTERM', () => process.exit())

const transport = nodemailer.createTransport({
  pool: true,
  host: '127.0.0.1',
  port: Number(process.env['SMTP_PORT']),
  ignoreTLS: true,
  maxConnections: Number(process.env['CONNECTIONS']),
})

createServer((req, res) => {
  void json(req)
    .then((job) => run(job as MailJob))
    .then(
      (load) => res.end(JSON.stringify(load)),
      (error: unknown) => res.writeHead(500).end(String(error)),
    )
}).listen(Number(process.env['PORT']), '127.0.0.1')

async function run({ mail, window, clients }: MailJob): Promise<Load> {
  const times: number[] = []
  let begun = 0
  const start = performance.now()
  const goesOn = () =>
    window.kind === 'requests' ? begun < window.requests : performance.now() - start < window.seconds * 1000
  const client = async () => {
    while (goesOn()) {
      begun++
      const from = performance.now()
      await transport.sendMail(mail)
      times.push(performance.now() - from)
    }
  }
  await Promise.all(Array.from({ length: clients }, client))
  const seconds = (performance.now() - start) / 1000
  return loadOf(Float64Array.from(times).sort(), 0, seconds)
}
