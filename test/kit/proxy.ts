import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { Transform } from 'node:stream'

/**
 * What happens to connections. `refuse`: new ones are reset; `hang`: nothing moves any more, in new ones and old;
 * `cut`: a connection is reset when so many bytes have come from the target since the mode was set; after so many `times`
 * everything passes again; `garble`: what the target answers to this text cannot be read, once; `delay`: each piece takes
 * so long, in both directions.
 */
export type Mode =
  | { readonly kind: 'pass' }
  | { readonly kind: 'refuse' }
  | { readonly kind: 'hang' }
  | { readonly kind: 'cut'; readonly afterBytes: number; readonly times?: number }
  | { readonly kind: 'garble'; readonly after: string }
  | { readonly kind: 'delay'; readonly ms: number }

export interface Proxy {
  /** The target's URL, by way of the proxy. */
  readonly url: string
  /** Bytes that came from the target so far. */
  readonly received: number
  /** Connections that it has cut so far. */
  readonly resets: number
  /** What clients sent so far holds this text so many times. */
  sentTimes(text: string): number
  set(mode: Mode): void
  /** Sets a mode when a client sends this text in one piece, before it goes on to the target. */
  when(text: string, mode: Mode): void
  /** Resets every connection. */
  killAll(): void
  close(): Promise<void>
}

/** A TCP proxy on loopback in front of what a URL names, which fails as it is told to. */
export async function startProxy(t: { teardown(fn: () => Promise<void>): unknown }, target: string): Promise<Proxy> {
  const { hostname, port } = new URL(target)
  const pairs = new Map<Socket, Socket>()
  const sent: Buffer[] = []
  let mode: Mode = { kind: 'pass' }
  let received = 0
  let left = 0
  let times = Infinity
  let resets = 0
  let garbled: Socket | undefined
  let trigger: { readonly text: string; readonly mode: Mode } | undefined

  const server = createServer((client) => {
    if (mode.kind === 'refuse') {
      client.resetAndDestroy()
      return
    }
    const upstream = connect({ host: hostname, port: Number(port) })
    pairs.set(client, upstream)
    const end = () => {
      pairs.delete(client)
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) socket.on('error', end).on('close', end)
    const delay = () => (mode.kind === 'delay' ? mode.ms : 0)
    client.pipe(gate((chunk) => look(chunk, client), delay)).pipe(upstream)
    upstream.pipe(gate((chunk) => count(chunk, client), delay)).pipe(client)
    if (mode.kind === 'hang') stop(client, upstream)
  })

  function look(chunk: Buffer, client: Socket): void {
    sent.push(chunk)
    if (mode.kind === 'garble' && chunk.includes(mode.after)) garbled = client
    if (trigger === undefined || !chunk.includes(trigger.text)) return
    proxy.set(trigger.mode)
    trigger = undefined
  }
  function count(chunk: Buffer, client: Socket): void {
    received += chunk.length
    if (garbled === client) {
      chunk[0] = 0xff
      garbled = undefined
    }
    if (mode.kind !== 'cut') return
    left -= chunk.length
    if (left > 0) return
    reset(client)
    resets++
    if (--times === 0) mode = { kind: 'pass' }
  }
  function reset(client: Socket): void {
    pairs.get(client)?.destroy()
    client.resetAndDestroy()
  }
  function stop(...sockets: readonly Socket[]): void {
    for (const socket of sockets) socket.pause()
  }

  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = new URL(target)
  url.hostname = '127.0.0.1'
  url.port = String((server.address() as AddressInfo).port)
  const proxy: Proxy = {
    url: url.href,
    get received() {
      return received
    },
    get resets() {
      return resets
    },
    sentTimes: (text) => Buffer.concat(sent).toString('latin1').split(text).length - 1,
    set(next) {
      mode = next
      left = next.kind === 'cut' ? next.afterBytes : 0
      times = next.kind === 'cut' ? (next.times ?? Infinity) : Infinity
      for (const pair of pairs) {
        if (next.kind === 'hang') stop(...pair)
        else for (const socket of pair) socket.resume()
      }
    },
    when(text, next) {
      trigger = { text, mode: next }
    },
    killAll() {
      for (const client of pairs.keys()) reset(client)
    },
    async close() {
      proxy.killAll()
      if (!server.listening) return
      server.close()
      await once(server, 'close')
    },
  }
  t.teardown(() => proxy.close())
  return proxy
}

/** Passes everything on, after showing it. @param delay milliseconds that it waits first */
function gate(look: (chunk: Buffer) => void, delay: () => number): Transform {
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const pass = () => {
        look(chunk)
        done(null, chunk)
      }
      const ms = delay()
      if (ms === 0) pass()
      else setTimeout(pass, ms)
    },
  })
}
