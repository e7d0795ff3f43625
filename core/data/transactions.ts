import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientBase } from 'pg'
import { type Compiled, nameOf } from '../compile/compile.js'
import { type Database, inTransaction, isPooled, type TransactionOptions, withClient } from '../db/database.js'
import type { Reader } from '../db/disclosure.js'
import { clientError, isConflict, isStale } from '../db/errors.js'
import { cancellable } from '../db/execute.js'
import type { Standbys } from '../db/standbys.js'
import { serviceError } from '../errors.js'
import { Editor } from '../metadata/editor.js'
import { isAdmin, permissionRole } from '../session.js'
import type { CallerLimits } from './caller-limits.js'
import type { Data } from './data.js'
import type { Call } from './operations.js'
import { positionHeader } from './read-place.js'
import type { Snapshot, Snapshots } from './snapshots.js'
import { type Lend, runTransaction, type Transaction } from './transaction.js'
import { explainMissing } from './untracked.js'

/** Runs work in transactions, and again where that helps. */
export interface Transactions {
  /** Returns the snapshot that a call sees. */
  snapshotOf(call: Call): Snapshot
  readonly catalogFor: Data['catalogFor']
  /** Returns what errors of the database may say to a caller. */
  readerOf(call: Call, plan?: Compiled): Reader
  /**
   * Runs `run` again after a conflict, and once after names in the database have changed.
   * @param call determines the wording of database errors
   */
  retried<T>(call: Call | undefined, run: () => Promise<T>): Promise<T>
  /** Runs `fn` in the transaction of `call`, or in a new one. */
  run<T>(
    lend: Lend,
    call: Call,
    fn: (call: Call & { readonly transaction: Transaction }) => Promise<T>,
    how?: Pick<TransactionOptions, 'mode' | 'undo'>,
  ): Promise<T>
  readonly transaction: Data['transaction']
  /** Like `transaction`, but always rolled back. */
  readonly undoneTransaction: Data['transaction']
  /** Runs `fn` in a transaction that is always rolled back. */
  undone<T>(call: Call, fn: (client: ClientBase) => Promise<T>, mode?: string): Promise<T>
  /** Adds to the answer of a write the position that later reads of the caller must see. */
  withPosition<T>(call: Call, written: Promise<T>): Promise<T>
  readonly alter: Data['alter']
  readonly query: Data['query']
}

export function createTransactions(
  database: Database,
  snapshots: Snapshots,
  limits: CallerLimits,
  standbys: Standbys | undefined,
): Transactions {
  const pooled = isPooled(database.config)
  const lendMain: Lend = (use) => withClient(database.main, use)
  const snapshotOf = ({ transaction }: Call) => transaction?.snapshot ?? snapshots.current
  const readerOf = (call: Call, plan?: Compiled): Reader => ({
    role: permissionRole(call.session),
    catalog: snapshotOf(call).catalog,
    kind: plan?.kind,
    log: call.log,
  })

  /** Most work succeeds at once, so only what has failed costs more than a promise. */
  const retried: Transactions['retried'] = (call, run) => run().catch((error: unknown) => again(call, run, error))

  /** @param first how the first run failed */
  async function again<T>(call: Call | undefined, run: () => Promise<T>, first: unknown): Promise<T> {
    let isFirst = true
    const next = async (): Promise<T> => {
      if (!isFirst) return run()
      isFirst = false
      throw first
    }
    try {
      return await retryOnConflict(() => retryOnStaleSnapshot(snapshots, next))
    } catch (error) {
      const said = clientError(error, call && readerOf(call), undefined, call?.dialect)
      throw call && isAdmin(call.session) ? await explainMissing(database, said) : said
    }
  }

  const run: Transactions['run'] = async (lend, call, fn, how = {}) => {
    const { transaction: outer } = call
    if (outer) return fn({ ...call, transaction: outer })
    if (!how.undo) refuseDryRun(call)
    return limits.run(
      call,
      (signal) =>
        retried(call, () =>
          runTransaction(database, lend, snapshots, signal, (transaction) => fn({ ...call, signal, transaction }), how),
        ),
      // Each statement has its own limit, and together they use the caller's share.
      call.session.caller === undefined ? Infinity : limits.timeoutOf(call),
    )
  }

  const withPosition: Transactions['withPosition'] = ({ headers, transaction }, written) => {
    if (!standbys || !headers || transaction) return written
    return written.then(async (result) => {
      await positionHeader(standbys, headers)
      return result
    })
  }

  return {
    snapshotOf,
    catalogFor: (call) => snapshotOf(call).catalog,
    readerOf,
    retried,
    run,
    withPosition,
    transaction: (call, fn) => withPosition(call, run(lendMain, call, fn)),
    undoneTransaction: (call, fn) => run(lendMain, call, fn, { undo: true }),
    undone: (call, fn, mode) =>
      limits.run(
        call,
        (signal) =>
          withClient(database.main, (client, discard) =>
            cancellable(database, client, discard, signal, () =>
              inTransaction(client, () => fn(client), { mode, willClose: () => signal.aborted, undo: true }),
            ),
          ),
        limits.timeoutOf(call),
      ),
    alter: (call, fn) =>
      withPosition(
        call,
        run(
          (use) => withClient(database.admin, use),
          call,
          async ({ transaction }) => fn(new Editor(await transaction.lock())),
        ),
      ),
    query: async <Row extends object>(text: string, values: readonly unknown[] = [], inside?: Transaction) => {
      // After the SQL of an admin, the connection may not know what was prepared.
      const name = pooled || inside?.changedSession ? {} : { name: known(text) }
      const ask = async (client: ClientBase) => (await client.query<Row>({ ...name, text, values: [...values] })).rows
      return inside ? ask(await inside.connection()) : retried(undefined, () => withClient(database.main, ask))
    },
  }
}

/** Makes sure that nothing is committed for a dry run, whatever path it takes. */
export function refuseDryRun({ dryRun }: Call): void {
  if (dryRun) throw serviceError('not-supported', 'this request cannot be a dry run')
}

/** Names of the statements of plugins, which are few. */
const names = new Map<string, string>()
const MAX_NAMES = 1000

function known(text: string): string {
  const name = names.get(text) ?? nameOf(text)
  if (names.size >= MAX_NAMES) names.clear()
  names.set(text, name)
  return name
}

const TRIES = 3

/** Retries a transaction that the database rolled back in a conflict. */
async function retryOnConflict<T>(run: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await run()
    } catch (error) {
      if (!isConflict(error) || tries === TRIES) throw error
      await sleep(5 * tries + Math.random() * 20)
    }
  }
}

/** Retries once after names in the database have changed. */
async function retryOnStaleSnapshot<T>(snapshots: Snapshots, run: () => Promise<T>): Promise<T> {
  try {
    return await run()
  } catch (error) {
    if (isStale(error) && (await snapshots.refresh())) return run()
    throw error
  }
}
