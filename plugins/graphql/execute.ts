import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import {
  type Call,
  type Data,
  insertNested,
  relatedBy,
  type Request,
  type RowStream,
  type ServiceError,
  serviceError,
} from 'rowhouse'
import {
  at,
  isObject,
  type Json,
  type JsonObject,
  Rows,
  rowsOf,
  splitArray,
  splitObject,
  stringifyJson,
  type Table,
  tableKey,
} from 'rowhouse/plan'
import { type LiveRead, liveRead } from './live-read.js'
import { nestedRows } from './nested.js'
import type { GraphqlShape } from './plan/index.js'
import { type InputTypes, invalid, isGiven, isOption, jsonOf } from './plan/input.js'
import type { MutationRoot, PrepareShape, Template } from './plan/prepare.js'
import {
  atSelectionSet,
  type ExecuteOptions,
  type GraphqlRequest,
  type LiftedRequest,
  liftRequest,
  PLANNER,
  prepare,
  withPath,
} from './prepared.js'

const unzip = promisify(gunzip)

/** Building the whole schema of a large database can take seconds. */
export const PATIENT = { patient: true }

/** JSON text of `data`, in chunks if it is long. */
export type DataText = string | Pick<RowStream, 'chunks' | 'sent' | 'cutOff'>

/**
 * Runs a request. A query is one statement. A mutation is one transaction, which runs its fields in order.
 * @param readOnly refuses mutations, for GET
 * @returns the read of a subscription, which does not run here
 */
export async function executeGraphql(
  data: Data,
  request: GraphqlRequest,
  options: ExecuteOptions,
  call: Call,
  readOnly = false,
): Promise<DataText | LiveRead> {
  const prepared = await prepare(data, request, options, call)
  if (prepared.operation === 'mutation' && readOnly) {
    throw serviceError('method-not-allowed', 'a mutation must be sent with POST', '$.query')
  }
  call.name = request.operationName
  if (prepared.operation === 'subscription') return liveRead(data, request, options, call)
  const lifted = liftRequest(prepared, request, options, call)
  if (prepared.operation === 'mutation') {
    const mutation = { ...lifted, variables: variableValues(prepared.inputs, request) }
    return mutate(data, mutation, prepared.roots, call)
  }
  const query = { planner: PLANNER, ...lifted, onStandby: true as const }
  if (!prepared.introspects && options.streams) return withPath(read(data, query, call), atSelectionSet)
  const text = prepared.reads ? ((await withPath(data.run(query, call), atSelectionSet)) as string) : '{}'
  if (!prepared.introspects) return text
  if (!options.introspection) throw invalid('introspection is switched off', '$.query')
  const pieces = await introspect(data, request, prepared.inputs, options, call)
  if (!prepared.reads && pieces.length > 1) return { chunks: unzipped(pieces) }
  return mergeObjects([text, await textOf({ chunks: unzipped(pieces) })])
}

/**
 * Explains each root field of a request, without running it: those of a mutation as if each were the only one.
 * @returns JSON text
 */
export async function explainGraphql(
  data: Data,
  request: GraphqlRequest,
  options: ExecuteOptions,
  call: Call,
  analyze: boolean,
): Promise<string> {
  const prepared = await prepare(data, request, options, call)
  const lifted = liftRequest(prepared, request, options, call)
  const explained: JsonObject[] = []
  const explain = async (request: Request, key?: string): Promise<void> => {
    for (const { field = key, sql, plan, refused } of await data.inspect.explain(request, call, analyze)) {
      explained.push({ field, sql, plans: plan, ...(refused && { refused }) } as unknown as JsonObject)
    }
  }
  if (prepared.operation !== 'mutation') {
    if (prepared.reads) await withPath(explain({ planner: PLANNER, ...lifted }), atSelectionSet)
    return stringifyJson(explained)
  }
  const mutation = { ...lifted, variables: variableValues(prepared.inputs, request) }
  for (const root of includedRoots(prepared.roots, mutation)) {
    if (!root.action) continue
    await withPath(explainRoot(data, mutation, root, call, explain), (error) =>
      error.under(at('$.selectionSet', root.key)),
    )
  }
  return stringifyJson(explained)
}

async function explainRoot(
  data: Data,
  mutation: Mutation,
  root: MutationRoot,
  call: Call,
  explain: (request: Request, key: string) => Promise<void>,
): Promise<void> {
  const { key, action } = root
  if (action === 'update_many') {
    for (const index of (entriesOf(root, mutation) ?? []).keys())
      await explain(requestOf(mutation, key, { index }), key)
  } else if (isInsert(root)) {
    const list = newRows(root, mutation)
    const nested = nestedRows(() => Promise.reject(new Error('explain writes no related rows')), data.catalogFor(call))
    if (relatedRows(data, list, root, nested, call)) {
      throw invalid('explain takes no rows of relationships', pathOf(key))
    }
    await explain(insertOf(mutation, key, rowsOf(list, `${pathOf(key)}.objects`)), key)
  } else await explain(requestOf(mutation, key), key)
}

