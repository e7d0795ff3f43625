import type { Socket } from 'node:net'

/**
 * Aborts a connection in the middle of a response, so that no client takes the part for the whole. Only TCP has a
 * reset; on a unix socket the client detects the incomplete body.
 */
export function reset(socket: Socket): void {
  if (socket.remoteAddress === undefined) socket.destroy()
  else socket.resetAndDestroy()
}
