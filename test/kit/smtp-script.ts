import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { Certificate } from './certificate.js'

/** Where a conversation is: what the client has just done. `tls`: its EHLO in TLS; `bytes`: the first ones of a message, of which no more is read after a fault; `dot`: its end. */
export type Step =
  | 'connect'
  | 'ehlo'
  | 'starttls'
  | 'tls'
  | 'auth'
  | 'mail'
  | 'rcpt'
  | 'data'
  | 'bytes'
  | 'dot'
  | 'quit'
/** What the server does there: nothing any more, cuts the connection, or says this, after which it may cut it. */
export type Fault = 'hang' | 'cut' | { readonly say: string; readonly cut?: boolean }

export interface Script {
  readonly port: number
  /** What clients came to, in order. */
  readonly steps: readonly Step[]
  /** Messages that ended with their dot. */
  readonly messages: readonly string[]
  /** Each happens once; after them, and without any, all goes well. */
  set(faults: Readonly<Partial<Record<Step, Fault>>>): void
}

/** A mail server on loopback, by the letter, that fails as it is told to. It offers STARTTLS and AUTH. */
export async function startScript(
  t: { teardown(fn: () => Promise<void>): unknown },
  certificate: Certificate,
  extensions: readonly string[] = [],
): Promise<Script> {
  const steps: Step[] = []
  const messages: string[] = []
  const sockets = new Set<Socket>()
  let faults: Partial<Record<Step, Fault>> = {}
  const take = (step: Step): Fault | undefined => {
    steps.push(step)
    const { [step]: fault } = faults
    delete faults[step]
    return fault
  }

  const converse = (socket: Socket, secure: boolean): void => {
    let unread = ''
    let message: string | undefined
    let stopped = false
    let accepted = 0
    /** True when there was a fault: nothing else is to be said. */
    const fault = (step: Step): boolean => {
      const todo = take(step)
      if (todo === undefined) return false
      if (todo === 'hang' || todo === 'cut' || todo.cut) stopped = true
      play(todo, socket)
      return true
    }
    const answer = (step: Step, text: string): boolean => {
      if (fault(step)) return false
      socket.write(`${text}\r\n`)
      return true
    }
    const command = (line: string): void => {
      const verb = line.split(' ')[0]?.toUpperCase()
      const offers = ['localhost', ...extensions, ...(secure ? ['AUTH PLAIN'] : ['STARTTLS'])]
      const hello = offers.map((offer, i) => `250${i === offers.length - 1 ? ' ' : '-'}${offer}`).join('\r\n')
      if (verb === 'EHLO') answer(secure ? 'tls' : 'ehlo', hello)
      else if (verb === 'STARTTLS') {
        if (fault('starttls')) return
        stopped = true
        socket.removeAllListeners('data')
        socket.write('220 go ahead\r\n')
        const within = new TLSSocket(socket, { isServer: true, key: certificate.key, cert: certificate.cert })
        converse(within, true)
      } else if (verb === 'AUTH') answer('auth', '235 welcome')
      else if (verb === 'MAIL') accepted = answer('mail', '250 go on') ? 1 : 0
      else if (verb === 'RCPT') accepted += answer('rcpt', accepted > 0 ? '250 go on' : '503 from whom?') ? 1 : 0
      else if (verb === 'DATA') {
        if (accepted < 2) socket.write('503 to whom?\r\n')
        else if (answer('data', '354 go on')) message = ''
      } else if (verb === 'QUIT') {
        answer('quit', '221 good bye')
        socket.end()
      } else socket.write('250 fine\r\n')
    }
    socket.on('error', () => {})
    socket.on('data', (chunk: Buffer) => {
      if (stopped) return
      unread += chunk.toString('latin1')
      for (;;) {
        if (stopped || socket.destroyed) return
        if (message === undefined) {
          const end = unread.indexOf('\r\n')
          if (end < 0) return
          const line = unread.slice(0, end)
          unread = unread.slice(end + 2)
          command(line)
          continue
        }
        if (unread === '') return
        if (message === '' && fault('bytes')) {
          stopped = true
          return
        }
        message += unread
        unread = ''
        const end = `\r\n${message}`.indexOf('\r\n.\r\n')
        if (end < 0) return
        messages.push(message.slice(0, end))
        unread = message.slice(end + 3)
        accepted = 0
        message = undefined
        answer('dot', `250 queued as ${messages.length}`)
      }
    })
  }

  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket)).on('error', () => {})
    const todo = take('connect')
    if (todo !== undefined) return play(todo, socket)
    socket.write('220 localhost ESMTP\r\n')
    converse(socket, false)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
    await once(server, 'close')
  })
  return {
    port: (server.address() as AddressInfo).port,
    steps,
    messages,
    set(next) {
      faults = { ...next }
    },
  }
}

function play(fault: Fault, socket: Socket): void {
  if (fault === 'hang') return
  if (fault === 'cut') socket.destroy()
  else if (fault.cut) socket.end(`${fault.say}\r\n`)
  else socket.write(`${fault.say}\r\n`)
}
