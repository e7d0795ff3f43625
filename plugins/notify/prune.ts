import type { Host } from 'rowhouse'
import type { Outbox } from './outbox.js'

const EVERY_MS = 60_000

/** Deletes old messages every minute. @returns a function that stops it */
export function startPruning(host: Host, outbox: Outbox, keepDays: number): () => Promise<void> {
  let stopped = false
  let running: Promise<void> | undefined
  const prune = async (): Promise<void> => {
    try {
      while (!stopped && (await outbox.prune(keepDays))) {}
    } catch (error) {
      host.use('log').warn({ err: error }, 'old messages could not be deleted; will retry')
    }
  }
  const timer = setInterval(() => {
    running ??= prune().finally(() => (running = undefined))
  }, EVERY_MS)
  timer.unref()
  return async () => {
    stopped = true
    clearInterval(timer)
    await running
  }
}
