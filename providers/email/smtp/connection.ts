import { Readable } from 'node:stream'
import SMTPConnection, { type Options } from 'nodemailer/lib/smtp-connection'
import { SendError } from 'rowhouse'
import type { Message } from './message.js'

export interface ConnectionOptions {
  readonly smtp: Options
  readonly user: { readonly user: string; readonly pass: string } | undefined
}

/** An SMTP connection. Sends one email at a time. */
export interface Connection {
  /** Number of emails sent on it. */
  readonly sent: number
  /** Maximum size of an email in bytes that the server announced (RFC 1870). */
  readonly maxBytes: number | undefined
  /** Whether it can send another email, as far as known. */
  readonly open: boolean
  /**
   * @returns the last reply of the server
   * @throws SendError for an email larger than `maxBytes`
   * @throws the error of nodemailer, or the reason of `signal`; the connection is then closed
   */
  send(message: Message, progress: Progress, signal: AbortSignal): Promise<string>
  onEnd(fn: () => void): void
  /** Sends QUIT, and waits only briefly for the reply. */
  quit(): Promise<void>
}

/** How much of an email was sent. */
export interface Progress {
  /** Whether the server may have received some of its bytes. */
  started: boolean
  /** Whether all of its bytes were sent. */
  complete: boolean
  /** The server's replies to the recipients that it rejected. */
  rejected: readonly Rejected[]
}

/** An error of nodemailer about one recipient. */
export interface Rejected {
  readonly recipient?: string
  readonly response?: string
  readonly responseCode?: number
}

interface Envelope {
  readonly from: string
  readonly to: string[]
  readonly size: number
  readonly rejectedErrors?: readonly Rejected[]
}

const CHUNK_BYTES = 65_536
const QUIT_MS = 1_000

/** @throws like `send` of a connection */
export async function open({ smtp: options, user }: ConnectionOptions, signal: AbortSignal): Promise<Connection> {
  const smtp = new SMTPConnection(options)
  let sent = 0
  let maxBytes: number | undefined
  // Each step has its own listener. An error in between ends the connection, which `destroyed` shows.
  smtp.on('error', () => {})

  try {
    await step<void>(smtp, signal, (done) => smtp.connect(done))
    maxBytes = announcedSize(smtp.lastServerResponse)
    if (user) {
      if (!smtp.allowsAuth) throw new Error('the server does not support AUTH')
      await step(smtp, signal, (done) => smtp.login({ ...user }, done))
    }
  } catch (error) {
    smtp.close()
    throw error
  }

  return {
    get sent() {
      return sent
    },
    maxBytes,
    get open() {
      return !smtp.destroyed
    },
    async send({ from, to, bytes }, progress, signal) {
      if (maxBytes !== undefined && bytes.length > maxBytes) {
        const size = `the mail has ${bytes.length} bytes, and the server takes at most ${maxBytes}`
        throw new SendError('refused', size, { limit: true })
      }
      // nodemailer adds its errors about recipients to this object, also when the mail fails later.
      const envelope: Envelope = { from, to: [...to], size: bytes.length }
      try {
        const { response } = await step<{ readonly response: string }>(smtp, signal, (done) =>
          smtp.send(envelope, stream(bytes, progress), done),
        )
        sent++
        return response
      } catch (error) {
        smtp.close()
        throw error
      } finally {
        progress.rejected = envelope.rejectedErrors ?? []
      }
    },
    onEnd(fn) {
      smtp.once('end', fn)
    },
    quit() {
      if (smtp.destroyed) return Promise.resolve()
      return new Promise((resolve) => {
        const timer = setTimeout(() => smtp.close(), QUIT_MS)
        smtp.once('end', () => {
          clearTimeout(timer)
          resolve()
        })
        smtp.quit()
      })
    },
  }
}

/** Returns the size that the server announced in its reply to EHLO. 0 means no limit. */
function announcedSize(reply: string | false): number | undefined {
  const size = Number(/^250[ -]SIZE[ \t]+(\d+)/im.exec(reply || '')?.[1] ?? 0)
  return size > 0 ? size : undefined
}

/** Creates a stream that nodemailer reads only when the server is ready for the message. */
function stream(bytes: Buffer, progress: Progress): Readable {
  return Readable.from(
    (function* () {
      progress.started = true
      for (let at = 0; at < bytes.length; at += CHUNK_BYTES) yield bytes.subarray(at, at + CHUNK_BYTES)
      progress.complete = true
    })(),
    { objectMode: false },
  )
}

/** Runs one call to nodemailer, which does not always call back when the connection ends. */
function step<T>(
  smtp: SMTPConnection,
  signal: AbortSignal,
  run: (done: (error?: Error | null, value?: T) => void) => void,
): Promise<T> {
  let clear = () => {}
  return new Promise<T>((resolve, reject) => {
    const aborted = () => reject(signal.reason as Error)
    // The connection's own error, if any, follows immediately.
    const ended = () => setImmediate(() => reject(new Error('the server closed the connection')))
    clear = () => {
      smtp.off('error', reject).off('end', ended)
      signal.removeEventListener('abort', aborted)
    }
    smtp.on('error', reject).on('end', ended)
    signal.addEventListener('abort', aborted)
    if (signal.aborted) aborted()
    else run((error, value) => (error ? reject(error) : resolve(value as T)))
  }).finally(() => clear())
}
