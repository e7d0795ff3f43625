import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { type Call, type Data, ServiceError, serviceError, timed } from 'rowhouse'
import { at, type Json, type JsonObject, Rows, rowsOf, splitArray, splitObject, tableKey } from 'rowhouse/plan'
import type { Limits } from './plan/document.js'
import { bringsOthers, insertNested, type Step } from './nested.js'
import type { Dialect } from './plan/names.js'
import { type Input, type InputTypes, invalid, keysIn, liftVariables } from './plan/input.js'
import type { GraphqlShape } from './plan/index.js'
import type { Failure, MutationRoot, Prepared, PrepareShape, Template } from './plan/prepare.js'

const unzip = promisify(gunzip)

export const PLANNER = 'graphql'
/** Building the whole schema of a large database takes its time; a worker keeps the last one for some seconds. */
export const PATIENT = { patient: true }

export interface GraphqlRequest {
  readonly text: string
  readonly operationName?: string
  readonly variables: JsonObject
}
export interface ExecuteOptions {
  readonly dialect: Dialect
  readonly limits: Limits & { readonly maxCost: number }
  readonly introspection: boolean
  /** bigint and numeric are answered as text. */
  readonly digitsAsText: boolean
}

/** What is wrong with a document: more than one thing, perhaps. */
export class InvalidDocument extends ServiceError {
  readonly failures: readonly Failure[]

  constructor(failures: readonly Failure[]) {
    const [{ code, message, path }] = failures as [Failure]
    super(400, code, message, path)
    this.failures = failures
  }
}

/**
 * Runs a request. A query is one statement; a mutation one transaction, its fields in order.
 * @param readOnly refuses mutations: a GET must not change anything
 * @returns JSON text of `data`, in chunks when it is long
 * @throws ServiceError
 */
export async function executeGraphql(
  data: Data,
  request: GraphqlRequest,
  options: ExecuteOptions,
  call: Call,
  readOnly = false,
): Promise<string | AsyncIterable<Buffer>> {
  const prepared = await prepare(data, request, options, call)
  if (prepared.operation === 'mutation' && readOnly) {
    throw serviceError('method-not-allowed', 'a mutation must be sent with POST', '$.query')
  }
  if (options.dialect === 'alpha') refuseUndeclared(prepared.inputs, request.variables)
  const lifted = timed(call.timing, 'lift', () => liftVariables(prepared.inputs, request.variables))
  const shape: GraphqlShape = {
    dialect: options.dialect,
    text: request.text,
    operationName: request.operationName,
    variables: lifted.shape,
    maxCost: options.limits.maxCost,
    digitsAsText: options.digitsAsText || undefined,
  }
  if (prepared.operation === 'mutation') {
    const raw = given(prepared.inputs, request)
    return placed(mutate(data, shape, lifted.values, prepared.roots, raw, call), wholly)
  }
  const read = prepared.reads
    ? await placed(data.run({ planner: PLANNER, shape, values: lifted.values }, call), wholly)
    : '{}'
  if (!prepared.introspects) return read as string
  if (!options.introspection) throw invalid('introspection is switched off', '$.query')
  const pieces = await introspect(data, request, prepared.inputs, call)
  if (!prepared.reads && pieces.length > 1) return unzipped(pieces)
  return joined([read as string, await textOf(unzipped(pieces))])
}

async function prepare(
  data: Data,
  { text, operationName, variables }: GraphqlRequest,
  { dialect, limits }: ExecuteOptions,
  call: Call,
) {
  const { maxTokens, maxDepth, maxRootFields, maxAliases } = limits
  const shape: PrepareShape = {
    kind: 'document',
    dialect,
    text,
    operationName,
    keys: [...keysIn(variables)].sort(),
    limits: { maxTokens, maxDepth, maxRootFields, maxAliases },
  }
  const prepared = await data.prepare<Prepared>(PLANNER, shape, call)
  if ('failed' in prepared) throw new InvalidDocument(prepared.failed)
  return prepared
}

