import type { Compiled } from './compile/compile.js'
import type { Request } from './data/data.js'
import type { Answer, Call } from './data/operations.js'
import type { Job } from './db/lane.js'
import type { Form } from './sql/emit.js'
import { timed } from './timing.js'

/** The rooms that a request passes on its way, as `core/data/service.ts` furnishes them. */
export interface Rooms {
  /**
   * Turns a shape into SQL that the caller's role may run; once for each shape and role.
   * @see core/compile, core/plan, core/sql
   */
  compile(request: Request, call: Call, form: Form, isFree?: boolean): Promise<Compiled>
  /** Refuses a request that costs too much. @see core/data/request-limits.ts */
  checkPrice(plan: Compiled, request: Request, call: Call): void
  /** Makes the values into what PostgreSQL reads. @see core/sql/bind.ts */
  bind(plan: Compiled, request: Request, call: Call): Job
  /** Runs a request whose answer is one text. @see core/db */
  runCell(job: Job, call: Call): Promise<Answer>
  /** Runs a read whose rows may be many, and frames them. @see core/db/stream.ts, core/data/format.ts */
  runRows(job: Job, call: Call): Promise<Answer>
}

/** Most rows of an answer that is made as one text. */
const FEW = 1000

/**
 * Answers a request. These are all its steps, from the bytes that a client sent to those that it gets:
 *
 * - parse: the body becomes JSON, in `core/http/body.ts` and `core/json`;
 * - lift: a front end parts its shape from its values, in the `lift.ts` of a plugin;
 * - compile, bind, run: below;
 * - respond: the answer goes to the client, in `core/http/respond.ts`.
 *
 * @param most rows that the client asks for; undefined: the answer is one text, however long
 * @returns undefined when the rows of an insert have different keys, and have to be inserted a set of keys at a time
 */
export async function answerRequest(
  rooms: Rooms,
  request: Request,
  call: Call,
  most?: number,
): Promise<Answer | undefined> {
  const { timing, format } = call
  const compile = (form: Form, isFree?: boolean) =>
    timed(timing, 'compile', () => rooms.compile(request, call, form, isFree))

  const isJson = most === undefined || format === 'json'
  let plan = await compile(isJson ? 'array' : format === 'csv' ? 'cells' : 'rows')
  rooms.checkPrice(plan, request, call)
  if (plan.statements.length === 0) return undefined
  const isWhole = most === undefined || (isJson && Math.min(most, plan.mostRows ?? Infinity) <= FEW)
  // The caller has been charged for the other form of the same request.
  if (!isWhole && isJson) plan = await compile('rows', true)
  const job = timed(timing, 'bind', () => rooms.bind(plan, request, call))
  return timed(timing, 'run', () => (isWhole ? rooms.runCell(job, call) : rooms.runRows(job, call)))
}
