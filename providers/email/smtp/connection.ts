import { Readable } from 'node:stream'
import SMTPConnection, { type Options } from 'nodemailer/lib/smtp-connection'
import type { Message } from './message.js'

export interface ConnectionOptions {
  readonly smtp: Options
  readonly user: { readonly user: string; readonly pass: string } | undefined
}

/** A conversation with the server; one mail at a time. */
export interface Connection {
  /** How many mails it has taken here. */
  readonly taken: number
  /** It can take another mail, as far as is known here. */
  readonly open: boolean
  /** @throws what nodemailer says, or the reason of `signal`; the connection is closed then */
  send(message: Message, progress: Progress, signal: AbortSignal): Promise<Taken>
  onEnd(fn: () => void): void
  /** Says good bye, and does not wait long for the answer. */
  quit(): Promise<void>
}

/** How far a mail has come. */
export interface Progress {
  /** Some of its bytes may be with the server. */
  begun: boolean
  /** None of its bytes is still with us. */
  whole: boolean
}

export interface Taken {
  /** The last answer of the server. */
  readonly response: string
  /** Addresses that will not get it. */
  readonly rejected: readonly string[]
}

const CHUNK_BYTES = 65_536
const QUIT_MS = 1_000

/** @throws as `send` of a connection */
export async function open({ smtp: options, user }: ConnectionOptions, signal: AbortSignal): Promise<Connection> {
  const smtp = new SMTPConnection(options)
  let taken = 0
  // Each step listens itself; what comes between them ends the connection, and that is known by `destroyed`.
  smtp.on('error', () => {})

  try {
    await step<void>(smtp, signal, (done) => smtp.connect(done))
    if (user) {
      if (!smtp.allowsAuth) throw new Error('the server offers no way to say a user name and password')
      await step(smtp, signal, (done) => smtp.login({ ...user }, done))
    }
  } catch (error) {
    smtp.close()
    throw error
  }

  return {
    get taken() {
      return taken
    },
    get open() {
      return !smtp.destroyed
    },
    async send({ from, to, bytes }, progress, signal) {
      const envelope = { from, to: [...to], size: bytes.length }
      try {
        const info = await step<Taken>(smtp, signal, (done) => smtp.send(envelope, stream(bytes, progress), done))
        taken++
        return info
      } catch (error) {
        smtp.close()
        throw error
      }
    },
    onEnd(fn) {
      smtp.once('end', fn)
    },
    quit() {
      if (smtp.destroyed) return Promise.resolve()
      return new Promise((resolve) => {
        const late = setTimeout(() => smtp.close(), QUIT_MS)
        smtp.once('end', () => {
          clearTimeout(late)
          resolve()
        })
        smtp.quit()
      })
    },
  }
}

/** nodemailer reads it once the server wants the message, and not before. */
function stream(bytes: Buffer, progress: Progress): Readable {
  return Readable.from(
    (function* () {
      progress.begun = true
      for (let at = 0; at < bytes.length; at += CHUNK_BYTES) yield bytes.subarray(at, at + CHUNK_BYTES)
      progress.whole = true
    })(),
    { objectMode: false },
  )
}

/** One call to nodemailer, which does not always call back when the connection ends. */
function step<T>(
  smtp: SMTPConnection,
  signal: AbortSignal,
  run: (done: (error?: Error | null, value?: T) => void) => void,
): Promise<T> {
  let clear = () => {}
  return new Promise<T>((resolve, reject) => {
    const aborted = () => reject(signal.reason as Error)
    // Its own error, if there is one, comes right after.
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