/** An error about what a statement does as a whole has the place of a JSON query, `$.args`: says where that is here. */
async function placed<T>(running: Promise<T>, place: (error: ServiceError) => ServiceError): Promise<T> {
  try {
    return await running
  } catch (error) {
    throw error instanceof ServiceError && /^\$\.args\b/.test(error.path) ? place(error) : error
  }
}
/** The statement is all of a query, or the end of a transaction. */
const wholly = (error: ServiceError): ServiceError =>
  new ServiceError(error.status, error.code, error.message, '$.selectionSet', {
    cause: error,
    internal: error.internal,
    retryAfter: error.retryAfter,
  })

/** A variable whose name is mistyped would be missing, and what it limits would be all. */
function refuseUndeclared({ variables }: InputTypes, given: JsonObject): void {
  const declared = new Set(variables.map(({ name }) => name))
  const others = Object.keys(given).filter((name) => !declared.has(name))
  if (others.length > 0) throw invalid(`unexpected variables in variableValues: ${others.join(', ')}`, '$.variables')
}

/** @returns JSON text in pieces, as `introspectionText` gives them */
async function introspect(
  data: Data,
  request: GraphqlRequest,
  inputs: InputTypes,
  call: Call,
): Promise<readonly string[]> {
  const used = inputs.variables.filter(({ structural }) => structural)
  const all = given(inputs, request)
  const shape: PrepareShape = {
    kind: 'introspection',
    text: request.text,
    operationName: request.operationName,
    variables: Object.fromEntries(used.flatMap(({ name }) => (name in all ? [[name, all[name] as Json]] : []))),
  }
  const { compressed } = await data.prepare<{ compressed: readonly string[] }>(PLANNER, shape, call, PATIENT)
  return compressed
}

/** Never holds a large text whole: the next one would come before V8 has given up the memory of this one. */
async function* unzipped(pieces: readonly string[]): AsyncGenerator<Buffer, void, undefined> {
  for (const piece of pieces) yield unzip(Buffer.from(piece, 'base64'))
}

/** Characters may not be split between chunks. */
export async function textOf(json: string | AsyncIterable<Buffer>): Promise<string> {
  if (typeof json === 'string') return json
  let text = ''
  for await (const chunk of json) text += chunk.toString()
  return text
}

/** The values of the variables: those of the request, else their defaults. */
function given({ variables }: InputTypes, request: GraphqlRequest): JsonObject {
  const all: JsonObject = Object.create(null)
  for (const { name, fallback } of variables) if (fallback) all[name] = jsonOf(fallback)
  return Object.assign(all, request.variables)
}

function jsonOf(input: Input): Json {
  switch (input.kind) {
    case 'null':
    case 'slot':
      return null
    case 'literal':
      return input.value
    case 'enum':
      return input.name
    case 'list':
      return input.of.map(jsonOf)
    case 'object':
      return Object.fromEntries(Object.entries(input.fields).map(([key, each]) => [key, jsonOf(each)]))
  }
}

/** The texts of objects as one object. */
function joined(objects: readonly string[]): string {
  return `{${objects
    .map((text) => text.slice(1, -1))
    .filter((inner) => inner !== '')
    .join(',')}}`
}

async function mutate(
  data: Data,
  shape: GraphqlShape,
  values: readonly Json[],
  all: readonly MutationRoot[],
  variables: JsonObject,
  call: Call,
): Promise<string> {
  const roots = all.filter(({ when }) =>
    when.some((conditions) => conditions.every(({ is, value }) => fillTemplate(value, variables) === is)),
  )
  const run = async (root: MutationRoot, inner: Call): Promise<string> => {
    const text = root.action
      ? await placed(runRoot(data, shape, values, root, variables, inner), (error) =>
          error.under(at('$.selectionSet', root.key)),
        )
      : '"mutation_root"'
    return `${JSON.stringify(root.key)}:${text}`
  }
  const [first] = roots
  const alone = roots.length === 1 && first?.action !== 'update_many' && !first?.calls
  if (first && alone) return `{${await run(first, call)}}`
  return data.transaction(call, async (inner) => {
    const texts: string[] = []
    for (const root of roots) texts.push(await run(root, inner))
    return `{${texts.join(',')}}`
  })
}

