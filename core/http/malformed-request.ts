import { type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { type ServiceError, serviceError } from '../errors.js'
import type { HttpConfig } from './config.js'
import type { Traffic } from './traffic.js'

/** Time for a client to read the error and to stop sending, in milliseconds. */
const LINGER_MS = 2_000

/**
 * Responds to input that Node cannot parse as a request: with an ordinary error, and never in the middle of another
 * response on the same connection.
 * @param pendingOn returns the pending responses of a connection
 */
export function answerMalformed(
  server: Server,
  pendingOn: (socket: Socket) => Iterable<ServerResponse>,
  config: HttpConfig,
  { malformed }: Traffic,
): void {
  const answered = new WeakSet<Socket>()

  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    // Each further chunk on the connection causes another error.
    if (answered.has(socket)) return
    const refusal = refusalOf(error, config)
    const pending = [...pendingOn(socket)]
    if (!refusal || !socket.writable || pending.some((res) => res.headersSent || res.req.complete)) {
      socket.destroy()
      return
    }
    answered.add(socket)
    malformed.inc({ code: refusal.code })
    socket.end(textOf(refusal))
    // The body of a request broke: its handler must not respond a second time.
    if (pending.length > 0) socket.destroySoon()
    // Closing a connection with unread bytes would reset it and discard the response.
    else setTimeout(() => socket.destroy(), LINGER_MS).unref()
  })
}

/** Returns undefined when the connection broke, so that no response can be sent. */
function refusalOf({ code = '', reason }: NodeJS.ErrnoException & { reason?: string }, config: HttpConfig) {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return serviceError(
        'headers-too-large',
        `the headers are longer than ${config.maxHeaderBytes} bytes (http.maxHeaderBytes)`,
      )
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return serviceError('payload-too-large', 'the chunk extensions are too long')
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return serviceError(
        'request-timeout',
        `the headers did not arrive within ${config.headersTimeoutMs} ms (http.headersTimeoutMs)`,
      )
    default:
      if (!code.startsWith('HPE_')) return undefined
      if (code === 'HPE_PAUSED_H2_UPGRADE' || reason === 'Invalid HTTP version')
        return serviceError('version-not-supported', 'this server does not support this version of HTTP')
      // The reason is a fixed sentence of the parser and quotes no input.
      return serviceError('parse-failed', `this is not HTTP/1.1${reason ? `: ${reason.toLowerCase()}` : ''}`)
  }
}

function textOf({ status, code, message }: ServiceError): string {
  const body = JSON.stringify({ path: '$', error: message, code, message })
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `Date: ${new Date().toUTCString()}`,
    'Connection: close',
    'Cache-Control: no-store',
    'X-Content-Type-Options: nosniff',
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    '',
    body,
  ].join('\r\n')
}
