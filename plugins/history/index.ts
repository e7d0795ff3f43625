import { definePlugin, jsonAnswer, setting } from 'rowhouse'
import { type Json, liftTableRef, stringifyJson } from 'rowhouse/plan'
import { capture } from './capture.js'
import { readHistory } from './read.js'
import { migrations } from './schema.js'
import { undoChange } from './undo.js'

const DAY_MS = 86_400_000
/** How often old changes are deleted, and how many at a time. */
const PRUNE_MS = 60_000
const BATCH = 10_000
const MOST = 1000

const table = {} as const
const name = { type: 'string' } as const

/** The history of rows: who changed what, and when. */
export default definePlugin({
  name: 'history',
  needs: ['data', 'operations'],
  config: {
    type: 'object',
    properties: { keepDays: setting.amount(90, 'Days to keep changes for. 0 keeps them for ever.') },
  },
  migrations,
  setup(host, { keepDays }) {
    const data = host.use('data')
    const operations = host.use('operations')
    data.describeCatalog({ captures: new Map([['history', capture]]) })

    host.operation('set_table_history', {
      admin: true,
      args: {
        type: 'object',
        properties: {
          table,
          history: { type: 'boolean', default: true },
          columns: { type: 'array', items: name, minItems: 1 },
        },
        required: ['table'],
      },
      async run({ table: given, history, columns }, call) {
        const definition: Json = history ? (columns ? { columns: [...columns] } : {}) : null
        await data.alter(call, (edit) =>
          edit.capture(liftTableRef(given as Json, '$.args.table'), 'history', definition),
        )
        return jsonAnswer({ message: 'success' })
      },
    })
    host.operation('row_history', {
      args: {
        type: 'object',
        properties: {
          table,
          key: {},
          limit: { type: 'integer', minimum: 1, maximum: MOST, default: 100 },
          before: { type: 'string', pattern: '^[0-9]{1,18}$' },
        },
        required: ['table'],
      },
      undoable: true,
      async run({ table: given, key, ...asked }, call) {
        const question = { ...asked, key: key as Json | undefined, table: liftTableRef(given as Json, '$.args.table') }
        return { kind: 'text', text: stringifyJson(await readHistory({ data, operations }, question, call)) }
      },
    })
    host.operation('undo_change', {
      admin: true,
      args: {
        type: 'object',
        properties: { id: { type: 'string', pattern: '^[0-9]{1,18}$' } },
        required: ['id'],
      },
      undoable: true,
      async run({ id }, call) {
        return data.once(call, async (once) =>
          data.transaction(once, async (inner) => {
            const undone = await undoChange({ data, operations }, id, inner)
            return { kind: 'text', text: stringifyJson(undone) } as const
          }),
        )
      },
    })
    if (keepDays > 0) {
      host.every('delete old history', PRUNE_MS, async () => {
        await data.query(
          `delete from svc_catalog.svc_history where id in (
             select id from svc_catalog.svc_history where at < now() - $1::float8 * interval '1 millisecond' limit ${BATCH})`,
          [keepDays * DAY_MS],
        )
      })
    }
  },
})
