import {
  answerSchema,
  didYouMean,
  fill,
  type FindTable,
  hasObjects,
  type JsonSchema,
  type Operation,
  type Operations,
  type Place,
  placeholder,
  type Request,
  type Templatable,
  textFor,
} from 'rowhouse'
import {
  at,
  describe,
  isObject,
  isUnder,
  type Json,
  type JsonObject,
  type Op,
  parseFailed,
  refuseOtherKeys,
  Rows,
  rowsOf,
  ServiceError,
  unexpectedPayload,
} from 'rowhouse/plan'
import { assertExpectable, type Expectation, readExpectation } from './expectation.js'
import { assertFit, elementOf } from './type-check.js'
import { isReference, parseReference, type Reference, schemaAt, STEP_NAME } from './reference.js'

/** A member of a bulk. */
export interface Step {
  /** The query, without the keys below. */
  readonly query: JsonObject
  /** Name of its answer in later steps. */
  readonly as?: string
  /** Runs once for each element of a list. */
  readonly forEach?: { readonly of: Reference; readonly max: number }
  readonly expect?: Expectation
}

/** Name of the element for which a step with `for_each` runs. */
export const EACH = 'each'
const STEP_KEYS = ['as', 'for_each', 'expect']
/** Most elements of a `for_each`, and its default. */
const MAX_EACH = 1000
const DEFAULT_EACH = 100

/** Returns whether members of a bulk have names, expectations or repetitions, at any depth. */
export function hasSteps(members: readonly Json[]): boolean {
  return members.some((member) => {
    if (!isObject(member)) return false
    const { args } = member
    return STEP_KEYS.some((key) => member[key] !== undefined) || (Array.isArray(args) && hasSteps(args))
  })
}

/** Returns whether a member of a bulk may use the answers of others. */
export const refers = (member: JsonObject): boolean => (member['for_each'] ?? null) !== null || mayRefer(member)

/** Returns whether a query may have references. */
function mayRefer(value: Json): boolean {
  if (value instanceof Rows) return hasObjects(value)
  if (Array.isArray(value)) return value.some(mayRefer)
  return isObject(value) && ('$ref' in value || Object.values(value).some(mayRefer))
}

/** @throws ServiceError 400 with a path in the member */
export function readStep(member: Json): Step {
  if (!isObject(member)) throw parseFailed('expecting an object with the keys type and args', '$')
  const { as, for_each: each, expect, ...query } = member
  if (as !== undefined && as !== null && !(typeof as === 'string' && STEP_NAME.test(as) && as !== EACH)) {
    throw parseFailed(`expecting a name of letters, digits and _, other than "${EACH}"`, '$.as')
  }
  return {
    query,
    ...(as ? { as } : {}),
    ...(each === undefined || each === null ? {} : { forEach: readEach(each) }),
    ...(expect === undefined || expect === null ? {} : { expect: readExpectation(expect, '$.expect') }),
  }
}

/** Reads a reference to a list, or `{"in": reference, "max": 100}`. */
function readEach(value: Json): NonNullable<Step['forEach']> {
  const path = '$.for_each'
  if (!isObject(value)) return { of: parseReference(value, path), max: DEFAULT_EACH }
  refuseOtherKeys(value, ['in', 'max'], path)
  const { in: list, max = DEFAULT_EACH } = value
  if (typeof max !== 'number' || !Number.isInteger(max) || max < 1 || max > MAX_EACH) {
    throw parseFailed(`expecting a whole number from 1 to ${MAX_EACH}`, `${path}.max`)
  }
  return { of: parseReference(list, `${path}.in`), max }
}

/**
 * Replaces the references in a query by their values. Leaves those in the members of a bulk alone.
 * @param values paths in the query of values that came from elsewhere, in which nothing is a reference
 */
export function fillReferences(
  query: JsonObject,
  operation: Operation | undefined,
  valueOf: (mark: JsonObject, place: Place) => Json,
  values: readonly string[] = [],
  isGiven: (object: JsonObject) => boolean = () => false,
): JsonObject {
  const parts = partsOf(operation)
  if (!operation || !parts || !isObject(query['args'])) return query
  return fill(query, parts, operation, {
    is: (object, path) => isGiven(object) || (isReference(object) && !values.some((each) => isUnder(path, each))),
    replace: valueOf,
  })
}

/** The path of a whole query: nothing in it is a reference. */
export const ALL: readonly string[] = ['$']

const partsOf = (operation: Operation | undefined): Templatable | undefined => {
  const parts = operation?.referable ?? operation?.templatable
  return parts === 'queries' ? undefined : parts
}

