import type { Answer } from './answer.js'
import type { Compiled } from './compile/compile.js'
import type { Request } from './data/data.js'
import type { Call, Operations } from './data/operations.js'
import { countOf } from './data/request-limits.js'
import type { Job } from './db/lane.js'
import { ServiceError, serviceError } from './errors.js'
import type { Eventual } from './deadline.js'
import { type JsonReading, readJson } from './http/body.js'
import type { Exchange } from './http/exchange.js'
import { tagged, wantedFormat } from './http/respond.js'
import type { Json } from './json/parse.js'
import type { Form } from './sql/emit.js'
import { timed } from './observe/timing.js'

/**
 * The way of a request of the JSON query API, from its body to its answer. Both ways of HTTP lead here: past Koa
 * (`core/http/fast`) and through it (`core/http/app.ts`). They have admitted the request and know its session
 * (`core/http/admission.ts`), and send the answer (`core/http/respond.ts`).
 */
export function answerQuery(exchange: Exchange, operations: Operations, reading: JsonReading): Promise<Answer> {
  const format = wantedFormat(exchange)
  const run = async (query: Json): Promise<Answer> => {
    const call = callOf(exchange, format) // session
    const answer = await operations.run(query, call) // core/data/registry.ts; lift: plugins/query/lift; then answerRequest
    return tagged(exchange, answer) // versions as an ETag: core/http/respond.ts
  }
  const query = readJson(exchange, reading) // parse: core/http/body.ts, core/json
  return query instanceof Promise ? query.then(run) : run(query)
}

/** Returns the context of an operation that a request starts. */
export function callOf(
  exchange: Pick<Exchange, 'state'> | Pick<Exchange, 'state' | 'get' | 'set'>,
  format: Call['format'] = 'json',
  dialect?: Call['dialect'],
): Call {
  return new HttpCall(exchange.state, 'get' in exchange ? exchange : undefined, format, dialect)
}

/** The context of an operation. Its signal is made when it is read, which most requests never do. */
class HttpCall implements Call {
  declare readonly signal: AbortSignal
  readonly session: Call['session']
  readonly keyed: Call['keyed']
  readonly dryRun: Call['dryRun']
  readonly timing: Call['timing']
  readonly explains: Call['explains']
  readonly requestId: string
  name: string | undefined

  constructor(
    private readonly state: Exchange['state'],
    readonly headers: Call['headers'],
    readonly format: Call['format'],
    readonly dialect: Call['dialect'],
  ) {
    this.session = state.session
    this.keyed = state.keyed
    this.dryRun = state.dryRun
    this.timing = state.timing
    this.requestId = state.requestId
    this.explains = state.limits.explainPermissions
    // A property of its own, so that copies of a call have it.
    Object.defineProperty(this, 'signal', SIGNAL)
  }

  readonly log = () => this.state.log
}

const SIGNAL = {
  enumerable: true,
  get(this: Pick<Exchange, 'state'>) {
    return this.state.signal
  },
}

/** Maximum number of rows that are returned as one text. */
const FEW = 1000
/** Maximum length of one text that counts as short. */
const SHORT = 1024 * 1024

/**
 * Runs a request of the database that a plugin lifted: its shape, apart from its values. A known shape is found at once,
 * and waits for PostgreSQL only: each function that waits takes up to a kilobyte.
 * @param most maximum number of rows that the client requests; undefined: returns one text of any length
 * @returns undefined when the rows of an insert have different keys and must be inserted per key set
 */
export function answerRequest(
  steps: RequestSteps,
  request: Request,
  call: Call,
  most?: number,
): Promise<Answer | undefined> {
  const run = (plan: Compiled) => runPlan(steps, plan, request, call, most)
  // compile: core/data/plans.ts, core/compile
  const plan = compile(steps, request, call, formOf(call, most))
  return plan instanceof Promise ? plan.then(run) : run(plan)
}

const compile = (steps: RequestSteps, request: Request, call: Call, form: Form, isFree?: boolean): Eventual<Compiled> =>
  call.timing
    ? timed(call.timing, 'compile', () => steps.compile(request, call, form, isFree))
    : steps.compile(request, call, form, isFree)

const isOneText = ({ format }: Call, most: number | undefined): boolean => most === undefined || format === 'json'
const formOf = (call: Call, most: number | undefined): Form =>
  isOneText(call, most) ? 'array' : call.format === 'csv' ? 'cells' : 'rows'

