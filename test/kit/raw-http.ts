import { connect } from 'node:net'

export interface RawAnswer {
  /** As it came. */
  readonly text: string
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/**
 * Sends bytes on a connection of their own, byte for byte.
 * @returns the first answer, other than 100, when it is complete, or what came before the server closed the connection
 */
export function rawRequest(to: { port: number } | { path: string } | string, bytes: string): Promise<RawAnswer> {
  const place = typeof to === 'string' ? { port: Number(new URL(to).port) } : to
  const socket = connect({ host: '127.0.0.1', ...place })
  return new Promise((resolve) => {
    let text = ''
    const finish = () => {
      resolve(parsed(text))
      socket.destroy()
    }
    socket.setEncoding('latin1')
    socket.on('error', () => {}).on('close', finish)
    socket.on('data', (chunk: string) => {
      text = (text + chunk).replace(/^HTTP\/1\.1 100 Continue\r\n\r\n/, '')
      if (isComplete(text)) finish()
    })
    socket.write(bytes, 'latin1')
  })
}

function isComplete(text: string): boolean {
  const { headers, body } = parsed(text)
  if (!text.includes('\r\n\r\n')) return false
  const length = headers['content-length']
  return length === undefined ? body.endsWith('0\r\n\r\n') : body.length >= Number(length)
}

function parsed(text: string): RawAnswer {
  const end = text.indexOf('\r\n\r\n')
  const [line = '', ...lines] = text.slice(0, end < 0 ? 0 : end).split('\r\n')
  const headers = Object.fromEntries(
    lines.map((each) => [each.slice(0, each.indexOf(':')).toLowerCase(), each.slice(each.indexOf(':') + 2)]),
  )
  return { text, status: Number(line.split(' ')[1] ?? 0), headers, body: end < 0 ? '' : text.slice(end + 4) }
}
