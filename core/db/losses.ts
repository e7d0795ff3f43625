import type pg from 'pg'
import type { Logger } from 'pino'
import { messageOf } from '../errors.js'

/** Logs the connections that are lost, together rather than one by one. */
interface Losses {
  /** Watches an open connection. An error without a listener would end the process. */
  watch(client: pg.ClientBase, purpose: string): void
  close(): void
}

/** Time in which others are lost with it, in milliseconds. */
const GATHER_MS = 1000

/** Losses with one cause, as far as one can tell. */
interface Outage {
  readonly since: number
  readonly error: string
  /** Number of lost connections that no line has told yet, by purpose. */
  untold: Map<string, number>
  isTold: boolean
  /** Whether a time came when no connection was left, or the circuit breaker was open. */
  isTotal: boolean
  /** Whether the circuit breaker logs the end. */
  isBroken: boolean
  /** Time of the next connection. */
  endedAt?: number
}

/**
 * Logs one line for the connections that are lost within a second. If none is left, the next line comes with the next
 * connection, and tells of those that were lost until then. The line of the circuit breaker takes its place if that was open.
 * @param isBroken returns whether the circuit breaker is open
 */
export function createLosses(log: Logger, isBroken: () => boolean): Losses {
  const open = new Set<pg.ClientBase>()
  let outage: Outage | undefined
  let timer: NodeJS.Timeout | undefined
  let closed = false

  function lose(client: pg.ClientBase, purpose: string, error: unknown): void {
    // A client reports the end of its connection, too, after an error.
    if (!open.delete(client) || closed) return
    outage ??= begin(error)
    outage.untold.set(purpose, (outage.untold.get(purpose) ?? 0) + 1)
    outage.isBroken ||= isBroken()
    outage.isTotal ||= open.size === 0 || outage.isBroken
  }

  function begin(error: unknown): Outage {
    timer = setTimeout(tell, GATHER_MS).unref()
    const since = performance.now()
    return { since, error: messageOf(error), untold: new Map(), isTold: false, isTotal: false, isBroken: false }
  }

  function tell(): void {
    if (!outage) return
    log.info({ ...countsOf(outage), error: outage.error }, 'lost connections to the database')
    outage.untold = new Map()
    outage.isTold = true
    outage.isBroken ||= isBroken()
    outage.isTotal ||= outage.isBroken
    if (!outage.isTotal || outage.endedAt !== undefined) end(outage)
  }

  function end({ since, isTotal, isBroken: isSaid, untold, endedAt = performance.now() }: Outage): void {
    if (isTotal && (!isSaid || untold.size > 0)) {
      const more = untold.size > 0 ? countsOf({ untold }) : {}
      log.info({ ms: Math.round(endedAt - since), ...more }, 'connected to the database again')
    }
    outage = undefined
  }

  return {
    watch(client, purpose) {
      if (outage) {
        outage.isBroken ||= isBroken()
        outage.endedAt ??= performance.now()
        if (outage.isTold) end(outage)
      }
      open.add(client)
      client.on('error', (error) => lose(client, purpose, error))
      client.once('end', () => open.delete(client))
    },
    close() {
      closed = true
      clearTimeout(timer)
    },
  }
}

const countsOf = ({ untold }: Pick<Outage, 'untold'>) => ({
  connections: [...untold.values()].reduce((sum, count) => sum + count, 0),
  pools: Object.fromEntries(untold),
})
