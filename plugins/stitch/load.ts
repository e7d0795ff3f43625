import {
  buildClientSchema,
  buildSchema,
  getIntrospectionQuery,
  type GraphQLSchema,
  type IntrospectionOptions,
  type IntrospectionQuery,
  parse,
  print,
  visit,
} from 'graphql'
import { isObject, type Json } from 'rowhouse/plan'
import type { SchemaConfig } from './config.js'
import { named, type Remote, RemoteError } from './remote.js'

/**
 * Loads the schema of a service: from its text, its schema endpoint, or by introspection.
 * @throws RemoteError when it cannot be fetched; Error when it is not a schema
 */
export async function loadSchema(remote: Remote, config: SchemaConfig, signal: AbortSignal): Promise<GraphQLSchema> {
  if (config.sdl !== undefined) return build(config.sdl)
  const headers = lowered({ ...config.headers, ...config.schemaHeaders })
  if (config.schemaUrl !== undefined) {
    const answer = await remote.ask({ method: 'GET', url: config.schemaUrl, headers, repeatable: true }, signal)
    if (answer.status !== 200) throw refused(remote, answer.status, answer.json)
    const { json } = answer
    const sdl = json !== undefined && isObject(json) ? json['schema'] : answer.text
    if (typeof sdl !== 'string') throw invalid(remote, 'its schema endpoint did not return a schema')
    return build(sdl)
  }
  for (const [i, query] of INTROSPECTION.entries()) {
    const request = {
      method: 'POST',
      url: config.url,
      headers,
      body: JSON.stringify({ query }),
      repeatable: true,
    } as const
    const { status, json } = await remote.ask(request, signal)
    const body = json !== undefined && isObject(json) ? json : {}
    const { data } = body
    if (data !== undefined && isObject(data)) return buildClientSchema(data as unknown as IntrospectionQuery)
    if (!Array.isArray(body['errors']) || i === INTROSPECTION.length - 1) throw refused(remote, status, json)
  }
  throw new Error('there is no introspection query')
}

/**
 * Queries for a schema, the most complete one first. An older service refuses a query for what it does not know: `@oneOf`
 * is of 2025, `specifiedByURL` of 2021. Without `inputValueDeprecation`, deprecated arguments and input fields are missing.
 */
const INTROSPECTION = [
  { inputValueDeprecation: true, specifiedByUrl: true, oneOf: true },
  { inputValueDeprecation: true, specifiedByUrl: true },
  { inputValueDeprecation: true },
  { specifiedByUrl: true },
  {},
].map(introspection)

/** Leaves out directives, because the merged schema has none of a service. */
function introspection(options: IntrospectionOptions): string {
  const query = parse(getIntrospectionQuery(options))
  return print(visit(query, { Field: ({ name }) => (name.value === 'directives' ? null : undefined) }))
}

const build = (sdl: string): GraphQLSchema => buildSchema(sdl, { assumeValidSDL: true })

export const lowered = (headers: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))

const invalid = (remote: Remote, why: string) => new RemoteError('remote-invalid', `${named(remote.name)}: ${why}`)

function refused(remote: Remote, status: number, json: Json | undefined): RemoteError {
  const text = json === undefined ? undefined : errorText(json)
  return invalid(remote, `the request for its schema returned ${status}${text === undefined ? '' : `: ${text}`}`)
}

/** Returns the message of an error, in `errors` or in an object of the service's own, up to 2,000 characters. */
export function errorText(json: Json): string | undefined {
  if (!isObject(json)) return undefined
  const { errors } = json
  const first = Array.isArray(errors) ? errors[0] : undefined
  const from = first !== undefined && isObject(first) ? first : json
  const text = from['message'] ?? from['error']
  return typeof text === 'string' ? text.slice(0, 2_000) : undefined
}
