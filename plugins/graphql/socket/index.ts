import { type Host, serviceError, type Upgrade } from 'rowhouse'
import type { Dialect } from '../plan/names.js'
import type { Run } from '../run.js'
import type { Sockets } from './sockets.js'

/** Returns what opens a WebSocket. The first one loads the library. */
export function webSockets(host: Host<never, 'live'>, run: Run): (upgrade: Upgrade, dialect: Dialect) => Promise<void> {
  let sockets: Sockets | undefined
  let isClosing = false
  host.metric.gauge('connections', 'Open WebSockets.', [], (gauge) => gauge.set(sockets?.count ?? 0))
  host.onDrain(() => {
    isClosing = true
    sockets?.close()
  })
  return async (upgrade, dialect) => {
    const loaded = await import('./sockets.js')
    if (isClosing) throw serviceError('unavailable', 'the server is shutting down', '$', { retryAfter: 1 })
    sockets ??= new loaded.Sockets({ run, live: () => host.find('live') })
    sockets.open(upgrade, dialect)
  }
}
