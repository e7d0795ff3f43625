import { setImmediate } from 'node:timers/promises'
import {
  type Call,
  type Data,
  type JsonSchema,
  type Operations,
  permissionRole,
  type Place,
  type Request,
  SharedCache,
  type Steps,
  tablesOf,
} from 'rowhouse'
import {
  at,
  describe,
  isObject,
  type Json,
  type JsonObject,
  type Names,
  namesFor,
  NO_LIMITS,
  type Op,
  parseFailed,
  parseJson,
  ServiceError,
  unexpectedPayload,
} from 'rowhouse/plan'
import { assertExpected } from './expectation.js'
import { follow, parseReference, type Reference } from './reference.js'
import {
  addAnswer,
  asWritten,
  checkStep,
  checkTemplate,
  EACH,
  fillReferences,
  knownTo,
  namesOf,
  needsAnswer,
  readStep,
  schemaOf,
  type Step,
  type StepPlanner,
  underMember,
  underMemberAsync,
  valueForPlace,
  within,
} from './steps.js'

/** Deeper values would overflow the stack. */
const OF_ANSWERS = { ...NO_LIMITS, maxDepth: 1000 }
/** How long checks may keep other requests waiting, in milliseconds. */
const SLICE_MS = 5

/** What the steps of a bulk need. */
interface StepTools {
  readonly data: Data
  readonly operations: Operations
  /** Runs a query in the transaction of the bulk. */
  runQuery(query: Json, call: Call): Promise<string>
  /** Counts further members. @throws ServiceError 400 when there are too many */
  spend(members: number): void
  /** Counts a value that a reference stands for. @throws ServiceError 400 when they are too large together */
  spendValue(value: Json, path: string): void
}

/** Runs the member `i`. */
type RunStep = (i: number, order: Pick<Call, 'onSent' | 'earlier'>) => Promise<string>

/**
 * Prepares the members of a bulk that have names, references or expectations.
 * @returns a function that runs the member `i`. It first checks the members that it can before it runs anything
 */
export function startSteps(members: readonly Json[], tools: StepTools, call: Call): RunStep {
  const { operations } = tools
  const steps = members.map((member, i) => underMember(i, () => readStep(member)))
  const answers = new Answers(call.steps)
  // The answers of outer steps are known, and an empty schema allows all.
  const schemas = new Map<string, JsonSchema>(call.steps?.names.map((name) => [name, {}]))
  // A bulk in a bulk has been checked with the outer one, unless its members change what others mean.
  let checked = call.steps && !steps.some(({ query }) => changesMetadata(query, operations)) ? Infinity : 0

  /** Checks the steps from `from` on, up to one that may change what the others mean. */
  async function check(from: number): Promise<void> {
    const planner = { ...plannerFor(tools, call), names: namesOf(steps) }
    let since = performance.now()
    for (checked = from; checked < steps.length; checked++) {
      if (performance.now() - since > SLICE_MS) {
        // Other requests, and the end of this one, are not kept waiting.
        await setImmediate()
        call.signal.throwIfAborted()
        since = performance.now()
      }
      const step = steps[checked] as Step
      const own = { ...planner, values: within(call.values, at('$.args', checked)) }
      await underMemberAsync(checked, () => checkResolved(step, schemas, own, call))
      if (changesMetadata(step.query, operations)) {
        checked++
        return
      }
    }
  }

  return async (i, order) => {
    if (i >= checked) await check(i)
    const own = { ...call, ...order, values: within(call.values, at('$.args', i)) }
    return underMemberAsync(i, () => runStep(steps[i] as Step, answers, tools, own))
  }
}

function plannerFor({ data, operations }: StepTools, call: Call): StepPlanner {
  const catalog = data.catalogFor(call)
  const names = namesFor(permissionRole(call.session), catalog)
  let known = plans.get(names)
  if (!known) plans.set(names, (known = new SharedCache(MAX_BYTES)))
  const plan = (request: Request): Op => {
    const key = JSON.stringify([request.planner, request.shape])
    const hit = known.get(key)
    if (hit) return hit
    const made = data.plan(request, names)
    known.set(key, made, 2 * JSON.stringify(made).length, call.session.caller)
    return made
  }
  return { operations, find: tablesOf(names), plan }
}

/** Plans of requests for checks, by the names that they were planned with. */
const plans = new WeakMap<Names, SharedCache<Op>>()
/** For each role. */
const MAX_BYTES = 1024 * 1024

/**
 * Checks a step. Of a template, checks the query that it runs. A bulk that changes metadata checks its own members when it
 * runs.
 */
