import { readFile } from 'node:fs/promises'
import { didYouMean } from 'rowhouse'
import { isObject, type Json, NO_LIMITS, parseJson, stringifyJson } from 'rowhouse/plan'
import { problemOf, type Target, UsageError } from './target.js'

/** Requests that take turns. */
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

/** More would only take memory. */
const MAX_REQUESTS = 10_000

/**
 * Finds what the flags name; without any, the templates that only read and need no argument.
 * @throws UsageError when the flags do not fit together; what is returned throws an Error that says what is missing
 */
export function workloadsOf(wanted: Wanted): (target: Target) => Promise<readonly Workload[]> {
  const { template, query, graphql, variables, args, writes } = wanted
  if ([template, query, graphql].filter((each) => each !== undefined).length > 1)
    throw new UsageError('say one of --template, --query and --graphql')
  if (args.length > 0 && template === undefined) throw new UsageError('--arg is an argument of --template')
  if (variables !== undefined && graphql === undefined) throw new UsageError('--variables are those of --graphql')
  const values = argumentsOf(args)
  return async (target) => {
    if (query !== undefined) return [await queries(query, writes)]
    if (graphql !== undefined) return [await documents(graphql, variables, writes)]
    if (template !== undefined) return [await oneTemplate(template, values, writes, target)]
    return readTemplates(target)
  }
}

async function queries(file: string, writes: boolean): Promise<Workload> {
  const bodies = await readValues(file)
  const writing = bodies.find((body) => !reads(body))
  if (writing !== undefined && !writes) {
    const what = isObject(writing) ? stringifyJson(writing['type'] ?? null) : 'what is no object'
    throw new Error(`${file}: ${what} may change something: --writes sends it, again and again`)
  }
  const requests = bodies.map((body) => ({ path: '/v1/query', body: stringifyJson(body) }))
  return { name: `query ${file}`, method: 'POST', requests }
}

function reads(body: Json): boolean {
  if (!isObject(body)) return false
  const { type, args } = body
  return type === 'bulk' ? Array.isArray(args) && args.every(reads) : type === 'select' || type === 'count'
}

async function documents(file: string, variablesFile: string | undefined, writes: boolean): Promise<Workload> {
  const query = await readText(file)
  if (!writes && /\bmutation\b/.test(outermost(query)))
    throw new Error(`${file}: a mutation changes something: --writes sends it, again and again`)
  const all = variablesFile === undefined ? [{}] : await readValues(variablesFile)
  const requests = all.map((variables) => ({ path: '/v1/graphql', body: stringifyJson({ query, variables }) }))
  return { name: `GraphQL ${file}`, method: 'POST', requests }
}

/** A GraphQL document without strings, comments, and whatever is in brackets. */
function outermost(document: string): string {
  let text = document.replace(/"""[^]*?"""|"(?:\\.|[^"\\\n])*"|#.*/g, '')
  for (let before = ''; before !== text;) {
    before = text
    text = text.replace(/\{[^{}]*\}|\([^()]*\)/g, ' ')
  }
  return text
}

/** Reads one value, a list of them, or a value in each line. */
async function readValues(file: string): Promise<readonly Json[]> {
  const text = await readText(file)
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  const attempt = (part: string, where = ''): Json => {
    try {
      return parseJson(part, NO_LIMITS)
    } catch (error) {
      throw new Error(`${file}: ${where}${(error as Error).message}`, { cause: error })
    }
  }
  let values: readonly Json[]
  try {
    values = [attempt(text)].flat()
  } catch (error) {
    if (lines.length < 2) throw error
    values = lines.map((line, index) => attempt(line, `line ${index + 1} is no JSON: `))
  }
  if (values.length === 0) throw new Error(`${file}: an empty list`)
  return values.slice(0, MAX_REQUESTS)
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'this is a folder, not a file',
  EACCES: 'this file may not be read',
}

/** @throws Error that says what is wrong with the file; also when it is empty */
export async function readText(file: string): Promise<string> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new Error(`${file}: ${REASONS[error.code ?? ''] ?? error.message}`, { cause: error })
  })
  if (text.trim() === '') throw new Error(`${file} is empty`)
  return text
}

/** A template, as the OpenAPI document of the server describes it. */
interface Template {
  readonly name: string
  readonly reads: boolean
  readonly parameters: readonly string[]
  readonly required: readonly string[]
}

