import { createServer, IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import { setImmediate as nextRound, setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../observe/log.js'
import { addressKey } from './client-address.js'
import type { HttpConfig } from './config.js'
import { reset, type Traffic } from './traffic.js'
import { listenOnSocket, type SocketFile } from './unix-socket.js'
import { answerMalformed } from './malformed-request.js'

export interface Listener {
  /** @returns the address, with the actual port when 0 was requested */
  listen(host: string, port: number): Promise<Address>
  /**
   * Listens on a unix socket instead.
   * @param setting name of the setting for its path, for errors
   */
  listenOn(socket: SocketFile, setting?: string): Promise<void>
  /** Current address; undefined while not listening, and on a unix socket. */
  readonly address: Address | undefined
  /** `leaving`: listening but not ready; `draining`: finishing in-flight requests; `closed`: done. */
  readonly state: 'open' | 'leaving' | 'draining' | 'closed'
  /** Stops listening, after `drainDelayMs`. Calls share one. @param atOnce skips the delay */
  leave(atOnce?: boolean): Promise<void>
  /** Stops listening without failing a request, and waits for those in progress up to `drainTimeoutMs`. Calls share one drain. */
  drain(atOnce?: boolean): Promise<void>
  /** Closes all connections immediately. */
  close(): Promise<void>
}
interface Address {
  readonly host: string
  readonly port: number
}

/** Time without a request before idle connections are closed, in milliseconds, so that no request hits a closed one. */
const QUIET_MS = 1_000
/** Maximum time to receive the rest of an unwanted body, in milliseconds. */
const LEFTOVER_MS = 5_000
const POLL_MS = 25
/** Maximum number of connections that are accepted before the socket closes, as many as can wait for it. */
const MAX_WAITING = 511
/** Maximum number of pending responses on one connection. Further requests close the connection. */
const MAX_PENDING = 100

/** What upgrades connections. */
export interface Upgrades {
  /** Returns whether a request with an `Upgrade` header is for it. Others are ordinary requests (RFC 9110 7.8). */
  takes(req: IncomingMessage): boolean
  /** @param active to which it adds what is in progress on the connection: without any, another connection may replace it */
  start(req: IncomingMessage, socket: Socket, head: Buffer, active: Set<object>): void
}

/** Creates a node:http server with limits that drains without failing requests. */
export function createListener(
  handle: RequestListener,
  config: HttpConfig,
  log: Logger,
  traffic: Traffic,
  upgrades: Upgrades,
): Listener {
  /** Pending responses by open connection. */
  const sockets = new Map<Socket, Set<ServerResponse>>()
  /** What is in progress on connections that are not HTTP any more. */
  const upgraded = new Map<Socket, Set<object>>()
  /** Open connections by address, oldest first. */
  const byAddress = new Map<string, Set<Socket>>()
  let state: Listener['state'] = 'open'
  let accepted = 0
  let underWay = 0
  let lastRequestAt = 0
  let left: Promise<void> | undefined
  let drained: Promise<void> | undefined

  const server = createServer(
    {
      IncomingMessage: incomingFor(upgrades),
      maxHeaderSize: config.maxHeaderBytes,
      headersTimeout: config.headersTimeoutMs,
      // A limit for the whole request would cut slow uploads; the body readers have their own limits.
      requestTimeout: 0,
      // Often enough for a short limit.
      connectionsCheckingInterval: Math.min(1000, config.headersTimeoutMs / 5 || 1000),
      keepAliveTimeout: config.keepAliveTimeoutMs,
      // Node would respond without a body. `checkHeaders` of `app.ts` checks the header instead.
      requireHostHeader: false,
    },
    onRequest,
  )
  // Also handles requests with an unknown `Expect` header.
  server.on('checkExpectation', onRequest)
  server.on('checkContinue', (req: IncomingMessage, res: ServerResponse) => {
    continueWhenRead(req, res)
    onRequest(req, res)
  })
  server.on('upgrade', (req: IncomingMessage, socket: Socket, head: Buffer) => {
    // The responses before it are still being sent.
    if (sockets.get(socket)?.size) {
      reset(socket)
      return
    }
    const active = new Set<object>()
    upgraded.set(socket, active)
    lastRequestAt = performance.now()
    upgrades.start(req, socket, head, active)
  })
  // Node would drop further header lines silently. Their total size is limited, and the count is checked later.
  server.maxHeadersCount = 0
  server.on('connection', (socket: Socket) => {
    accepted++
    const address = addressKey(socket.remoteAddress ?? '')
    const own = byAddress.get(address) ?? new Set()
    if (sockets.size >= config.maxConnections && !makeRoom()) {
      socket.destroy()
      return
    }
    byAddress.set(address, own.add(socket))
    const pending = new Set<ServerResponse>()
    sockets.set(socket, pending)
    socket.once('close', () => {
      forget(socket, address)
      // Node emits this only for the response that is currently being sent.
      setImmediate(() => {
        for (const res of pending) res.emit('close')
      })
    })
  })
  server.setTimeout(config.idleWriteTimeoutMs, endIfStuck)
  answerMalformed(server, (socket) => sockets.get(socket) ?? [], config, traffic)

  /** Closes the oldest connection without a request of the address that has most connections. */
  function makeRoom(): boolean {
    const [address, most] = [...byAddress].reduce((one, other) => (other[1].size > one[1].size ? other : one))
    const idle = [...most].find((socket) => !sockets.get(socket)?.size && !upgraded.get(socket)?.size)
    if (!idle) return false
    forget(idle, address)
    idle.destroy()
    return true
  }

  function forget(socket: Socket, address: string): void {
    sockets.delete(socket)
    upgraded.delete(socket)
    const own = byAddress.get(address)
    if (own?.delete(socket) && own.size === 0) byAddress.delete(address)
  }

  function onRequest(req: IncomingMessage, res: ServerResponse): void {
    // Pipelined requests behind an unread response wait as long as that response.
    if ((sockets.get(req.socket)?.size ?? 0) >= MAX_PENDING) {
      traffic.malformed.inc({ code: 'too-many-owed' })
      reset(req.socket)
      return
    }
    track(req, res)
    handle(req, res)
  }

  function track(req: IncomingMessage, res: ServerResponse): void {
    const { socket } = req
    const pending = sockets.get(socket)
    pending?.add(res)
    underWay++
    lastRequestAt = performance.now()
    res.on('close', () => {
      underWay--
      lastRequestAt = performance.now()
      pending?.delete(res)
      if (!req.complete) setTimeout(() => req.complete || socket.destroy(), LEFTOVER_MS).unref()
    })
  }

  /**
   * Ends a socket that has been idle for its maximum time: with an unread response, or kept alive without a request. A
   * request in progress keeps its socket open.
   */
  function endIfStuck(socket: Socket): void {
    if (socket.writableLength > 0) reset(socket)
    else if (!sockets.get(socket)?.size) socket.destroy()
  }

  async function leave(atOnce = false): Promise<void> {
    if (!server.listening) return
    state = 'leaving'
    log.info({ underWay, connections: sockets.size }, 'draining')
    if (!atOnce) await sleep(config.drainDelayMs)
    await acceptWaiting()
    state = 'draining'
    // Closes only the listening socket. The server's own `close` also ends idle connections, which may carry the next
    // request already.
    NetServer.prototype.close.call(server)
  }

  async function drain(atOnce?: boolean): Promise<void> {
    await (left ??= leave(atOnce))
    const deadline = performance.now() + config.drainTimeoutMs
    while (sockets.size > 0 && performance.now() < deadline) {
      if (underWay === 0 && performance.now() - lastRequestAt > QUIET_MS) endIdle()
      await sleep(POLL_MS)
      // On a busy machine requests may have arrived that this process has not read.
      await nextRound()
    }
    if (underWay > 0) log.warn({ underWay }, 'in-flight requests did not finish in time; closing their connections')
    return close()
  }

  /** Accepts the connections that wait: closing the socket would reset them. */
  async function acceptWaiting(): Promise<void> {
    // The first may come before this round of the event loop accepts. Each round accepts one.
    await nextRound()
    for (let before = -1, round = 0; before !== accepted && round < MAX_WAITING; round++) {
      before = accepted
      await nextRound()
    }
  }

  function endIdle(): void {
    server.closeIdleConnections()
    // Browsers open connections in advance; Node does not count those as idle.
    for (const socket of sockets.keys()) if (socket.bytesRead === 0) socket.destroy()
  }

  async function close(): Promise<void> {
    state = 'closed'
    await new Promise<void>((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
      // Node does not count them.
      for (const socket of upgraded.keys()) socket.destroy()
    })
  }

  return {
    get address() {
      return addressOf(server.address())
    },
    get state() {
      return state
    },
    listen: (host, port) =>
      new Promise((resolve, reject) => {
        server.once('error', reject)
        server.listen({ host, port }, () => {
          server.off('error', reject)
          lastRequestAt = performance.now()
          resolve(addressOf(server.address())!)
        })
      }),
    async listenOn(socket, setting = 'http.socket.path') {
      await listenOnSocket(server, socket, setting)
      lastRequestAt = performance.now()
    },
    leave: (atOnce) => (left ??= leave(atOnce)),
    drain: (atOnce) => (drained ??= drain(atOnce)),
    close,
  }
}

/**
 * Asks the client for the body of its request when a handler first reads it: a request that its headers alone refuse gets the
 * final status at once (RFC 9110 10.1.1). By default Node asks at once.
 */
function continueWhenRead(req: IncomingMessage, res: ServerResponse): void {
  const { _read: read } = req
  req._read = (size) => {
    req._read = read
    if (!res.headersSent && !req.complete && req.readableLength === 0) res.writeContinue()
    read.call(req, size)
  }
}

/**
 * Node takes every request with an `Upgrade` header for an upgrade, as soon as there is a listener: also those of clients that
 * offer HTTP/2 and go on with HTTP/1.1. It asks this property.
 */
function incomingFor({ takes }: Upgrades): typeof IncomingMessage {
  class Incoming extends IncomingMessage {
    private asks = false

    set upgrade(asks: boolean) {
      this.asks = asks
    }

    get upgrade(): boolean {
      return this.asks && (this.method === 'CONNECT' || takes(this))
    }
  }
  return Incoming
}

const addressOf = (address: ReturnType<NetServer['address']>): Address | undefined =>
  typeof address === 'object' && address ? { host: address.address, port: address.port } : undefined
