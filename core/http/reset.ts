import type { Socket } from 'node:net'

/**
 * Ends a connection in the middle of an answer, so that nobody can take what came for the whole. Only TCP has a reset;
 * on a unix socket the missing rest of the body has to tell.
 */
export function reset(socket: Socket): void {
  if (socket.remoteAddress === undefined) socket.destroy()
  else socket.resetAndDestroy()
}
