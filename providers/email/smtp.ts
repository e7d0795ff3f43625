import { defineProvider, SendError } from 'rowhouse'
import { config, securityOf, type SmtpConfig } from './smtp/config.js'
import type { Connection, ConnectionOptions, Progress } from './smtp/connection.js'
import { isDisconnected, rejectedRecipients, sendError } from './smtp/failure.js'
import { sizesOf } from './limits.js'
import { compose, type Message } from './smtp/message.js'
import { createPool } from './smtp/pool.js'

/** Sends with a mail server over SMTP. */
export default defineProvider({
  kind: 'email',
  name: 'smtp',
  config,
  create(settings) {
    const pool = createPool(connectionOptions(settings), settings.connections)
    /** As the server last announced it. */
    let maxBytes: number | undefined

    /** Delivers a message. Retries on another connection when the server has closed a kept-alive one. */
    async function deliver(message: Message, progress: Progress, signal: AbortSignal): Promise<string> {
      for (;;) {
        const connection: Connection = await pool.acquire(signal)
        const reused = connection.sent > 0
        maxBytes = connection.maxBytes
        try {
          return await connection.send(message, progress, signal)
        } catch (error) {
          if (!reused || signal.aborted || !isDisconnected(error, progress)) throw error
        } finally {
          pool.release(connection)
        }
      }
    }

    return {
      server: { address: settings.host, port: settings.port },
      domains: settings.domains,
      sendsToSome: true,
      problemWith: (mail) =>
        maxBytes !== undefined && sizesOf(mail).size > maxBytes
          ? `it takes a mail of at most ${maxBytes} bytes`
          : undefined,
      async send(mail, signal) {
        const progress: Progress = { started: false, complete: false, rejected: [] }
        try {
          const message = await compose(mail)
          const deadline = AbortSignal.timeout(settings.timeoutMs)
          const response = await deliver(message, progress, AbortSignal.any([signal, deadline]))
          if (!progress.complete || !/^2\d\d[ -]/.test(response)) {
            throw new SendError('unknown', 'the server did not respond to the message', { response, unreadable: true })
          }
          const recipients = rejectedRecipients(progress.rejected)
          return { id: message.id, detail: response, ...(recipients.length > 0 ? { recipients } : {}) }
        } catch (error) {
          throw sendError(error, progress)
        }
      },
      close: () => pool.close(),
    }
  },
})

function connectionOptions(settings: SmtpConfig): ConnectionOptions {
  const { host, port, username, password, ca, servername, name, connectTimeoutMs, silenceTimeoutMs } = settings
  const security = securityOf(settings)
  return {
    smtp: {
      host,
      port,
      secure: security === 'tls',
      requireTLS: security === 'starttls',
      ignoreTLS: security === 'none',
      ...(name === undefined ? {} : { name }),
      connectionTimeout: connectTimeoutMs,
      greetingTimeout: connectTimeoutMs,
      dnsTimeout: connectTimeoutMs,
      socketTimeout: silenceTimeoutMs,
      tls: { ...(ca === undefined ? {} : { ca }), ...(servername === undefined ? {} : { servername }) },
    },
    user: username === undefined || password === undefined ? undefined : { user: username, pass: password },
  }
}
