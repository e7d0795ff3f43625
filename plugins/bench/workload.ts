import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { didYouMean } from 'rowhouse'
import { isObject, type Json, NO_LIMITS, parseJson, stringifyJson } from 'rowhouse/plan'
import { problemOf, type Target, UsageError } from './target.js'

/** Requests that are sent in turn. */
export interface Workload {
  readonly name: string
  readonly method: 'GET' | 'POST'
  readonly requests: readonly { readonly path: string; readonly body?: string }[]
}
interface WorkloadOptions {
  readonly template: string | undefined
  /** `name=value` or `name=1..1000` */
  readonly args: readonly string[]
  /** Path of a file, like the next two. */
  readonly query: string | undefined
  readonly graphql: string | undefined
  readonly variables: string | undefined
  /** Whether requests may change data. */
  readonly writes: boolean
}

/** More requests would only take memory. */
const MAX_REQUESTS = 10_000

/**
 * Finds the workloads of the options; without any, the templates that only read and need no argument.
 * @param cwd folder that relative paths start from
 * @throws UsageError for options that exclude each other. The returned function throws Error for what is missing.
 */
export function workloadsOf(options: WorkloadOptions, cwd: string): (target: Target) => Promise<readonly Workload[]> {
  const { template, query, graphql, variables, args, writes } = options
  if ([template, query, graphql].filter((each) => each !== undefined).length > 1)
    throw new UsageError('use only one of --template, --query and --graphql')
  if (args.length > 0 && template === undefined) throw new UsageError('--arg needs --template')
  if (variables !== undefined && graphql === undefined) throw new UsageError('--variables needs --graphql')
  const values = argumentsOf(args)
  return async (target) => {
    if (query !== undefined) return [await queries(query, writes, cwd)]
    if (graphql !== undefined) return [await documents(graphql, variables, writes, cwd)]
    if (template !== undefined) return [await oneTemplate(template, values, writes, target)]
    return readTemplates(target)
  }
}

async function queries(file: string, writes: boolean, cwd: string): Promise<Workload> {
  const bodies = await readValues(file, cwd)
  const writing = bodies.find((body) => !reads(body))
  if (writing !== undefined && !writes) {
    const what = isObject(writing) ? stringifyJson(writing['type'] ?? null) : 'a value that is not an object'
    throw new Error(`${file}: ${what} may change data; use --writes to send it repeatedly`)
  }
  const requests = bodies.map((body) => ({ path: '/v1/query', body: stringifyJson(body) }))
  return { name: `query ${file}`, method: 'POST', requests }
}

function reads(body: Json): boolean {
  if (!isObject(body)) return false
  const { type, args } = body
  return type === 'bulk' ? Array.isArray(args) && args.every(reads) : type === 'select' || type === 'count'
}

async function documents(file: string, values: string | undefined, writes: boolean, cwd: string): Promise<Workload> {
  const query = await readText(file, cwd)
  if (!writes && /\bmutation\b/.test(topLevel(query)))
    throw new Error(`${file}: a mutation changes data; use --writes to send it repeatedly`)
  const all = values === undefined ? [{}] : await readValues(values, cwd)
  const requests = all.map((variables) => ({ path: '/v1/graphql', body: stringifyJson({ query, variables }) }))
  return { name: `GraphQL ${file}`, method: 'POST', requests }
}

/** Returns a GraphQL document without strings, comments, and everything in brackets. */
function topLevel(document: string): string {
  let text = document.replace(/"""[^]*?"""|"(?:\\.|[^"\\\n])*"|#.*/g, '')
  for (let before = ''; before !== text;) {
    before = text
    text = text.replace(/\{[^{}]*\}|\([^()]*\)/g, ' ')
  }
  return text
}

/** Reads one value, a list of values, or one value per line. */
async function readValues(file: string, cwd: string): Promise<readonly Json[]> {
  const text = await readText(file, cwd)
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
    values = lines.map((line, index) => attempt(line, `line ${index + 1} is not JSON: `))
  }
  if (values.length === 0) throw new Error(`${file}: an empty list`)
  return values.slice(0, MAX_REQUESTS)
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file',
  EISDIR: 'is a directory',
  EACCES: 'permission denied',
}

/** @throws Error if the file is empty or cannot be read */
export async function readText(file: string, cwd: string): Promise<string> {
  const text = await readFile(resolve(cwd, file), 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new Error(`${file}: ${REASONS[error.code ?? ''] ?? error.message}`, { cause: error })
  })
  if (text.trim() === '') throw new Error(`${file} is empty`)
  return text
}

/** A template in the OpenAPI document of the server. */
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
  if (!found.reads && !writes) throw new Error(`template "${name}" changes data; use --writes to run it repeatedly`)
  const unknown = [...values.keys()].find((key) => !found.parameters.includes(key))
  if (unknown !== undefined)
    throw new Error(`template "${name}" has no parameter "${unknown}"${didYouMean(unknown, found.parameters)}`)
  const missing = found.required.filter((key) => !values.has(key))
  if (missing.length > 0) throw new Error(`template "${name}" needs ${example(missing)}`)
  return workloadOf(found, values)
}

async function readTemplates(target: Target): Promise<readonly Workload[]> {
  const all = (await templates(target)).filter(({ reads }) => reads)
  const runnable = all.filter(({ required }) => required.length === 0)
  if (runnable.length > 0) return runnable.map((template) => workloadOf(template, new Map()))
  const examples = all.map(({ name, required }) => `\n  --template ${name} ${example(required)}`).join('')
  const why =
    all.length === 0
      ? `there is no template that reads ${target.caller}`
      : `every template that reads ${target.caller} needs arguments:${examples}`
  throw new Error(`choose requests with --template, --query or --graphql: ${why}`)
}

const TEMPLATES = '/v1/template/'

/** The used part of an OpenAPI document. Only templates that only read have `get`. */
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
  const response = await target.ask('GET', '/v1/openapi.json')
  if (response.status === 404)
    throw new Error(`${target.url} has no templates; choose requests with --query or --graphql`)
  const problem = problemOf(response, target, `the templates of ${target.url}`)
  if (problem !== undefined) throw new Error(problem)
  const { paths } = JSON.parse(response.text) as { readonly paths: Readonly<Record<string, OpenApiPath>> }
  return Object.entries(paths).map(([path, { get, post }]) => {
    const { properties, required = [] } = post.requestBody.content['application/json'].schema
    const name = decodeURIComponent(path.slice(TEMPLATES.length))
    return { name, reads: get !== undefined, parameters: Object.keys(properties), required }
  })
}

/** Values by the name of the argument. */
type Arguments = ReadonlyMap<string, readonly string[]>

function argumentsOf(args: readonly string[]): Arguments {
  const values = new Map<string, readonly string[]>()
  for (const arg of args) {
    const [, name, text] = /^([^=]+)=([^]*)$/.exec(arg) ?? []
    if (name === undefined || text === undefined) throw new UsageError(`--arg must be name=value, not "${arg}"`)
    values.set(name, [...(values.get(name) ?? []), ...(rangeOf(text) ?? [text])])
  }
  return values
}

/** Returns the numbers of a range such as `1..1000`, or an even sample of a range that is too long. */
function rangeOf(text: string): readonly string[] | undefined {
  const [, first, last] = /^(-?\d+)\.\.(-?\d+)$/.exec(text) ?? []
  if (first === undefined) return undefined
  const count = Number(last) - Number(first) + 1
  if (!Number.isSafeInteger(count) || count < 1)
    throw new UsageError(`--arg: the range ${text} must go from a smaller to a larger number`)
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