/** Waits for the first rows of a stream, so that an early error is an ordinary one. */
async function read(data: Data, query: Request, call: Call): Promise<DataText> {
  const answer = await data.read(query, call)
  if (answer.kind !== 'stream') return answer.kind === 'text' ? answer.text : answer.bytes.toString()
  const chunks = answer.chunks[Symbol.asyncIterator]()
  const first = await chunks.next()
  return { ...answer, chunks: afterFirst(first, chunks) }
}

function afterFirst(
  first: IteratorResult<Buffer, void>,
  rest: AsyncIterator<Buffer, void>,
): AsyncIterable<Buffer, void, undefined> {
  let pending: typeof first | undefined = first
  const next = async () => {
    const now = pending
    pending = undefined
    return now ?? rest.next()
  }
  // A client may leave before it takes the first chunk.
  const end = async () => (await rest.return?.()) ?? { done: true as const, value: undefined }
  return { [Symbol.asyncIterator]: () => ({ next, return: end }) }
}

/** @returns JSON text in compressed pieces, as `introspectionText` returns them */
async function introspect(
  data: Data,
  request: GraphqlRequest,
  inputs: InputTypes,
  { dialect, subscriptions }: ExecuteOptions,
  call: Call,
): Promise<readonly string[]> {
  const used = inputs.variables.filter(({ structural }) => structural)
  const all = variableValues(inputs, request)
  const shape: PrepareShape = {
    kind: 'introspection',
    dialect,
    text: request.text,
    operationName: request.operationName,
    variables: Object.fromEntries(used.flatMap(({ name }) => (name in all ? [[name, all[name] as Json]] : []))),
    subscriptions,
  }
  const { compressed } = await data.prepare<{ compressed: readonly string[] }>(PLANNER, shape, call, PATIENT)
  return compressed
}

/** Decompresses one piece at a time: several whole texts could fill the memory before V8 frees the first. */
async function* unzipped(pieces: readonly string[]): AsyncGenerator<Buffer, void, undefined> {
  for (const piece of pieces) yield unzip(Buffer.from(piece, 'base64'))
}

/** Joins chunks, which must not split characters. */
export async function textOf(json: DataText): Promise<string> {
  if (typeof json === 'string') return json
  let text = ''
  for await (const chunk of json.chunks) text += chunk.toString()
  return text
}

/** Returns the values of the variables: those of the request, and defaults for the others. */
function variableValues({ variables }: InputTypes, request: GraphqlRequest): JsonObject {
  const values: JsonObject = Object.create(null)
  for (const { name, fallback } of variables) if (fallback) values[name] = jsonOf(fallback, '$.variables')
  return Object.assign(values, request.variables)
}

/** Merges objects as JSON text. */
function mergeObjects(objects: readonly string[]): string {
  return `{${objects
    .map((text) => text.slice(1, -1))
    .filter((inner) => inner !== '')
    .join(',')}}`
}

interface Mutation extends LiftedRequest {
  /** Of the document, by name. */
  readonly variables: JsonObject
}

async function mutate(data: Data, mutation: Mutation, all: readonly MutationRoot[], call: Call): Promise<string> {
  const roots = includedRoots(all, mutation)
  const underRoot =
    ({ key }: MutationRoot) =>
    (error: ServiceError) =>
      error.under(at('$.selectionSet', key))
  const run = async (root: MutationRoot, inner: Call): Promise<string> => {
    const text = root.action ? await withPath(runRoot(data, mutation, root, inner), underRoot(root)) : '"mutation_root"'
    return `${JSON.stringify(root.key)}:${text}`
  }
  const [first] = roots
  const single = roots.length === 1 && first?.action !== 'update_many' && !first?.calls ? first : undefined
  const runAll = async (inner: Call): Promise<string> => {
    const texts: string[] = []
    for (const root of roots) texts.push(await run(root, inner))
    return `{${texts.join(',')}}`
  }
  const once = async (inner: Call) => {
    return { kind: 'text' as const, text: await (single ? runAll(inner) : data.transaction(inner, runAll)) }
  }
  // The commit of a dry run, or of a request with a key, can fail as well.
  return (await withPath(data.once(call, once), single ? underRoot(single) : atSelectionSet)).text
}

