import type { Worker } from 'node:cluster'

/** The messages by which Node passes connections to a process, and by which the process confirms them. */
interface Internal {
  readonly cmd?: string
  readonly act?: string
  readonly seq?: number
  readonly ack?: number
}

/** More connections than a process leaves unconfirmed at a time: Node waits for one before it passes the next. */
const MANY = 100

/**
 * Gives connections that a process did not take before it ended to the others. Node forgets them, and their clients wait
 * for ever. It has no public interface for this. With other messages than those of today Node is left alone.
 * @param onUnknown called once for such a Node
 * @returns a function to call when the process has ended
 */
export function returnUntaken({ process: child }: Worker, onUnknown: () => void): () => void {
  const untaken = new Set<number>()
  let isKnown = true
  const send = child.send.bind(child) as (...args: unknown[]) => boolean
  child.send = (message: Internal, ...more: unknown[]) => {
    const isConnection = message.cmd === CLUSTER && message.act === 'newconn' && message.seq !== undefined
    if (isConnection && isKnown) untaken.add(message.seq!)
    const [handle] = more
    const isOther = !isConnection && handle !== null && typeof handle === 'object' && 'fd' in handle
    if (isKnown && (isOther || untaken.size > MANY)) {
      isKnown = false
      untaken.clear()
      onUnknown()
    }
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
