import { type Json, type JsonObject, NO_LIMITS, parseJson, stringifyJson } from '../../json/parse.js'
import { didYouMean } from '../../host/did-you-mean.js'
import { isObject } from '../../plan/encode.js'
import { problemOf, RefusedError } from './first-answer.js'
import { readText } from './read-text.js'
import type { Target } from './target.js'
import { UsageError } from './usage.js'

/** What is asked, in turn. */
export interface Workload {
  readonly name: string
  readonly method: 'GET' | 'POST'
  readonly requests: readonly { readonly path: string; readonly body?: string }[]
}
export interface Wanted {
  readonly template: string | undefined
  /** `name=value` or `name=1..1000` */
  readonly args: readonly string[]
  /** Files. */
  readonly query: string | undefined
  readonly graphql: string | undefined
  readonly variables: string | undefined
  /** Whether it may change something. */
  readonly writes: boolean
}

/** So many different requests are enough, and more would take memory. */
const MAX_REQUESTS = 10_000

/** @throws UsageError when the flags do not fit together */
export function checkWanted({ template, query, graphql, variables, args }: Wanted): void {
  if ([template, query, graphql].filter((each) => each !== undefined).length > 1) {
    throw new UsageError('say one of --template, --query and --graphql')
  }
  if (args.length > 0 && template === undefined) throw new UsageError('--arg is an argument of --template')
  if (variables !== undefined && graphql === undefined) throw new UsageError('--variables are those of --graphql')
  argumentsOf(args)
}

/**
 * What the flags name; without any, the templates that only read and need no argument.
 * @throws Error that says what is missing
 */
export async function workloadsOf(wanted: Wanted, target: Target): Promise<readonly Workload[]> {
  const { template, query, graphql, variables, args, writes } = wanted
  if (query !== undefined) return [await queries(query, writes)]
  if (graphql !== undefined) return [await documents(graphql, variables, writes)]
  if (template !== undefined) return [await oneTemplate(template, args, writes, target)]
  return readTemplates(target)
}

async function queries(file: string, writes: boolean): Promise<Workload> {
  const bodies = await readValues(file)
  const writing = bodies.find((body) => !reads(body))
  if (writing !== undefined && !writes) {
    const what = isObject(writing) ? stringifyJson(writing['type'] ?? null) : 'what is no object'
    throw new Error(`${file}: ${what} may change something: --writes sends it, again and again`)
  }
  return {
    name: `query ${file}`,
    method: 'POST',
    requests: bodies.map((body) => ({ path: '/v1/query', body: stringifyJson(body) })),
  }
}

function reads(body: Json): boolean {
  if (!isObject(body)) return false
  const { type, args } = body
  if (type === 'bulk') return Array.isArray(args) && args.every(reads)
  return type === 'select' || type === 'count'
}

async function documents(file: string, variablesFile: string | undefined, writes: boolean): Promise<Workload> {
  const text = await readText(file)
  if (!writes && /\bmutation\b/.test(outermost(text))) {
    throw new Error(`${file}: a mutation changes something: --writes sends it, again and again`)
  }
  const all = variablesFile === undefined ? [{}] : await readValues(variablesFile)
  return {
    name: `GraphQL ${file}`,
    method: 'POST',
    requests: all.map((variables) => ({ path: '/v1/graphql', body: stringifyJson({ query: text, variables }) })),
  }
}

/** A GraphQL document without what stands in strings, comments and brackets. */
function outermost(document: string): string {
  let text = document.replace(/"""[^]*?"""|"(?:\\.|[^"\\\n])*"|#.*/g, '')
  for (let before = ''; before !== text;) {
    before = text
    text = text.replace(/\{[^{}]*\}|\([^()]*\)/g, ' ')
  }
  return text
}

/** A value, a list of them, or a value in each line. */
async function readValues(file: string): Promise<readonly Json[]> {
  const text = await readText(file)
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  const whole = attempt(text)
  const values = 'value' in whole ? [whole.value].flat() : lines.length < 2 ? [] : lines.map(valueOf)
  if (values.length === 0) throw new Error(`${file}: ${'error' in whole ? whole.error : 'an empty list'}`)
  return values.slice(0, MAX_REQUESTS) as readonly Json[]

  function valueOf(line: string, index: number): Json {
    const read = attempt(line)
    if ('value' in read) return read.value
    throw new Error(`${file}: line ${index + 1} is no JSON: ${read.error}`)
  }
}

function attempt(text: string): { readonly value: Json } | { readonly error: string } {
  try {
    return { value: parseJson(text, NO_LIMITS) }
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) }
  }
}

/** A template, as the OpenAPI document of the server tells of it. */
interface Template {
  readonly name: string
  readonly reads: boolean
  readonly parameters: readonly string[]
  readonly required: readonly string[]
}

