import { type Data, type Json, type JsonObject, type Operation, permissionRole } from 'rowhouse'
import {
  notExists,
  parseJson,
  NO_LIMITS,
  permissionsOf,
  stringifyJson,
  tableKey,
  unexpectedPayload,
} from 'rowhouse/plan'
import { liftDependents } from '../rows/lift/reads.js'
import { PLANNER } from '../rows/lift/shape.js'
import { type Dependent, FOREIGN_KEYS, MOST } from '../rows/plan/dependents.js'

/** The operation that counts the rows that reference a row, as far as the caller's role may see them. */
export function dependentsOperation(data: Data): Operation {
  return {
    async run(args, call) {
      const answer = await data.run({ planner: PLANNER, ...liftDependents(args) }, call)
      const rows = parseJson(answer as string, NO_LIMITS) as readonly JsonObject[]
      const [row] = rows
      if (!row) throw notExists('no row has this key', '$.args.key')
      if (rows.length > 1) throw unexpectedPayload('more than one row has this key', '$.args.key')
      const { tables } = data.catalogFor(call)
      const role = permissionRole(call.session)
      const keys = JSON.parse(row[FOREIGN_KEYS] as string) as readonly Dependent[]
      const dependents = keys.map((key, i) => {
        const { length } = row[String(i)] as readonly Json[]
        const table = tables.get(tableKey(key.table))
        const limit = table && permissionsOf(table, role)?.select?.limit
        const blocks = length > 0 && (key.on_delete === 'no action' || key.on_delete === 'restrict')
        return { ...key, rows: Math.min(length, MOST), more: length > MOST || length === limit, blocks }
      })
      return { kind: 'text', text: stringifyJson({ dependents } as unknown as Json) }
    },
  }
}
