import { type Call, type Data, definePlugin, INTERNAL, type Operations, type Services } from 'rowhouse'
import { parseJson } from 'rowhouse/plan'
import { METADATA } from './metadata.js'
import { SCHEMA } from './schema.js'

/** A shop to try things on: loaded once, into a database that has nothing in it. */
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
 * Loads the shop, all of it or nothing, unless something is tracked already or there are tables in `public`.
 * @returns whether it was loaded
 */
export async function loadSample(data: Data, operations: Operations, log: Services['log']): Promise<boolean> {
  if ([...data.catalog.tables.values()].some(({ system }) => !system)) return false
  const call: Call = { session: INTERNAL, signal: new AbortController().signal, format: 'json' }
  const began = performance.now()
  const loaded = await data.transaction(call, async (inner) => {
    const tables = await operations.run(query('run_sql', { sql: TABLES }), inner)
    if (tables.kind !== 'text' || !tables.text.includes('["0"]')) return false
    log.info('loading the sample shop')
    await operations.run(query('run_sql', { sql: SCHEMA }), inner)
    await operations.run(query('replace_metadata', METADATA), inner)
    return true
  })
  if (loaded) log.info({ ms: Math.round(performance.now() - began) }, 'the sample shop is loaded')
  return loaded
}

const TABLES = "select count(*) from information_schema.tables where table_schema = 'public'"

const query = (type: string, args: object) => parseJson(JSON.stringify({ type, args }))