async function oneTemplate(name: string, args: readonly string[], writes: boolean, target: Target): Promise<Workload> {
  const all = await templates(target)
  const names = all.map((template) => template.name)
  const found = all.find((template) => template.name === name)
  if (!found) throw new Error(`there is no template "${name}" ${target.caller}${didYouMean(name, names)}`)
  if (!found.reads && !writes)
    throw new Error(`template "${name}" changes something: --writes runs it, again and again`)
  const values = argumentsOf(args)
  for (const key of values.keys()) {
    if (found.parameters.includes(key)) continue
    throw new Error(`template "${name}" has no parameter "${key}"${didYouMean(key, found.parameters)}`)
  }
  const missing = found.required.filter((key) => !values.has(key))
  if (missing.length > 0) throw new Error(`template "${name}" needs ${example(missing)}`)
  return workloadOf(found, values)
}

async function readTemplates(target: Target): Promise<readonly Workload[]> {
  const all = await templates(target)
  const able = all.filter(({ reads, required }) => reads && required.length === 0)
  if (able.length > 0) return able.map((template) => workloadOf(template, new Map()))
  const needy = all.filter((template) => template.reads)
  const why =
    needy.length === 0
      ? `there is no template that reads ${target.caller}`
      : `every template that reads ${target.caller} needs arguments:${needy.map(({ name, required }) => `\n  --template ${name} ${example(required)}`).join('')}`
  throw new Error(`say what to ask with --template, --query or --graphql: ${why}`)
}

async function templates(target: Target): Promise<readonly Template[]> {
  const told = await target.ask('GET', '/v1/openapi.json')
  if (told.status === 404) {
    throw new Error(`${target.url} has no templates: say what to ask with --query or --graphql`)
  }
  const problem = problemOf(told, target, `the templates of ${target.url}`)
  if (problem !== undefined) throw new RefusedError(problem)
  const { paths } = JSON.parse(told.text) as { readonly paths: Readonly<Record<string, OpenApiPath>> }
  return Object.entries(paths).map(([path, { get, post }]) => {
    const { properties, required = [] } = post.requestBody.content['application/json'].schema
    const name = decodeURIComponent(path.slice(TEMPLATES.length))
    return { name, reads: get !== undefined, parameters: Object.keys(properties), required }
  })
}
const TEMPLATES = '/v1/template/'

/** What this reads of an OpenAPI document. */
interface OpenApiPath {
  /** There for those that only read. */
  readonly get?: object
  readonly post: {
    readonly requestBody: {
      readonly content: {
        readonly 'application/json': {
          readonly schema: { readonly properties: JsonObject; readonly required?: readonly string[] }
        }
      }
    }
  }
}

/** The values of one argument: as many as there are, each made when it is asked for. */
interface Values {
  readonly count: number
  at(n: number): string
}

/** A name that is given more than once has several values. */
function argumentsOf(args: readonly string[]): ReadonlyMap<string, Values> {
  const values = new Map<string, Values>()
  for (const arg of args) {
    const [, name, text] = /^([^=]+)=([^]*)$/.exec(arg) ?? []
    if (name === undefined || text === undefined) throw new UsageError(`--arg should be name=value, not "${arg}"`)
    const added = range(text) ?? { count: 1, at: () => text }
    const known = values.get(name)
    values.set(name, known ? joined(known, added) : added)
  }
  return values
}

function range(text: string): Values | undefined {
  const [, first, last] = /^(-?\d+)\.\.(-?\d+)$/.exec(text) ?? []
  if (first === undefined || last === undefined) return undefined
  const count = Number(last) - Number(first) + 1
  if (!Number.isSafeInteger(count) || count < 1)
    throw new UsageError(`--arg: ${text} is no range, which goes from less to more`)
  return { count, at: (n) => String(Number(first) + n) }
}

const joined = (one: Values, other: Values): Values => ({
  count: one.count + other.count,
  at: (n) => (n < one.count ? one.at(n) : other.at(n - one.count)),
})

/** Of more values than there are requests, some are taken, evenly. */
function workloadOf({ name, reads }: Template, values: ReadonlyMap<string, Values>): Workload {
  const count = Math.min(MAX_REQUESTS, Math.max(1, ...[...values.values()].map((each) => each.count)))
  const path = (n: number) => {
    const pairs = [...values].map(([key, each]): [string, string] => [
      key,
      each.at(each.count > count ? Math.floor((n * each.count) / count) : n % each.count),
    ])
    const query = new URLSearchParams(pairs).toString()
    return `${TEMPLATES}${encodeURIComponent(name)}${query === '' ? '' : `?${query}`}`
  }
  return {
    name: `template ${name}`,
    method: reads ? 'GET' : 'POST',
    requests: Array.from({ length: count }, (_, n) => ({ path: path(n) })),
  }
}

const example = (names: readonly string[]): string => names.map((name) => `--arg ${name}=...`).join(' ')
