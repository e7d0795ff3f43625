import type { ClientBase } from 'pg'
import type { Logger } from 'pino'
import { type Database, GRACE_MS, withClient, withDirectClient } from '../db/database.js'
import { clientError } from '../db/errors.js'
import { cancellable } from '../db/execute.js'
import { checkPrepared } from '../db/prepared.js'
import { writerOf } from '../db/writer.js'
import { serviceError } from '../errors.js'
import { Shares } from './caller-limits.js'
import type { Call } from './operations.js'
import type { Snapshots } from './snapshots.js'
import type { Lend, Transaction } from './transaction.js'

/** How to run an admin's SQL, other than in an ordinary transaction. */
export interface SqlOptions {
  /** `false` neither refuses nor drops metadata that the SQL breaks; it becomes inconsistent. */
  readonly checkMetadata?: boolean
  /** Runs in a transaction that cannot write. */
  readonly readOnly?: boolean
  /** Runs outside of a transaction. The metadata is read again afterwards. */
  readonly noTransaction?: boolean
  /** Maximum duration in milliseconds. Defaults to `database.statementTimeoutMs` for each statement. */
  readonly timeoutMs?: number
}

/** Maximum number of connections for SQL that may take long. They count against PostgreSQL's `max_connections`. */
const MAX_DIRECT = 4

type Work<T> = (client: ClientBase) => Promise<T>
type InTransaction = <T>(
  lend: Lend,
  call: Call,
  fn: (call: Call & { readonly transaction: Transaction }) => Promise<T>,
  how?: { readonly mode?: string | undefined },
) => Promise<T>

/** Runs SQL of admins and keeps the metadata in step with what it changes. */
export function sqlRunner(database: Database, snapshots: Snapshots, log: Logger, inTransaction: InTransaction) {
  const direct = new Shares({
    most: () => Infinity,
    total: MAX_DIRECT,
    waitMs: database.config.poolWaitMs,
    what: '',
    allTaken: `${MAX_DIRECT} calls of run_sql with timeout_ms or no_transaction are running, and no more are allowed`,
  })
  const writer = writerOf(database.config.writerVariables)
  const onDirectClient = async <T>(call: Call, use: Work<T>): Promise<T> => {
    const release = await direct.take(call.session, call.signal)
    return withDirectClient(database, 'run_sql', use).finally(release)
  }

  const saidTo = ({ session: { role } }: Call, error: unknown) =>
    clientError(error, { role, catalog: snapshots.current.catalog })

  /** Runs outside of a transaction, which may have had an effect even if it fails. */
  async function single<T>(call: Call, timeoutMs: number, fn: Work<T>): Promise<T> {
    try {
      return await onDirectClient(call, (client) =>
        cancellable(
          database,
          client,
          () => {},
          call.signal,
          async () => {
            // Ends the statement even if this server dies.
            await client.query(`set statement_timeout = ${timeoutMs + GRACE_MS}`)
            return fn(client)
          },
        ),
      )
    } catch (error) {
      throw saidTo(call, error)
    } finally {
      await snapshots
        .reload()
        .catch((error: Error) => log.warn({ error: error.message }, 'cannot read the metadata again'))
    }
  }

  async function transacted<T>(call: Call, cascade: boolean, fn: Work<T>, options: SqlOptions): Promise<T> {
    const { checkMetadata = true, readOnly = false, timeoutMs } = options
    const checks = checkMetadata && !readOnly
    const lend: Lend = (use) =>
      timeoutMs === undefined
        ? withClient(database.admin, use)
        : onDirectClient(call, (client) => use(client, () => {}))
    const result = await inTransaction(
      lend,
      call,
      async ({ transaction }) => {
        const client = await transaction.connection()
        if (timeoutMs !== undefined) {
          const { lockTimeoutMs } = database.config
          await client.query(`set statement_timeout = ${timeoutMs + GRACE_MS}; set lock_timeout = ${lockTimeoutMs}`)
        }
        const change = checks ? await transaction.lock() : undefined
        transaction.changesSession()
        // Other members of a bulk may write: PostgreSQL ends the mode with the savepoint.
        const within = readOnly && call.transaction !== undefined
        if (within) await client.query('savepoint read_only; set transaction read only')
        const { statement, values } = writer(call)
        await client.query(statement.text, [...values])
        const answer = await fn(client)
        if (within) await client.query('release savepoint read_only')
        await client.query('reset role; reset search_path')
        await checkPrepared(client)
        await change?.rescan(cascade)
        return answer
      },
      { mode: readOnly ? 'read only' : undefined },
    ).catch((error: unknown) => {
      // In a bulk, the error gets the path of its member.
      throw call.transaction ? saidTo(call, error) : error
    })
    if (!checks && !readOnly) await snapshots.reload()
    return result
  }

  return async <T>(call: Call, cascade: boolean, fn: Work<T>, options: SqlOptions = {}): Promise<T> => {
    const { noTransaction = false } = options
    const timeoutMs = options.timeoutMs ?? (noTransaction ? database.config.statementTimeoutMs : undefined)
    const run = (each: Call) =>
      noTransaction ? single(each, timeoutMs as number, fn) : transacted(each, cascade, fn, options)
    return timeoutMs === undefined ? run(call) : within(timeoutMs, call, run)
  }
}

/** @throws ServiceError 504 timeout, after the work in the database has been cancelled */
async function within<T>(timeoutMs: number, call: Call, run: (call: Call) => Promise<T>): Promise<T> {
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(), timeoutMs)
  try {
    return await run({ ...call, signal: AbortSignal.any([call.signal, late.signal]) })
  } catch (error) {
    if (!late.signal.aborted || call.signal.aborted) throw error
    throw serviceError('timeout', `the SQL took longer than ${timeoutMs} ms`, '$.args', { cause: error })
  } finally {
    clearTimeout(timer)
  }
}