async function runRoot(
  data: Data,
  shape: GraphqlShape,
  values: readonly Json[],
  { key, action, objects, table, calls }: MutationRoot,
  variables: JsonObject,
  call: Call,
): Promise<string> {
  const path = `$.selectionSet.${key}.args`
  const run = (more: Partial<GraphqlShape>, all = values, inner = call) =>
    data.run({ planner: PLANNER, shape: { ...shape, ...more, root: key }, values: all }, inner)
  if (calls) return splitObject((await run({})) as string).get(key) as string
  if (action === 'update_many') {
    const entries = listOf(objects && fillTemplate(objects, variables))
    const texts: string[] = []
    for (const index of entries.keys()) texts.push((await run({ index })) as string)
    return `[${texts.join(',')}]`
  }
  if (action !== 'insert' && action !== 'insert_one') return (await run({})) as string

  const given = objects && fillTemplate(objects, variables)
  if (given === undefined || given === null) throw invalid('the rows to insert are missing', path)
  const list = listOf(given)
  const from = table && data.catalogFor(call).tables.get(tableKey(table))
  if (from && list.some((row) => bringsOthers(row, from))) {
    const step: Step = (nested, part, slots, inner) =>
      run(
        { nested, rows: { slot: values.length, columns: part instanceof Rows ? keysOf(part) : [] } },
        [...values, part, ...slots],
        inner,
      )
    return insertNested(data, from, list, values.length, step, `${path}.objects`, call)
  }
  const rows = rowsOf(list, `${path}.objects`)
  if (rows.count === 0) throw invalid('objects should not be empty', `${path}.objects`)
  const insert = (part: Rows, inner: Call) =>
    run({ rows: { slot: values.length, columns: keysOf(part) } }, [...values, part], inner)
  return insertRows(rows, insert, data, call)
}

export const keysOf = (rows: Rows) =>
  [...rows.columns].map(([name, { present }]) => [name, present === rows.count] as const)

/** One statement, or, where rows have different keys and that matters, one for each set of keys. */
async function insertRows(
  rows: Rows,
  run: (rows: Rows, call: Call) => Promise<string | undefined>,
  data: Data,
  call: Call,
): Promise<string> {
  const whole = await run(rows, call)
  if (whole !== undefined) return whole
  return data.transaction(call, async (inner) => {
    const answers: string[] = []
    for (const group of rows.groups()) answers.push((await run(group.rows, inner)) as string)
    return merged(answers)
  })
}

/** Counts add up, lists follow each other, and what is the same stays. Rows are not read. */
function merged(answers: readonly string[]): string {
  const all = answers.map((answer) => (answer.startsWith('{') ? splitObject(answer) : undefined))
  const [first] = all
  if (!first) return answers[0] as string
  const entries = [...first.keys()].map((key) => {
    const values = all.map((answer) => answer?.get(key) as string)
    const [value = 'null'] = values
    const whole = /^\d+$/.test(value)
      ? String(values.reduce((sum, each) => sum + Number(each), 0))
      : value.startsWith('[')
        ? `[${values.flatMap(splitArray).join(',')}]`
        : value
    return `${JSON.stringify(key)}:${whole}`
  })
  return `{${entries.join(',')}}`
}

const listOf = (value: Json | undefined): Json[] =>
  Array.isArray(value) ? (value as Json[]) : value === undefined || value === null ? [] : [value]

/** A value of the document as JSON; what stands for an absent variable is left out. */
function fillTemplate(template: Template, variables: JsonObject): Json | undefined {
  switch (template.kind) {
    case 'variable':
      return variables[template.name]
    case 'json':
      return template.value
    case 'list':
      return template.of.map((each) => fillTemplate(each, variables) ?? null)
    case 'object': {
      const object: JsonObject = Object.create(null)
      for (const [key, each] of Object.entries(template.fields)) {
        const value = fillTemplate(each, variables)
        if (value !== undefined) object[key] = value
      }
      return object
    }
  }
}