/** What checks of steps need to know. */
export interface StepPlanner {
  readonly operations: Operations
  readonly find: FindTable
  /** Plans a request with the names that the caller's role may use. */
  plan(request: Request): Op
  /** Paths in the query of values that are placeholders already, to which no schema applies. */
  readonly open?: readonly string[]
  /** Paths in the query of arguments of a template, in which nothing is a reference. */
  readonly values?: readonly string[]
  /** Arguments of a template that stand for values which are not known yet, with their schemas. */
  readonly given?: ReadonlyMap<Json, JsonSchema>
  /** The names of all steps of the bulk, also of later ones. */
  readonly names?: readonly string[]
}

/** The schemas of the answers of earlier steps, by name. */
export type AnswerSchemas = ReadonlyMap<string, JsonSchema>

/**
 * Checks a query with references before anything runs: that the answers of earlier steps have these values, and that the
 * values can have the types of their places.
 * @param isNeeded whether something depends on the answer. Otherwise a query without references is not planned
 * @returns the schema of its answer
 * @throws ServiceError 400 with a path in the query
 */
export function checkReferences(
  query: JsonObject,
  known: AnswerSchemas,
  planner: StepPlanner,
  isNeeded = true,
): JsonSchema {
  const { operations } = planner
  const operation = operations.get(query['type'] as string)
  if (operation?.templatable === 'queries') return checkMembers(query, known, planner, isNeeded)
  const placed = new Map<Json, Place & { readonly from: JsonSchema }>()
  const places: Place[] = []
  const valueOf = (mark: JsonObject, place: Place): Json => {
    places.push(place)
    const from =
      planner.given?.get(mark) ?? schemaOf(parseReference(mark['$ref'], place.path), known, place.path, planner)
    assertUse(from, place)
    if (place.use !== 'rows') return placeholder({ ...place, from }, placed)
    const { properties = {} } = (from['items'] ?? from) as { properties?: Readonly<Record<string, JsonSchema>> }
    const row = Object.entries(properties).map(([key, of]) => {
      const path = at(at(place.path, '*'), key)
      return [key, placeholder({ use: 'value', path, via: place.via, key, from: of }, placed)] as const
    })
    return rowsOf([Object.fromEntries(row)], place.path)
  }
  const isGiven = (object: JsonObject) => planner.given?.has(object) === true
  try {
    const filled = fillReferences(query, operation, valueOf, planner.values, isGiven)
    if (!isNeeded && places.length === 0) return {}
    const isText = operation?.answer !== undefined && [...placed.values()].every(({ use }) => use === 'text')
    const open = [...(planner.open ?? []), ...places.map(({ path }) => path)]
    const request = operation?.lift && !isText ? operations.lift(filled, open) : undefined
    const op = request && planner.plan(request)
    if (op && placed.size > 0) assertFit(op, request.values, placed)
    return operation?.answer ?? (op ? answerSchema(op, planner.find) : {})
  } catch (error) {
    throw asWritten(error, places)
  }
}

/** Returns the error about a filled query with its path in the query as written. */
export function asWritten(error: unknown, places: readonly Place[]): unknown {
  if (!(error instanceof ServiceError)) return error
  const place = places.find(({ path, implied }) => implied && isUnder(error.path, path))
  return place ? error.moved(place.path.slice(0, -'.$eq'.length) + error.path.slice(place.path.length)) : error
}

/** Checks the members of a bulk. @returns the schema of its answer */
function checkMembers({ args }: JsonObject, known: AnswerSchemas, planner: StepPlanner, isNeeded: boolean): JsonSchema {
  if (!Array.isArray(args)) return { type: 'array' }
  const inner = new Map(known)
  const steps = args.map((member, i) => underMember(i, () => readStep(member)))
  const all = { ...planner, names: [...(planner.names ?? []), ...namesOf(steps)] }
  const schemas = steps.map((step, i) =>
    underMember(i, () => checkStep(step, inner, plannerOf(all, at('$.args', i)), isNeeded)),
  )
  return { type: 'array', prefixItems: schemas }
}

/** Returns the names of the answers of steps. */
export const namesOf = (steps: readonly Step[]): readonly string[] => steps.flatMap(({ as }) => as ?? [])

/** Returns the planner of the query at a path. */
const plannerOf = (planner: StepPlanner, path: string): StepPlanner => ({
  ...planner,
  open: within(planner.open, path),
  values: within(planner.values, path),
})

/** Returns the paths under one of them, as paths in what is there. */
export const within = (paths: readonly string[] = [], path: string): readonly string[] =>
  paths.filter((each) => isUnder(each, path)).map((each) => `$${each.slice(path.length)}`)

/**
 * Checks the query of a template. Its steps see its own names only, and references in its arguments have been replaced.
 * @param values paths of the arguments in the query
 */
