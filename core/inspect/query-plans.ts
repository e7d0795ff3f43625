import pg, { type ClientBase } from 'pg'
import { ServiceError } from '../errors.js'
import type { Execution } from '../db/lane.js'
import type { Op } from '../ir.js'
import type { Session } from '../session.js'
import { bind } from '../sql/bind.js'
import { emit } from '../sql/emit.js'
import type { PlanReader, QueryPlan } from '../data/inspect.js'
import type { Request } from '../data/operations.js'

/** @param prepare plans and authorizes a request for a session */
export function planReader(
  client: ClientBase,
  prepare: (request: Request, session: Session) => Promise<{ readonly op: Op; readonly execution: Execution }>,
): PlanReader {
  const explain = async (options: string, text: string, values: (string | null)[]): Promise<QueryPlan | undefined> => {
    await client.query('savepoint rowhouse_plan')
    try {
      const { rows } = await client.query<[[{ Plan: QueryPlan }]]>({
        text: `explain (${options}format json, verbose) ${text}`,
        values,
        rowMode: 'array',
      })
      return rows[0]![0][0].Plan
    } catch (error) {
      if (!(error instanceof pg.DatabaseError) || !REFUSED.test(error.code ?? '')) throw error
      return undefined
    } finally {
      await client.query('rollback to savepoint rowhouse_plan; release savepoint rowhouse_plan')
    }
  }
  return {
    client,
    async plan(request, session) {
      try {
        const { op, execution } = await prepare(request, session)
        // One column per field, because the plan of an array shows no estimate of its rows.
        const [statement] = emit(op, op.kind === 'read' ? 'cells' : 'array')
        return statement && (await explain('', statement.text, bind(statement.params, execution.bindings)))
      } catch (error) {
        if (error instanceof ServiceError && error.status < 500) return undefined
        throw error
      }
    },
    genericPlan: (sql) => explain('generic_plan, ', sql, []),
  }
}

/** Classes of errors about the statement: its values, its text, its rights, and what is not supported. */
const REFUSED = /^(22|42|0A)/
