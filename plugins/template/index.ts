import { definePlugin } from 'rowhouse'
import { CallMetrics } from './call-metrics.js'
import { Meanings } from './meaning.js'
import { templateOperations } from './operations.js'
import { openApiPage } from './page/index.js'
import { listRoutes, restRoutes } from './rest.js'
import { Templates } from './templates.js'
import { templateUsage } from './usage.js'

/** Stored queries with parameters, as operations of the JSON query API and as REST calls. */
export default definePlugin({
  name: 'template',
  needs: ['query'],
  wants: ['live'],
  setup(host) {
    const data = host.use('data')
    const operations = host.use('operations')
    const meanings = new Meanings(data, operations, host.use('query'))
    const calls = new CallMetrics(host)
    const templates = new Templates(data, operations, meanings, calls)
    data.describeCatalog({ templates: meanings.resolve })
    // The operations that a template runs have limits of their own.
    for (const [type, operation] of Object.entries(templateOperations(data, templates)))
      host.operation(type, { ...operation, undoable: true, timeoutMs: 0 })
    host.operation('template_usage', templateUsage(data, templates, calls))
    openApiPage(host.router)
    host.link('Query templates', '/v1/openapi')
    listRoutes(host.router, data, templates)
    restRoutes(host, data, templates)
  },
})