function runPlan(
  steps: RequestSteps,
  plan: Compiled,
  request: Request,
  call: Call,
  most: number | undefined,
): Promise<Answer | undefined> {
  steps.checkPrice(plan, request, call) // cost: core/data/request-limits.ts
  if (plan.statements.length === 0) return Promise.resolve(undefined)
  const isJson = isOneText(call, most)
  const writes = plan.statements.length > 1
  if (writes && !isJson) {
    throw serviceError('not-acceptable', 'a function that may change the database answers JSON only')
  }
  const isCell = writes || most === undefined || (isJson && Math.min(most, mostRows(plan, request.values)) <= FEW)
  const run = (): Promise<Answer> =>
    isCell ? runBound(steps, 'runCell', plan, request, call) : runMany(steps, plan, request, call, isJson)
  const binding = steps.bindLong(plan, request, call) // bind: core/sql/bind.ts; core/long
  return binding ? timed(call.timing, 'bind', () => binding).then(run) : run()
}

/** Binds, and runs on a lane of `core/db`. */
function runBound(
  steps: RequestSteps,
  how: 'runCell' | 'runRows',
  plan: Compiled,
  request: Request,
  call: Call,
): Promise<Answer> {
  const { timing } = call
  if (!timing) return steps[how](steps.bind(plan, request, call), call)
  const job = timed(timing, 'bind', () => steps.bind(plan, request, call))
  return timed(timing, 'run', () => steps[how](job, call))
}

/** Runs a read that may return many rows. */
async function runMany(
  steps: RequestSteps,
  plan: Compiled,
  request: Request,
  call: Call,
  isJson: boolean,
): Promise<Answer> {
  if (plan.parts && steps.isShort(plan)) {
    const answer = await runBound(steps, 'runCell', plan, request, call).catch(ifTooLarge)
    steps.recordLength(plan, !answer || lengthOf(answer) > SHORT)
    if (answer) return answer
  }
  // The caller has been charged for the other form of the same request.
  const rows = isJson ? await compile(steps, request, call, 'rows', true) : plan
  const answer = await runBound(steps, 'runRows', rows, request, call)
  if (plan.parts) steps.recordLength(plan, answer.kind === 'stream')
  return answer
}

/** Returns the most rows that a read, or any list of several reads, can have. */
function mostRows({ parts, mostRows: most = Infinity }: Compiled, values: readonly Json[]): number {
  const lists = parts?.flatMap(({ list }) => list ?? [])
  return lists ? Math.max(0, ...lists.map(({ limits }) => countOf(limits, values))) : most
}

function ifTooLarge(error: unknown): undefined {
  if (error instanceof ServiceError && error.code === 'answer-too-large') return
  throw error
}

const lengthOf = (answer: Answer): number =>
  answer.kind === 'text' ? answer.text.length : answer.kind === 'bytes' ? answer.bytes.length : Infinity

/** The steps of a request, implemented by `core/data/service.ts`. */
export interface RequestSteps {
  /**
   * Compiles a shape to SQL that the caller's role may run, once per shape and role.
   * @see core/compile, core/plan, core/sql
   */
  compile(request: Request, call: Call, form: Form, isFree?: boolean): Eventual<Compiled>
  /** Refuses a request above the cost limit. @see core/data/request-limits.ts */
  checkPrice(plan: Compiled, request: Request, call: Call): void
  /** Encodes rows that are too long for `bind` beforehand, in a worker. Returns undefined if there are none. */
  bindLong(plan: Compiled, request: Request, call: Call): Promise<void> | undefined
  /** Encodes the values for PostgreSQL. @see core/sql/bind.ts */
  bind(plan: Compiled, request: Request, call: Call): Job
  /** Runs a request that returns one text. @see core/db */
  runCell(job: Job, call: Call): Promise<Answer>
  /**
   * Runs a read that may return many rows, and formats them.
   * @see core/db/stream.ts, core/data/format.ts
   */
  runRows(job: Job, call: Call): Promise<Answer>
  /** Returns whether the answer of several reads is likely to be short, as the ones before. @see core/data/plans.ts */
  isShort(plan: Compiled): boolean
  /** Records the length of an answer of several reads. */
  recordLength(plan: Compiled, isLong: boolean): void
}
