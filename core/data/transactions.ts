import type { Reading } from '../catalog/change.js'
import { type Database, inTransaction, isPooled, type Pool, withClient } from '../db/database.js'
import { cancellable } from '../db/execute.js'
import { RESET_SESSION } from '../db/pooler.js'
import type { Call } from './operations.js'
import type { Snapshots } from './snapshots.js'
import { Transaction } from './transaction.js'

/**
 * Runs `fn` in a transaction on a pooled connection. Applies changed metadata before it resolves. Rolls back on failure
 * or cancellation.
 */
export async function runTransaction<T>(
  database: Database,
  pool: Pool,
  snapshots: Snapshots,
  call: Call,
  fn: (call: Call & { readonly transaction: Transaction }) => Promise<T>,
): Promise<T> {
  return withClient(pool, async (client, discard) => {
    const transaction = new Transaction(client, snapshots.current, snapshots.resolve)
    const signal = AbortSignal.any([call.signal, transaction.signal])
    let changed: Reading | undefined
    let isCommitted = false
    const run = async () => {
      const answer = await fn({ ...call, transaction })
      changed = await transaction.finish()
      if (isPooled(database.config) && transaction.discarded) await client.query(RESET_SESSION)
      signal.throwIfAborted()
      if (changed) snapshots.expect(changed)
      return answer
    }
    try {
      const result = await cancellable(database, client, discard, signal, () =>
        inTransaction(client, run, { willClose: () => signal.aborted || transaction.discarded }),
      )
      isCommitted = true
      return result
    } finally {
      if (transaction.discarded) discard()
      if (changed) await snapshots.settle(changed, isCommitted)
    }
  })
}
