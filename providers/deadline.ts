import { SendError } from 'rowhouse'

/** @throws SendError when the client no longer waits and nothing was sent */
export function throwIfGivenUp(signal: AbortSignal): void {
  if (signal.aborted) throw new SendError('retry', 'the send was cancelled before it started', { cause: signal.reason })
}
