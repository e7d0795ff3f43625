import { definePlugin } from 'rowhouse'
import { bulkOperation, PLANNER, rowOperations } from './operations.js'
import { functionOperations } from './metadata/function.js'
import { permissionOperations } from './metadata/permission.js'
import { tableOperations } from './metadata/table.js'
import { wholeOperations } from './metadata/whole.js'
import { runSqlOperation } from './run-sql.js'
import { queryRoutes } from './routes.js'

/** The JSON query API: `POST /v1/query`. */
export default definePlugin({
  name: 'query',
  needs: ['data', 'operations'],
  setup(host) {
    const data = host.use('data')
    const operations = host.use('operations')
    host.planner(PLANNER, new URL('./plan.js', import.meta.url))
    const all = {
      ...rowOperations(data),
      bulk: bulkOperation(data, operations),
      run_sql: runSqlOperation(data),
      ...tableOperations(data),
      ...permissionOperations(data),
      ...functionOperations(data),
      ...wholeOperations(data),
    }
    // Their statements have a limit each.
    for (const [type, operation] of Object.entries(all)) host.operation(type, { ...operation, timeoutMs: 0 })
    queryRoutes(host, data, operations)
  },
})
