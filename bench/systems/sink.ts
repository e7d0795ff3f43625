import { createServer } from 'node:http'
import { SMTPServer } from 'smtp-server'

/** What has come since somebody said `POST /new`. */
export interface Arrived {
  readonly mails: number
  /** From the first to the last, in milliseconds. */
  readonly ms: number
  /** The last one. */
  readonly text: string
}

/** A mail server on `SMTP_PORT` that takes everything and keeps the last one; `PORT` says by HTTP what has come. */
process.stdin.once('end', () => process.exit()).resume()
process.once('SIGTERM', () => process.exit())

let mails = 0
let first = 0
let last = 0
let text = ''

new SMTPServer({
  authOptional: true,
  disabledCommands: ['STARTTLS'],
  disableReverseLookup: true,
  onData(stream, _session, done) {
    const chunks: Buffer[] = []
    stream.on('data', (chunk: Buffer) => chunks.push(chunk))
    stream.on('end', () => {
      text = Buffer.concat(chunks).toString()
      last = performance.now()
      if (mails++ === 0) first = last
      done(null, 'taken')
    })
  },
}).listen(Number(process.env['SMTP_PORT']), '127.0.0.1')

createServer((req, res) => {
  const arrived: Arrived = { mails, ms: last - first, text }
  if (req.url === '/new') mails = 0
  res.end(JSON.stringify(arrived))
}).listen(Number(process.env['PORT']), '127.0.0.1')
