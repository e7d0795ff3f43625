import { serviceError, type Upgrade } from 'rowhouse'
import { type WebSocket, WebSocketServer } from 'ws'
import type { Dialect } from '../plan/names.js'
import { Connection, type Serving } from './connection.js'
import { PROTOCOLS } from './protocol.js'

/** Interval at which connections show that they are alive, in milliseconds. Many proxies close them after 60 s. */
const BEAT_MS = 25_000

/** The WebSockets of GraphQL. */
export class Sockets {
  private readonly connections = new Set<Connection>()
  private readonly servers = new Map<number, WebSocketServer>()
  private beating: NodeJS.Timeout | undefined

  constructor(private readonly serving: Serving) {}

  get count(): number {
    return this.connections.size
  }

  /** @throws ServiceError 400 for a request that is no WebSocket's */
  open(upgrade: Upgrade, dialect: Dialect): void {
    const { req, socket, head, state } = upgrade
    const { maxJsonBytes, maxAnonymousJsonBytes } = state.limits
    const server = this.serverFor(Math.min(maxJsonBytes, maxAnonymousJsonBytes))
    server.handleUpgrade(req, socket, head, (client: WebSocket) => {
      const protocol = PROTOCOLS[client.protocol]
      if (!protocol) {
        client.close(4406, `Subprotocol not acceptable: ${Object.keys(PROTOCOLS).join(', ')}`)
        return
      }
      const connection = new Connection(client, protocol, upgrade, dialect, this.serving)
      this.add(connection)
      client.once('close', () => this.remove(connection))
    })
  }

  /** Ends all connections, so that their clients go to another server. */
  close(): void {
    for (const connection of this.connections) connection.end(1001, 'closing')
  }

  private add(connection: Connection): void {
    this.connections.add(connection)
    this.beating ??= setInterval(() => {
      for (const each of this.connections) each.beat()
    }, BEAT_MS).unref()
  }

  private remove(connection: Connection): void {
    this.connections.delete(connection)
    if (this.connections.size > 0) return
    clearInterval(this.beating)
    this.beating = undefined
  }

  /** Listeners may differ in their limits. */
  private serverFor(maxPayload: number): WebSocketServer {
    const known = this.servers.get(maxPayload)
    if (known) return known
    const made = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      autoPong: false,
      maxPayload,
      handleProtocols: (offered) => Object.keys(PROTOCOLS).find((name) => offered.has(name)) ?? false,
    })
    made.on('wsClientError', (error) => {
      throw serviceError('parse-failed', `this is no WebSocket: ${error.message.toLowerCase()}`)
    })
    this.servers.set(maxPayload, made)
    return made
  }
}
