import { SendError } from 'rowhouse'

/** @throws SendError when nobody waits for a message any more of which nothing has left */
export function throwIfGivenUp(signal: AbortSignal): void {
  if (signal.aborted) throw new SendError('retry', 'it was given up before it was sent', { cause: signal.reason })
}