export function checkTemplate(
  query: JsonObject,
  values: readonly string[],
  planner: StepPlanner,
  isNeeded: boolean,
): JsonSchema {
  const own = { ...planner, values: hasReferences(query) ? values : ALL, names: [] }
  return checkReferences(query, new Map(), own, isNeeded)
}

/** Returns whether a query has references: a bulk with steps. */
export const hasReferences = ({ args }: JsonObject): boolean => Array.isArray(args) && hasSteps(args)

/** Checks a step, and adds the schema of its answer to those that later steps know. */
export function checkStep(
  step: Step,
  known: Map<string, JsonSchema>,
  planner: StepPlanner,
  isNeeded: boolean,
): JsonSchema {
  const names = knownTo(step, known, planner)
  return addAnswer(step, known, checkReferences(step.query, names, planner, isNeeded || needsAnswer(step)))
}

/** Returns whether later steps or an expectation may depend on the answer of a step. */
export const needsAnswer = ({ as, expect }: Step): boolean => as !== undefined || expect !== undefined

/** Returns what the references of a step may name. */
export function knownTo({ as, forEach }: Step, known: AnswerSchemas, planner: Named): AnswerSchemas {
  if (as !== undefined && known.has(as)) throw unexpectedPayload(`the name "${as}" is used twice`, '$.as')
  if (!forEach) return known
  const list = schemaOf(forEach.of, known, '$.for_each', planner)
  const type = list['type'] as string | undefined
  if (type !== undefined && type !== 'array') throw parseFailed(`expecting a list, but found ${type}`, '$.for_each')
  return new Map([...known, [EACH, elementOf(list)]])
}

/** Adds the schema of the answer of a step to those that later steps know. */
export function addAnswer(
  { as, forEach, expect }: Step,
  known: Map<string, JsonSchema>,
  answer: JsonSchema,
): JsonSchema {
  if (expect) assertExpectable(expect, answer, '$.expect')
  const all = forEach ? { type: 'array', items: answer } : answer
  if (as !== undefined) known.set(as, all)
  return all
}

type Named = Pick<StepPlanner, 'names'>

/** Returns the schema of what a reference names. @throws ServiceError 400 when no earlier answer has it */
export function schemaOf(reference: Reference, known: AnswerSchemas, path: string, { names }: Named): JsonSchema {
  const { name } = reference
  const schema = known.get(name)
  if (schema) return schemaAt(schema, reference, path)
  if (names?.includes(name)) {
    throw parseFailed(`the step "${name}" is a later one; references name answers of earlier steps`, path)
  }
  throw parseFailed(`no earlier step has the name "${name}"${didYouMean(name, [...known.keys()])}`, path)
}

/** Checks what a place takes, whatever its type is. */
function assertUse(from: JsonSchema, { use, path }: Place): void {
  const type = from['type'] as string | undefined
  if (type === undefined) return
  const refuse = (wanted: string) => {
    throw parseFailed(`expecting ${wanted}, but found ${type}`, path)
  }
  if (use === 'count' && type !== 'integer') refuse('a whole number')
  if (use === 'list' && type !== 'array') refuse('a list')
  if (use === 'rows' && type !== 'array' && type !== 'object') refuse('rows')
  if (use === 'text' && !TEXTS.includes(type)) refuse('a string')
}

const TEXTS = ['string', 'array', 'integer', 'number']

/** Returns the value for a place. @throws ServiceError 400 if the place does not take it */
export function valueForPlace(value: Json, { use, path, compared }: Place): Json {
  if (value === null && compared) {
    throw parseFailed('the value is null, but a condition needs a value', path)
  }
  if (value === null && use === 'count') throw parseFailed('the value is null; expecting a whole number', path)
  if (compared && use === 'list' && Array.isArray(value) && value.includes(null)) {
    throw parseFailed('the list contains null, but a condition needs values', path)
  }
  if (use !== 'rows') return use === 'text' ? textFor(value) : value
  const rows = Array.isArray(value) ? value : [value]
  const wrong = rows.find((row) => !isObject(row))
  if (wrong !== undefined) throw parseFailed(`expecting rows, but found ${describe(wrong)}`, path)
  return rowsOf(rows as JsonObject[], path)
}

/** Runs `fn`, and puts the paths of its errors under a member of a bulk. */
export function underMember<T>(i: number, fn: () => T): T {
  try {
    return fn()
  } catch (error) {
    throw memberError(i, error)
  }
}

export async function underMemberAsync<T>(i: number, fn: () => Promise<T>): Promise<T> {
  try {
    return await fn()
  } catch (error) {
    throw memberError(i, error)
  }
}

const memberError = (i: number, error: unknown): unknown =>
  error instanceof ServiceError ? error.under(at('$.args', i)) : error
