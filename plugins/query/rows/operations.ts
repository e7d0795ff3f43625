import {
  type Answer,
  type Call,
  type Data,
  type Json,
  type Operation,
  type Request,
  type Templatable,
  timed,
} from 'rowhouse'
import { isObject, type JsonObject, type Rows, splitArray, splitObject } from 'rowhouse/plan'
import { whenExpected } from './expect.js'
import { liftCall, liftCount, liftSelect } from './lift/reads.js'
import { liftDelete, liftInsert, liftUpdate, liftWholeInsert } from './lift/writes.js'
import { type Lifted, PLANNER } from './lift/shape.js'
import { insertWithRelated, updateWithRelated } from './nested.js'

const text = (json: string | undefined): Answer => ({ kind: 'text', text: json as string })

const ASSIGNED = { '*': 'value' } as const
/** Parts of a select, and of the relationships in its columns, that a template can replace by parameters. */
const READ: { [key: string]: Templatable[string] } = {
  where: 'condition',
  having: 'condition',
  limit: 'count',
  offset: 'count',
  after: ASSIGNED,
  order_by: { rank: { query: 'value', language: 'value' } },
}
READ['columns'] = READ
const RETURNING = { returning: READ }
const WHERE: Templatable = { where: 'condition', expect: { version: 'value' }, ...RETURNING }

/** The operations select, insert, update, delete, count and call. */
export function rowOperations(data: Data): Record<string, Operation> {
  /** @param how its statement runs, unless it runs by several of its own */
  const request =
    (lift: (args: Json) => Lifted, { isLast, onStandby }: Pick<Request, 'isLast' | 'onStandby'> = {}) =>
    (args: Json, call?: Call): Request => {
      const { shape, values } = call?.timing ? timed(call.timing, 'lift', () => lift(args)) : lift(args)
      return { planner: PLANNER, shape, values, isLast, onStandby }
    }
  const lone = (lift: (args: Json) => Lifted) => request(lift, { isLast: true })
  /** A version that is expected may need a second statement. */
  const writing = (lift: (args: Json) => Lifted) => (args: Json, call: Call) =>
    isObject(args) && args['expect'] === undefined ? lone(lift)(args, call) : request(lift)(args, call)
  const counted = request(liftCount, { isLast: true, onStandby: true })
  const reading = (lift: (args: Json) => Lifted, templatable: Templatable): Operation => {
    const read = request(lift, { isLast: true, onStandby: true })
    return {
      formats: true,
      templatable,
      lift: request(lift, { onStandby: true }),
      run(args, call) {
        const limit = isObject(args) ? args['limit'] : undefined
        return data.read(read(args, call), call, typeof limit === 'number' ? limit : undefined)
      },
    }
  }
  const inserted = lone(liftInsert)
  return {
    select: reading(liftSelect, READ),
    insert: {
      templatable: { objects: 'rows', ...RETURNING },
      lift: (args) => request(liftWholeInsert)(args),
      async run(args, call) {
        const lifted = inserted(args, call)
        const result = await data.run(lifted, call)
        return text(result ?? (await insertInSteps(data, args as JsonObject, lifted.values[0] as Rows, call)))
      },
    },
    update: {
      ifMatch: true,
      templatable: { ...WHERE, $set: ASSIGNED, values: ASSIGNED, $inc: ASSIGNED, $mul: ASSIGNED },
      lift: (args) => request((each) => liftUpdate(each, true))(args),
      async run(args, call) {
        const update = async (wanted: Json) =>
          (await data.run(writing(liftUpdate)(wanted, call), call)) ??
          (await updateWithRelated(data, wanted as JsonObject, call))
        return text(await whenExpected(data, args, call, update))
      },
    },
    delete: {
      ifMatch: true,
      templatable: WHERE,
      lift: (args) => request(liftDelete)(args),
      async run(args, call) {
        const remove = async (wanted: Json) => (await data.run(writing(liftDelete)(wanted, call), call)) as string
        return text(await whenExpected(data, args, call, remove))
      },
    },
    count: {
      templatable: { where: 'condition' },
      lift: (args) => counted(args),
      run: async (args, call) => text(await data.run(counted(args, call), call)),
    },
    call: reading(liftCall, { ...READ, arguments: ASSIGNED }),
  }
}

/** Inserts rows that need several statements, in one transaction. */
function insertInSteps(data: Data, args: JsonObject, rows: Rows, call: Call): Promise<string> {
  return data.transaction(call, async (inner) => {
    return (await insertWithRelated(data, args, rows, inner)) ?? insertByKeySet(data, args, rows, inner)
  })
}

/** Inserts rows with different keys, with one statement for each set of keys. */
async function insertByKeySet(data: Data, args: JsonObject, rows: Rows, call: Call): Promise<string> {
  const groups = rows.groups('$.args.objects')
  let affected = 0
  const returning: string[] = []
  const unordered: string[] = []
  for (const group of groups) {
    const answer = await data.run({ planner: PLANNER, ...liftInsert(args, group.rows) }, call)
    const result = splitObject(answer as string)
    affected += Number(result.get('affected_rows'))
    // If a conflict skipped rows, it is unknown which ones.
    const returned = splitArray(result.get('returning') ?? '[]')
    if (returned.length === group.indices.length)
      returned.forEach((row, i) => (returning[group.indices[i] as number] = row))
    else unordered.push(...returned)
  }
  if (args['returning'] === undefined || args['returning'] === null) return `{"affected_rows":${affected}}`
  const ordered = Array.from({ length: rows.count }, (_, i) => returning[i]).filter((row) => row !== undefined)
  return `{"affected_rows":${affected},"returning":[${[...ordered, ...unordered].join(',')}]}`
}
