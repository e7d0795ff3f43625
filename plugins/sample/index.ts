import { type Call, type Data, definePlugin, INTERNAL, type Operations, type Services } from 'rowhouse'
import { parseJson } from 'rowhouse/plan'
import { METADATA } from './metadata.js'
import { SCHEMA } from './schema.js'

/** Loads the sample shop into an empty database. */
export default definePlugin({
  name: 'sample',
  needs: ['data', 'operations', 'log'],
  setup(host) {
    host.onReady(async () => {
      await loadSample(host.use('data'), host.use('operations'), host.use('log'))
    })
  },
})

/**
 * Loads the shop in one transaction, unless a table is tracked or the schema `public` contains tables.
 * @returns whether it was loaded
 */
async function loadSample(data: Data, operations: Operations, log: Services['log']): Promise<boolean> {
  if ([...data.catalog.tables.values()].some(({ system }) => !system)) return false
  const call: Call = { session: INTERNAL, signal: new AbortController().signal, format: 'json' }
  const start = performance.now()
  const loaded = await data.transaction(call, async (inner) => {
    const tables = await operations.run(query('run_sql', { sql: TABLES }), inner)
    if (tables.kind !== 'text' || !tables.text.includes('["0"]')) return false
    log.info('loading the sample shop')
    await operations.run(query('run_sql', { sql: SCHEMA }), inner)
    await operations.run(query('replace_metadata', METADATA), inner)
    return true
  })
  if (loaded) log.info({ ms: Math.round(performance.now() - start) }, 'the sample shop is loaded')
  return loaded
}

const TABLES = "select count(*) from information_schema.tables where table_schema = 'public'"

const query = (type: string, args: object) => parseJson(JSON.stringify({ type, args }))
