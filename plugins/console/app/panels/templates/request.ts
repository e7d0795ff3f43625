import { type Json, textOf } from '../../json.js'
import type { Request } from '../../program.js'
import { typesOf } from './fields.js'
import { addressOf, type Parameter, type Template } from './templates.js'

type Values = Readonly<Record<string, Json>>

/** Returns why a URL cannot have the arguments; empty if it can. */
export function notInUrl({ runnable }: Template, values: Values): string {
  if (!runnable?.reads) return 'This template writes.'
  if (Object.values(values).includes(null)) return 'A URL cannot contain null.'
  return queryOf(runnable.parameters, values).length > MOST_URL ? 'The arguments are too long for a URL.' : ''
}
const MOST_URL = 8000

export function requestOf({ name, runnable }: Template, method: Request['method'], values: Values): Request {
  if (method === 'POST') return { method, path: addressOf(name), body: JSON.stringify(values) }
  const search = queryOf(runnable?.parameters ?? [], values)
  return { method, path: addressOf(name) + (search === '' ? '' : `?${search}`) }
}

/** Lists are JSON in a URL, and so are the values of parameters that take any JSON. */
function queryOf(parameters: readonly Parameter[], values: Values): string {
  const given = parameters.filter(({ name }) => name in values)
  const pairs = given.map(({ name, schema }) => {
    const value = values[name]
    const isText = !Array.isArray(value) && typesOf(schema).length > 0
    return [name, isText ? textOf(value) : JSON.stringify(value)]
  })
  return new URLSearchParams(pairs).toString()
}
