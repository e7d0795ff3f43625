import type pg from 'pg'
import type { Logger } from 'pino'
import type { Database } from '../db/database.js'
import { isConnectionError } from '../db/sqlstates.js'
import { CHANNEL } from './change.js'
import { messageOf } from '../errors.js'

export interface Watch {
  readonly degraded: string | undefined
  /** Whether it listens. Otherwise it only polls. */
  readonly listening: boolean
  close(): Promise<void>
}

const POLL_MS = 5000
/** After the connection was lost, e.g. in a failover, because changes may have been missed. */
const RETRY_MS = 1000

/**
 * Watches for metadata changes by other instances: with LISTEN, and by polling the version every 5 s, because
 * notifications can be lost. Reconnects automatically, trying once a second; while it cannot listen it only polls.
 */
export async function watchCatalog(
  database: Database,
  known: (version: string) => boolean,
  reload: () => Promise<void>,
  log: Logger,
): Promise<Watch> {
  let listener: pg.Client | undefined
  let degraded: string | undefined
  let closed = false
  let checking: Promise<void> | undefined
  let asked = false
  let lost = false
  let polling: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined

  /** Runs one check at a time. A notification during a check causes another. */
  function check(): Promise<void> {
    asked = true
    checking ??= (async () => {
      while (asked && !closed) {
        asked = false
        await checkOnce()
      }
    })().finally(() => {
      checking = undefined
    })
    return checking
  }

  async function checkOnce(): Promise<void> {
    try {
      const { rows } = await database.admin.query<{ version: string }>(
        'select version::text from svc_catalog.svc_version',
      )
      if (rows[0] && !known(rows[0].version)) await reload()
    } catch (error) {
      if (!closed) report(error, 'cannot read the metadata version')
    }
  }

  async function listen(): Promise<void> {
    let client: pg.Client | undefined
    try {
      client = await database.connect('listen')
      client.on('notification', () => void check())
      client.on('end', () => {
        if (listener !== client) return
        listener = undefined
        lost = true
        schedule()
      })
      // pg supports `query_timeout` although its types do not. Without it, a silent server would stop the polling.
      await client.query({ text: `listen ${CHANNEL}`, query_timeout: database.config.poolWaitMs } as pg.QueryConfig)
      listener = client
      degraded = undefined
    } catch (error) {
      client?.end().catch(() => {})
      if (isConnectionError(error)) lost = true
      const before = degraded
      degraded = `cannot listen for metadata changes: ${messageOf(error)}`
      // A standby says so at every attempt.
      if (degraded !== before) report(error, 'cannot listen for metadata changes; polling')
    }
  }

  /** Reports a failure to the log, or to the breaker if the database may be down: the breaker logs that once. */
  function report(error: unknown, what: string): void {
    const isLost = isConnectionError(error)
    if (isLost) {
      database.breaker.failed()
      lost = true
      schedule()
    }
    log[isLost ? 'debug' : 'warn']({ error: messageOf(error) }, what)
  }

  async function poll(): Promise<void> {
    lost = false
    if (!listener && !closed) await listen()
    await check()
  }
  function schedule(): void {
    clearTimeout(timer)
    if (closed) return
    timer = setTimeout(
      () => {
        polling ??= poll().finally(() => {
          polling = undefined
          schedule()
        })
      },
      lost ? RETRY_MS : POLL_MS,
    ).unref()
  }

  await poll()
  schedule()

  return {
    get degraded() {
      return degraded
    },
    get listening() {
      return listener !== undefined
    },
    async close() {
      closed = true
      clearTimeout(timer)
      await polling
      await checking
      await listener?.end()
    },
  }
}
