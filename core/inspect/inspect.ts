import type { Explained, Inspect } from '../data/inspect.js'
import type { Request } from '../data/operations.js'
import type { Engine } from '../data/service.js'
import { Change, type Reading } from '../metadata/change.js'
import type { Names } from '../plan/names.js'
import { permissionRole } from '../session.js'
import { explainTrial, tryPermission } from './explain-permission.js'
import { explainStatement, fieldsOf, genericPlan, refusalOf, type Undone } from './explain.js'
import { planReader } from './query-plans.js'
import { refusalExplainer } from './refusals.js'

/** Explains requests with what runs them. Whatever it runs in the database is rolled back. */
export function openInspect(engine: Engine): Inspect {
  const { snapshots, runner, authorized, readerOf, retried, undone } = engine
  const { compiled, executionOf, plan } = runner
  return {
    ...refusalExplainer({
      current: () => snapshots.current,
      plan,
      authorized: (request, call) => authorized(call.transaction?.snapshot ?? snapshots.current, request, call),
      execution: executionOf,
      undone,
    }),
    explain: (request, call, analyze = false) =>
      retried(call, async () => {
        const snapshot = snapshots.current
        // Refuses what is too large.
        await compiled(snapshot, request, call, call.session.caller)
        const execution = executionOf(request, call)
        const inUndone: Undone = (run) => undone(call, run)
        const all: Explained[] = []
        for (const { op, field } of fieldsOf(await authorized(snapshot, request, call))) {
          const explained = await explainStatement(op, execution, analyze, inUndone)
          all.push({ field, ...explained, refused: await refusalOf(op, call, snapshot, execution, inUndone) })
        }
        return all
      }),
    explainPermission: ({ action, table, row, write, session, permission }, call) =>
      retried(call, () => {
        const { catalog } = snapshots.current
        const reading = snapshots.current.reading as Reading
        const asked = { role: permissionRole(session), action, table }
        const planned = (request: Request) => ({
          plan: (names: Names) => plan(request, names),
          execution: { ...executionOf(request, { ...call, session }), reader: readerOf(call) },
        })
        return undone(call, async (client) => {
          const rules =
            permission === undefined
              ? { catalog, metadata: reading.metadata }
              : await tryPermission(Change.trying(client, snapshots.options, reading), asked, permission)
          return explainTrial(client, {
            ...asked,
            ...rules,
            variables: session.variables,
            row: row && planned(row),
            write: write && planned(write),
          })
        })
      }),
    readPlans: (call, fn) =>
      retried(call, () =>
        undone(call, (client) =>
          fn(
            planReader(client, async (request, session) => ({
              op: await authorized(snapshots.current, request, { ...call, session }),
              execution: executionOf(request, { ...call, session }),
            })),
          ),
        ),
      ),
    genericPlan: (sql, call) => retried(call, () => undone(call, (client) => genericPlan(client, sql), 'read only')),
  }
}
