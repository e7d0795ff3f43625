import { type Call, definePlugin, type Host, INTERNAL } from 'rowhouse'
import { parseJson } from 'rowhouse/plan'
import { sample } from './command.js'
import { sendMail } from './mail.js'
import { metadata } from './metadata.js'
import { picture } from './picture.js'
import { MAY_LOAD, SCHEMA } from './schema.js'

/** Loads the sample shop into an empty database. */
export default definePlugin({
  name: 'sample',
  needs: ['data', 'operations', 'log'],
  wants: ['filestore', 'notify'],
  commands: [sample],
  setup(host) {
    host.onReady(async () => {
      if (await loadSample(host)) await sendMail(host)
    })
  },
})

/**
 * Loads the shop in one transaction, unless a table is tracked, the schema `public` contains tables, or the shop was
 * removed.
 * @returns whether it was loaded
 */
async function loadSample(host: Host<'data' | 'operations', 'filestore'>): Promise<boolean> {
  const [data, operations, log] = [host.use('data'), host.use('operations'), host.use('log')]
  if ([...data.catalog.tables.values()].some(({ system }) => !system)) return false
  const call: Call = { session: INTERNAL, signal: new AbortController().signal, format: 'json' }
  const start = performance.now()
  const loaded = await data.transaction(call, async (inner) => {
    const run = (type: string, args: object) => operations.run(parseJson(JSON.stringify({ type, args })), inner)
    const [empty] = await data.query<{ yes: boolean }>(MAY_LOAD, [], inner.transaction)
    if (!empty?.yes) return false
    log.info('loading the sample shop')
    await run('run_sql', { sql: SCHEMA })
    const drawn = await storePictures(host, inner)
    if (!drawn) await data.query('update product set picture = null', [], inner.transaction)
    await run('replace_metadata', metadata(drawn))
    for (const type of ['set_table_live', 'set_table_history'] as const) {
      if (operations.get(type))
        await run(type, { table: 'orders', ...(type === 'set_table_live' ? { live: true } : {}) })
    }
    return true
  })
  if (loaded) log.info({ ms: Math.round(performance.now() - start) }, 'the sample shop is loaded')
  return loaded
}

/**
 * Stores pictures of some products, if there is a filestore. They are there before the shop is committed, and replaced if
 * it is loaded again.
 * @returns whether they are stored
 */
async function storePictures(
  host: Host<'data', 'filestore'>,
  { transaction, signal }: Call & Required<Pick<Call, 'transaction'>>,
): Promise<boolean> {
  const filestore = host.find('filestore')
  if (!filestore) return false
  const data = host.use('data')
  const products = await data.query<{ picture: string; name: string }>(DRAWN, [], transaction)
  const files = products.map(({ picture: id, name }) => ({ id, contentType: 'image/png', content: picture(name) }))
  try {
    await filestore.write(files, signal)
    return true
  } catch (error) {
    host.use('log').warn({ err: error }, 'the pictures of the sample shop could not be stored')
    return false
  }
}

const DRAWN = 'select picture, name from product where picture is not null order by id'
