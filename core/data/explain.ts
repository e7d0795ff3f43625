import type { Compiled } from '../compile/compile.js'
import { cancellable, executeIn } from '../db/execute.js'
import type { Execution } from '../db/lane.js'
import { type Database, inTransaction, withClient } from '../db/database.js'
import { unexpectedPayload } from '../errors.js'
import type { Op } from '../plan/ir.js'
import { bind } from '../sql/bind.js'
import type { Reading } from '../catalog/change.js'
import type { Explained } from './data.js'
import type { Call } from './operations.js'
import type { Snapshot } from './snapshot.js'
import { type Refusal, trialOf } from './trial.js'

/** Returns PostgreSQL's plan of the first statement of a request. */
export async function explainStatement(
  database: Database,
  plan: Compiled,
  { bindings }: Execution,
): Promise<Pick<Explained, 'sql' | 'plan'>> {
  const statement = plan.statements[0]
  if (!statement) throw unexpectedPayload(ONE_KEY_SET, '$.args.objects')
  const values = bind(statement.params, bindings)
  const query = { text: `explain ${statement.text}`, values, rowMode: 'array' as const }
  const { rows } = await withClient(database.main, (client) => client.query<[string]>(query))
  return { sql: statement.text, plan: rows.map(([line]) => line) }
}

const ONE_KEY_SET = 'the rows have different sets of keys; explain rows with the same keys only'

/**
 * Runs a write and rolls it back.
 * @param op authorized for the caller's role
 * @param run runs within the caller's share of connections
 * @returns the clauses of the role's permission that refuse it; undefined when none does, or for a read
 */
export async function refusalOf(
  database: Database,
  op: Op,
  { session }: Call,
  { catalog, reading }: Snapshot,
  execution: Execution,
  run: <T>(attempt: (signal: AbortSignal) => Promise<T>) => Promise<T>,
): Promise<Refusal | undefined> {
  if (op.kind !== 'insert' && op.kind !== 'update') return undefined
  const trial = trialOf(op, session.role, catalog, (reading as Reading).metadata)
  const values = bind(trial.statements[0]!.params, execution.bindings)
  const answer = await run((signal) =>
    withClient(database.main, (client, discard) =>
      cancellable(database, client, discard, signal, () =>
        inTransaction(client, () => executeIn(client, trial, values, execution), {
          willClose: () => signal.aborted,
          undo: true,
        }),
      ),
    ),
  )
  return trial.refusal(answer)
}
