import { type Call, type Data, type Host, jsonAnswer, type Operations, ServiceError, serviceError } from 'rowhouse'
import { at, isUnder, type Json, liftTableRef, notExists, stringifyJson, tableName, type TableRef } from 'rowhouse/plan'
import { without } from './capture.js'
import { readName, refuseUnknown, type Targets } from './definition.js'
import type { Store } from './store.js'
import { type Known, triggersIn } from './triggers.js'

const anything = {} as const
const id = { type: 'string', pattern: '^[0-9]{1,18}$' } as const
const name = { type: 'string' } as const
const SUCCESS = { message: 'success' }
/** Maximum number of triggers of all tables. */
const MOST_TRIGGERS = 500
const MOST_EVENTS = 1000

interface Parts {
  readonly data: Data
  readonly operations: Operations
  readonly store: Store
  readonly wake: () => void
  readonly targetsFor: (call: Call) => Targets
}

/** Adds the operations of the JSON query API on triggers and events. */
export function addOperations(host: Host, { data, operations, store, wake, targetsFor }: Parts): void {
  host.operation('create_event_trigger', {
    admin: true,
    undoable: true,
    args: {
      type: 'object',
      properties: {
        name,
        table: anything,
        on: anything,
        to: anything,
        payload: anything,
        order_by: anything,
        retry: anything,
      },
      required: ['name', 'table', 'on', 'to'],
    },
    async run(args, call) {
      const { name: given, table: ref, ...trigger } = args
      const named = readName(given, '$.args.name')
      const table = liftTableRef(ref as Json, '$.args.table')
      refuseUnknown(trigger.to as Json, targetsFor(call), '$.args.to')
      if (Array.isArray(trigger.payload)) await checkPayload(table, trigger.payload, call)
      await data.alter(call, async (edit) => {
        const all = triggersOf(edit.trackedTables)
        if (all.some((each) => each.name === named)) {
          throw serviceError('already-exists', `event trigger "${named}" already exists`, '$.args.name')
        }
        if (all.length >= MOST_TRIGGERS) {
          throw serviceError('not-supported', `there are ${MOST_TRIGGERS} event triggers already`, '$.args')
        }
        const before = all.filter((each) => isSame(each.table, table))
        const triggers = [...before.map((each) => [each.name, each.trigger]), [named, defined(trigger)]]
        const definition = Object.fromEntries(triggers) as unknown as Json
        await edit.capture(table, 'events', definition, '$.args', '$').catch((error: unknown) => {
          throw within(named, error)
        })
      })
      await store.resume(named, call.transaction)
      return jsonAnswer(SUCCESS)
    },
  })

  host.operation('resume_event_trigger', {
    admin: true,
    undoable: true,
    args: { type: 'object', properties: { name }, required: ['name'] },
    async run({ name: given }, call) {
      if (!(await store.resume(given, call.transaction))) {
        throw notExists(`event trigger "${given}" is not stopped`, '$.args.name')
      }
      wake()
      return jsonAnswer(SUCCESS)
    },
  })

  /** @throws ServiceError 400 for columns that do not exist */
  async function checkPayload(table: TableRef, columns: Json[], call: Call): Promise<void> {
    const request = operations.lift({ type: 'select', args: { table: { ...table }, columns } })
    if (!request) return
    await data.check(request, call).catch((error: unknown) => {
      if (!(error instanceof ServiceError) || !isUnder(error.path, COLUMNS)) throw error
      throw error.moved(`$.args.payload${error.path.slice(COLUMNS.length)}`)
    })
  }

  host.operation('drop_event_trigger', {
    admin: true,
    undoable: true,
    args: { type: 'object', properties: { name, table: anything }, required: ['name'] },
    async run({ name: given, table: ref }, call) {
      const only = ref === undefined ? undefined : liftTableRef(ref as Json, '$.args.table')
      await data.alter(call, async (edit) => {
        const found = triggersOf(edit.trackedTables).filter(
          (each) => each.name === given && (!only || isSame(each.table, only)),
        )
        const [one] = found
        if (!one) throw notExists(`event trigger "${given}" does not exist`, '$.args.name')
        if (found.length > 1) {
          const tables = found.map((each) => tableName(each.table)).join(', ')
          throw serviceError('unexpected-payload', `these tables have such a trigger: ${tables}`, '$.args.table')
        }
        const tracked = edit.trackedTables.find((each) => isSame(each.ref, one.table))!
        await edit.capture(one.table, 'events', without(tracked.captures['events'] as Json, given))
      })
      return jsonAnswer(SUCCESS)
    },
  })

  host.operation('events', {
    admin: true,
    undoable: true,
    args: {
      type: 'object',
      properties: {
        state: { type: 'string', enum: ['queued', 'done', 'failed'] },
        trigger: name,
        limit: { type: 'integer', minimum: 1, maximum: MOST_EVENTS, default: 100 },
        before: id,
      },
    },
    async run(asked, { transaction }) {
      return { kind: 'text', text: stringifyJson((await store.list(asked, transaction)) as unknown as Json) }
    },
  })

  host.operation('retry_event', {
    admin: true,
    undoable: true,
    args: { type: 'object', properties: { id }, required: ['id'] },
    async run({ id: given }, call) {
      if (!(await store.retry(given, call.transaction))) throw notExists(`there is no event "${given}"`, '$.args.id')
      if (!call.transaction) wake()
      return jsonAnswer({ id: given })
    },
  })
}

const COLUMNS = '$.args.columns'

type Tracked = { readonly ref: TableRef; readonly captures: Readonly<Record<string, Json>> }
const triggersOf = (tables: readonly Tracked[]): readonly Known[] =>
  tables.flatMap(({ ref, captures }) => triggersIn(ref, captures['events']))

const isSame = (one: TableRef, other: TableRef): boolean => one.schema === other.schema && one.name === other.name

/** Leaves out what was not given. */
const defined = (object: object): object =>
  Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined))

/** Returns an error about the definition of a table with its place in the arguments of one trigger. */
function within(name: string, error: unknown): unknown {
  if (!(error instanceof ServiceError)) return error
  const own = at('$', name)
  return error.path.startsWith(own) ? error.moved(`$.args${error.path.slice(own.length)}`) : error
}