async function checkResolved(
  step: Step,
  known: Map<string, JsonSchema>,
  planner: StepPlanner,
  call: Call,
): Promise<void> {
  const { operations } = planner
  const operation = operations.get(step.query['type'] as string)
  if (operation?.templatable === 'queries' && changesMetadata(step.query, operations)) {
    knownTo(step, known, planner)
    addAnswer(step, known, { type: 'array' })
    return
  }
  if (!operation?.resolve) {
    checkStep(step, known, planner, false)
    return
  }
  const names = knownTo(step, known, planner)
  const given = new Map<Json, JsonSchema>()
  const open: string[] = []
  const query = fillReferences(
    step.query,
    operation,
    (mark, { path }) => {
      const unknown = { ...mark }
      given.set(unknown, schemaOf(parseReference(mark['$ref'], path), names, path, planner))
      open.push(path)
      return unknown
    },
    planner.values,
  )
  operations.lift(query, open)
  const answer = await operation.resolve(query['args'] as Json, call, async (inner, values) =>
    checkTemplate(inner as JsonObject, values, { ...planner, given }, needsAnswer(step)),
  )
  addAnswer(step, known, answer)
}

/** Returns whether a query may change which tables there are, or what a role may do. */
function changesMetadata({ type, args }: JsonObject, operations: Operations): boolean {
  const operation = operations.get(type as string)
  if (operation?.templatable !== 'queries') return operation?.admin === true
  return Array.isArray(args) && args.some((each) => isObject(each) && changesMetadata(each, operations))
}

async function runStep(step: Step, answers: Answers, tools: StepTools, call: Call): Promise<string> {
  const { query, as, forEach, expect } = step
  const operation = tools.operations.get(query['type'] as string)
  const isBulk = operation?.templatable === 'queries'
  const runWith = async (known: Answers): Promise<string> => {
    const places: Place[] = []
    try {
      return await runFilled(known, places)
    } catch (error) {
      throw asWritten(error, places)
    }
  }
  const runFilled = async (known: Answers, places: Place[]): Promise<string> => {
    const filled = fillReferences(
      query,
      operation,
      (mark, place) => {
        places.push(place)
        const value = valueOf(parseReference(mark['$ref'], place.path), known, place.path)
        tools.spendValue(value, place.path)
        return valueForPlace(value, place)
      },
      call.values,
    )
    // What follows a failed expectation does not start.
    const onSent = forEach || isBulk || expect ? undefined : call.onSent
    const answer = await tools.runQuery(filled, { ...call, onSent, steps: isBulk ? known : undefined })
    if (expect) assertExpected(expect, parseJson(answer, OF_ANSWERS), '$.expect')
    return answer
  }
  const answer = forEach ? await runForEach(forEach, runWith, answers, tools) : await runWith(answers)
  if (as !== undefined) answers.add(as, answer)
  return answer
}

async function runForEach(
  { of, max }: NonNullable<Step['forEach']>,
  run: (known: Answers) => Promise<string>,
  answers: Answers,
  { spend }: StepTools,
): Promise<string> {
  const list = valueOf(of, answers, '$.for_each')
  if (!Array.isArray(list)) throw parseFailed(`expecting a list, but found ${describe(list)}`, '$.for_each')
  if (list.length > max) {
    throw unexpectedPayload(`the list has ${list.length} elements, and for_each runs for at most ${max}`, '$.for_each')
  }
  spend(list.length)
  const all: string[] = []
  for (const [i, element] of list.entries()) {
    try {
      all.push(await run(answers.with(EACH, element)))
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error
      throw error.with({ message: `element ${i} of for_each: ${error.message}` })
    }
  }
  return `[${all.join(',')}]`
}

function valueOf(reference: Reference, answers: Answers, path: string): Json {
  const answer = answers.get(reference.name)
  if (answer === undefined) throw parseFailed(`no earlier step has the name "${reference.name}"`, path)
  return follow(answer, reference, path)
}

/** The answers of steps. Those that no step refers to are not parsed. */
class Answers implements Steps {
  private readonly texts = new Map<string, string>()
  private readonly values = new Map<string, Json>()

  constructor(private readonly outer?: Steps) {}

  add(name: string, text: string): void {
    this.texts.set(name, text)
  }

  with(name: string, value: Json): Answers {
    const inner = new Answers(this)
    inner.values.set(name, value)
    return inner
  }

  get names(): readonly string[] {
    return [...(this.outer?.names ?? []), ...this.texts.keys(), ...this.values.keys()]
  }

  get(name: string): Json | undefined {
    const text = this.texts.get(name)
    if (text !== undefined && !this.values.has(name)) this.values.set(name, parseJson(text, OF_ANSWERS))
    return this.values.has(name) ? this.values.get(name) : this.outer?.get(name)
  }
}