async function oneTemplate(name: string, values: Arguments, writes: boolean, target: Target): Promise<Workload> {
  const all = await templates(target)
  const found = all.find((template) => template.name === name)
  if (!found) {
    const near = didYouMean(name, all.map((template) => template.name)) // prettier-ignore
    throw new Error(`there is no template "${name}" ${target.caller}${near}`)
  }
  if (!found.reads && !writes)
    throw new Error(`template "${name}" changes something: --writes runs it, again and again`)
  const unknown = [...values.keys()].find((key) => !found.parameters.includes(key))
  if (unknown !== undefined)
    throw new Error(`template "${name}" has no parameter "${unknown}"${didYouMean(unknown, found.parameters)}`)
  const missing = found.required.filter((key) => !values.has(key))
  if (missing.length > 0) throw new Error(`template "${name}" needs ${example(missing)}`)
  return workloadOf(found, values)
}

async function readTemplates(target: Target): Promise<readonly Workload[]> {
  const all = (await templates(target)).filter(({ reads }) => reads)
  const able = all.filter(({ required }) => required.length === 0)
  if (able.length > 0) return able.map((template) => workloadOf(template, new Map()))
  const needy = all.map(({ name, required }) => `\n  --template ${name} ${example(required)}`).join('')
  const why =
    all.length === 0
      ? `there is no template that reads ${target.caller}`
      : `every template that reads ${target.caller} needs arguments:${needy}`
  throw new Error(`say what to ask with --template, --query or --graphql: ${why}`)
}

const TEMPLATES = '/v1/template/'

/** What is read of an OpenAPI document; `get` is there for templates that only read. */
interface OpenApiPath {
  readonly get?: object
  readonly post: {
    readonly requestBody: { readonly content: Readonly<Record<'application/json', { schema: Schema }>> }
  }
}
interface Schema {
  readonly properties: object
  readonly required?: readonly string[]
}

async function templates(target: Target): Promise<readonly Template[]> {
  const told = await target.ask('GET', '/v1/openapi.json')
  if (told.status === 404) throw new Error(`${target.url} has no templates: say what to ask with --query or --graphql`)
  const problem = problemOf(told, target, `the templates of ${target.url}`)
  if (problem !== undefined) throw new Error(problem)
  const { paths } = JSON.parse(told.text) as { readonly paths: Readonly<Record<string, OpenApiPath>> }
  return Object.entries(paths).map(([path, { get, post }]) => {
    const { properties, required = [] } = post.requestBody.content['application/json'].schema
    const name = decodeURIComponent(path.slice(TEMPLATES.length))
    return { name, reads: get !== undefined, parameters: Object.keys(properties), required }
  })
}

/** The values of each argument. */
type Arguments = ReadonlyMap<string, readonly string[]>

/** A name that is given more than once has several values. */
function argumentsOf(args: readonly string[]): Arguments {
  const values = new Map<string, readonly string[]>()
  for (const arg of args) {
    const [, name, text] = /^([^=]+)=([^]*)$/.exec(arg) ?? []
    if (name === undefined || text === undefined) throw new UsageError(`--arg should be name=value, not "${arg}"`)
    values.set(name, [...(values.get(name) ?? []), ...(rangeOf(text) ?? [text])])
  }
  return values
}

/** The numbers of `1..1000`; of a range that is longer than there are requests, some of them, evenly. */
function rangeOf(text: string): readonly string[] | undefined {
  const [, first, last] = /^(-?\d+)\.\.(-?\d+)$/.exec(text) ?? []
  if (first === undefined) return undefined
  const count = Number(last) - Number(first) + 1
  if (!Number.isSafeInteger(count) || count < 1)
    throw new UsageError(`--arg: ${text} is no range, which goes from less to more`)
  const length = Math.min(count, MAX_REQUESTS)
  return Array.from({ length }, (_, n) => String(Number(first) + Math.floor((n * count) / length)))
}

function workloadOf({ name, reads }: Template, values: Arguments): Workload {
  const length = Math.min(MAX_REQUESTS, Math.max(1, ...[...values.values()].map((each) => each.length)))
  const requests = Array.from({ length }, (_, n) => {
    const pairs = [...values].map(([key, each]): [string, string] => [key, each[n % each.length] ?? ''])
    const query = new URLSearchParams(pairs).toString()
    return { path: `${TEMPLATES}${encodeURIComponent(name)}${query === '' ? '' : `?${query}`}` }
  })
  return { name: `template ${name}`, method: reads ? 'GET' : 'POST', requests }
}

const example = (names: readonly string[]): string => names.map((name) => `--arg ${name}=...`).join(' ')
