import { createServer } from 'node:http'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { Server as NetServer } from 'node:net'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../log.js'
import type { HttpConfig } from './config.js'
import { reset } from './reset.js'
import { listenOnSocket } from './unix-socket.js'
import type { Traffic } from './traffic.js'
import type { SocketFile } from './unix-socket.js'
import { answerUnread } from './unread.js'

export interface Listener {
  /** @returns where it listens; the port is the one that was found when 0 was asked for */
  listen(host: string, port: number): Promise<Address>
  /** Listens on a unix socket instead. @param setting where its path is configured, for errors */
  listenOn(socket: SocketFile, setting?: string): Promise<void>
  /** Where it listens; undefined before and after, and on a unix socket. */
  readonly address: Address | undefined
  /** `leaving`: still listening, not ready any more; `draining`: finishes what is under way; `closed`: done. */
  readonly state: 'open' | 'leaving' | 'draining' | 'closed'
  /** Stops listening without failing a request, within `drainDelayMs` and `drainTimeoutMs`. Calls share one drain. */
  drain(): Promise<void>
  /** Ends everything at once. */
  close(): Promise<void>
}
export interface Address {
  readonly host: string
  readonly port: number
}

/** How long no request may have come before idle connections are closed, so that no request meets the closing. */
const QUIET_MS = 1_000
/** How long the rest of a body that nobody wanted may take. */
const LEFTOVER_MS = 5_000
const POLL_MS = 25
/** Answers that a client may be owed on one connection; then it is cut. */
const MAX_OWED = 100

/** A node:http server with its limits, and an end that loses no request. */
export function createListener(handle: RequestListener, config: HttpConfig, log: Logger, traffic: Traffic): Listener {
  /** The open connections with the answers that are owed on each. */
  const sockets = new Map<Socket, Set<ServerResponse>>()
  let state: Listener['state'] = 'open'
  let underWay = 0
  let lastRequestAt = 0
  let drained: Promise<void> | undefined

  const server = createServer(
    {
      maxHeaderSize: config.maxHeaderBytes,
      headersTimeout: config.headersTimeoutMs,
      // A limit for the whole request would cut slow uploads: the readers of bodies have their own.
      requestTimeout: 0,
      connectionsCheckingInterval: config.checkIntervalMs,
      keepAliveTimeout: config.keepAliveTimeoutMs,
      // Node would answer without a body. The handler checks.
      requireHostHeader: false,
    },
    onRequest,
  )
  // As well: a request that expects something that nobody knows.
  server.on('checkExpectation', onRequest)
  server.maxConnections = config.maxConnections
  // Node leaves out the lines past this count without a word; the size is limited, and the count checked later.
  server.maxHeadersCount = 0
  server.on('connection', (socket: Socket) => {
    const owed = new Set<ServerResponse>()
    sockets.set(socket, owed)
    socket.once('close', () => {
      sockets.delete(socket)
      // Node says so only of the answer whose turn it was.
      setImmediate(() => {
        for (const res of owed) res.emit('close')
      })
    })
  })
  server.setTimeout(config.idleWriteTimeoutMs, endIfStuck)
  answerUnread(server, (socket) => sockets.get(socket) ?? [], config, traffic)

  function onRequest(req: IncomingMessage, res: ServerResponse): void {
    // Requests behind an answer that is not read wait as long as it does.
    if ((sockets.get(req.socket)?.size ?? 0) >= MAX_OWED) {
      traffic.unread.inc({ code: 'too-many-owed' })
      reset(req.socket)
      return
    }
    track(req, res)
    handle(req, res)
  }

  function track(req: IncomingMessage, res: ServerResponse): void {
    const { socket } = req
    const owed = sockets.get(socket)
    owed?.add(res)
    underWay++
    lastRequestAt = performance.now()
    res.on('close', () => {
      underWay--
      lastRequestAt = performance.now()
      owed?.delete(res)
      if (!req.complete) setTimeout(() => req.complete || socket.destroy(), LEFTOVER_MS).unref()
    })
  }

  /**
   * A socket on which nothing has moved for as long as it may: one with an answer that is not being read, or one that
   * was kept alive for nothing. A request that is being worked on has nothing to move, and waits.
   */
  function endIfStuck(socket: Socket): void {
    if (socket.writableLength > 0) reset(socket)
    else if (!sockets.get(socket)?.size) socket.destroy()
  }

  async function drain(): Promise<void> {
    if (!server.listening) return close()
    state = 'leaving'
    log.info({ underWay, connections: sockets.size }, 'draining')
    await sleep(config.drainDelayMs)
    state = 'draining'
    // Only the listening socket. The server's own `close` also ends idle connections, on which the next request may
    // already be on its way.
    NetServer.prototype.close.call(server)
    const deadline = performance.now() + config.drainTimeoutMs
    while (sockets.size > 0 && performance.now() < deadline) {
      if (underWay === 0 && performance.now() - lastRequestAt > QUIET_MS) endIdle()
      await sleep(POLL_MS)
    }
    if (underWay > 0) log.warn({ underWay }, 'requests did not end in time and are cut')
    return close()
  }

  function endIdle(): void {
    server.closeIdleConnections()
    // Browsers open connections in advance; node does not count those as idle.
    for (const socket of sockets.keys()) if (socket.bytesRead === 0) socket.destroy()
  }

  async function close(): Promise<void> {
    state = 'closed'
    await new Promise<void>((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
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
    drain: () => (drained ??= drain()),
    close,
  }
}

const addressOf = (address: ReturnType<NetServer['address']>): Address | undefined =>
  typeof address === 'object' && address ? { host: address.address, port: address.port } : undefined
