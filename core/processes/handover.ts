import type { Worker } from 'node:cluster'

/** The messages by which Node passes connections to a process, and by which the process confirms them. */
interface Internal {
  readonly cmd?: string
  readonly act?: string
  readonly seq?: number
  readonly ack?: number
}

/**
 * Gives connections that a process did not take before it ended to the others. Node forgets them, and their clients wait
 * for ever. It has no public interface for this; without these messages nothing else changes.
 * @returns a function to call when the process has ended
 */
export function returnUntaken({ process: child }: Worker): () => void {
  const untaken = new Set<number>()
  const send = child.send.bind(child) as (...args: unknown[]) => boolean
  child.send = (message: Internal, ...more: unknown[]) => {
    if (message.cmd === CLUSTER && message.act === 'newconn' && message.seq !== undefined) untaken.add(message.seq)
    return send(message, ...more)
  }
  child.on('internalMessage', ({ cmd, ack }: Internal) => {
    if (cmd === CLUSTER && ack !== undefined) untaken.delete(ack)
  })
  return () => {
    for (const seq of untaken) child.emit('internalMessage', { cmd: CLUSTER, ack: seq, accepted: false })
  }
}

const CLUSTER = 'NODE_CLUSTER'
