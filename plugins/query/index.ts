import { answerQuery, assertAdmin, callOf, definePlugin, readJson } from 'rowhouse'
import { bulkOperation } from './bulk/bulk.js'
import { queryService } from './bulk/service.js'
import { commands } from './commands/index.js'
import { allMetadataOperations } from './metadata/all.js'
import { functionOperations } from './metadata/function.js'
import { permissionOperations } from './metadata/permission.js'
import { runSqlOperation } from './metadata/run-sql.js'
import { tableOperations } from './metadata/table.js'
import { trackAllOperation } from './metadata/track-all.js'
import { adviseOperation } from './review/advise/operation.js'
import { dependentsOperation } from './review/dependents.js'
import { describeOperation } from './review/describe.js'
import { diffOperation } from './review/diff.js'
import { explain, explainPermissionOperation } from './review/explain.js'
import { inheritedPermissionsOperation } from './review/inherited-permissions.js'
import { lintOperation } from './review/lint/operation.js'
import { tableSizesOperation } from './review/table-sizes.js'
import { PLANNER } from './rows/lift/shape.js'
import { rowOperations } from './rows/operations.js'

export type { Member, Query } from './bulk/service.js'

/** The JSON query API: `POST /v1/query`, and `POST /v1/query/explain` for admins. */
export default definePlugin({
  name: 'query',
  needs: ['data', 'operations'],
  commands,
  setup(host) {
    const data = host.use('data')
    const operations = host.use('operations')
    host.planner(PLANNER, new URL('./rows/plan.js', import.meta.url))
    const all = {
      ...rowOperations(data),
      bulk: bulkOperation(data, operations),
      run_sql: runSqlOperation(data),
      ...tableOperations(data),
      track_all: trackAllOperation(data),
      ...permissionOperations(data),
      ...functionOperations(data),
      ...allMetadataOperations(data),
      diff_metadata: diffOperation(data),
      describe: describeOperation(data),
      dependents: dependentsOperation(data),
      table_sizes: tableSizesOperation(data),
      explain_permission: explainPermissionOperation(data),
      inherited_permissions: inheritedPermissionsOperation(data),
      lint_metadata: lintOperation(data, operations),
      advise_indexes: adviseOperation(data, operations),
    }
    // Each statement has a limit of its own.
    for (const [type, operation] of Object.entries(all)) {
      host.operation(type, { undoable: true, ...operation, timeoutMs: 0 })
    }

    host.idempotent('/v1/query', { by: 'server' })
    const reading = { rowsAt: ROWS, largeForAdmin: true }
    host.route('post', '/v1/query', (exchange) => answerQuery(exchange, operations, reading))
    host.route('post', '/v1/query/explain', async (exchange) => {
      assertAdmin(exchange.state.session)
      const body = await readJson(exchange)
      return { kind: 'text', text: await explain(data, operations, body, callOf(exchange)) }
    })
    return queryService(data, operations)
  },
})

/** Paths of rows to insert: `$.args.objects`, also in bulks, but not in template arguments. */
const ROWS = /^(?:(?:\/(?:args|\d+))*\/\d+)?\/args\/objects$/