async function runRoot(data: Data, mutation: Mutation, root: MutationRoot, call: Call): Promise<string> {
  const { shape, values } = mutation
  const { key, action, calls } = root
  const path = pathOf(key)
  const run = async (more?: Partial<GraphqlShape>) => (await data.run(requestOf(mutation, key, more), call)) as string
  if (calls) return splitObject(await run()).get(key) as string
  if (action === 'update_many') {
    const texts: string[] = []
    for (const index of (entriesOf(root, mutation) ?? []).keys()) texts.push(await run({ index }))
    return `[${texts.join(',')}]`
  }
  if (!isInsert(root)) return run()

  const list = newRows(root, mutation)
  const nested = nestedRows(
    async (step, part, others, inner) => {
      const slot = values.length
      const more = others === undefined ? [] : [others]
      const shape = { ...step, others: others === undefined ? undefined : slot + 1 }
      const rows = { slot, columns: part instanceof Rows ? keysOf(part) : [] }
      return data.run(requestOf(mutation, key, { nested: shape, rows }, [...values, part, ...more]), inner)
    },
    data.catalogFor(call),
    root.conflicts,
  )
  const parent = relatedRows(data, list, root, nested, call)
  if (parent) return insertNested(data, parent, list, nested, `${path}.objects`, call)
  const rows = rowsOf(list, `${path}.objects`)
  if (rows.count === 0 && shape.dialect === 'alpha') throw invalid('objects should not be empty', `${path}.objects`)
  return insertRows(
    rows,
    (part, inner) => data.run(insertOf(mutation, key, part), inner),
    data,
    call,
    `${path}.objects`,
  )
}

const pathOf = (key: string): string => `$.selectionSet.${key}.args`

const requestOf = (
  { shape, values }: Mutation,
  root: string,
  more?: Partial<GraphqlShape>,
  all: readonly Json[] = values,
): Request => ({ planner: PLANNER, shape: { ...shape, ...more, root }, values: all })

function insertOf(mutation: Mutation, key: string, part: Rows): Request {
  const { values } = mutation
  const rows = { slot: values.length, columns: keysOf(part), empty: part.count === 0 || undefined }
  return requestOf(mutation, key, { rows }, [...values, part])
}

const isInsert = ({ action, calls }: MutationRoot): boolean =>
  !calls && (action === 'insert' || action === 'insert_one')

/** Returns the root fields that directives do not exclude. */
const includedRoots = (roots: readonly MutationRoot[], { variables }: Mutation): readonly MutationRoot[] =>
  roots.filter(({ when }) =>
    when.some((conditions) => conditions.every(({ is, value }) => fillTemplate(value, variables) === is)),
  )

/** Returns the rows of an insert, or the entries of `updates`; undefined if they are absent. */
function entriesOf({ objects }: MutationRoot, { variables }: Mutation): Json[] | undefined {
  const given = objects && fillTemplate(objects, variables)
  return Array.isArray(given) ? given : isGiven(given) ? [given as Json] : undefined
}

function newRows(root: MutationRoot, mutation: Mutation): Json[] {
  const rows = entriesOf(root, mutation)
  if (!rows) throw invalid('the rows to insert are missing', pathOf(root.key))
  return rows
}

/** Returns the table of the rows if some of them have rows of relationships. */
function relatedRows(
  data: Data,
  list: readonly Json[],
  { table }: MutationRoot,
  nested: ReturnType<typeof nestedRows>,
  call: Call,
): Table | undefined {
  const catalog = data.catalogFor(call)
  const parent = table && catalog.tables.get(tableKey(table))
  const has = (key: string) => list.some((row) => isObject(row) && Object.hasOwn(row, key))
  return parent && relatedBy(nested, has, parent, catalog, call).length > 0 ? parent : undefined
}

const keysOf = (rows: Rows) => [...rows.columns].map(([name, { present }]) => [name, present === rows.count] as const)

/** Inserts rows with one statement, or, if rows with different keys need different statements, with one for each set. */
async function insertRows(
  rows: Rows,
  run: (rows: Rows, call: Call) => Promise<string | undefined>,
  data: Data,
  call: Call,
  path: string,
): Promise<string> {
  const whole = await run(rows, call)
  if (whole !== undefined) return whole
  return data.transaction(call, async (inner) => {
    const answers: string[] = []
    for (const group of rows.groups(path)) answers.push((await run(group.rows, inner)) as string)
    return mergeResults(answers)
  })
}

/** Adds up counts and concatenates lists, without parsing rows. Other values are the same in all results. */
function mergeResults(answers: readonly string[]): string {
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

/** Returns a value of the document as JSON, without the fields whose variable is absent; in a condition they are null. */
function fillTemplate(template: Template, variables: JsonObject, inCondition = false): Json | undefined {
  switch (template.kind) {
    case 'variable':
      return variables[template.name]
    case 'list':
      return template.of.map((each) => fillTemplate(each, variables, inCondition) ?? null)
    case 'object': {
      const object: JsonObject = Object.create(null)
      const keys = Object.keys(template.fields)
      for (const [key, each] of Object.entries(template.fields)) {
        const isCondition = inCondition || (key === 'where' && keys.includes('constraint'))
        const value = fillTemplate(each, variables, isCondition)
        if (value !== undefined || (inCondition && !isOption(key, keys, true))) object[key] = value ?? null
      }
      return object
    }
    case 'null':
    case 'literal':
    case 'number':
    case 'enum':
      return jsonOf(template, '$.query')
  }
}
