import { isObject, type JsonObject } from 'rowhouse/plan'
import { listOf, type Metadata, objects, textOf } from './metadata.js'
import type { Report } from './report.js'
import { templateOf } from './template-of.js'

interface Stored {
  readonly collection: string
  readonly name: string
  readonly text: string
}

/**
 * Moves query collections, the allow list and REST endpoints: documents become `plugins.graphql.operations`, simple
 * REST endpoints query templates.
 */
export function mapRequests(given: JsonObject, metadata: Metadata, report: Report): void {
  const stored = objects(given['query_collections']).flatMap((collection) => {
    const { queries } = isObject(collection['definition']) ? collection['definition'] : {}
    return objects(queries).map(({ name, query }): Stored => ({
      collection: textOf(collection['name']),
      name: textOf(name),
      text: textOf(query),
    }))
  })
  const allowed = allowedCollections(given, report)
  const needed = new Set(stored.filter(({ collection }) => allowed?.has(collection) ?? true))
  for (const endpoint of objects(given['rest_endpoints'])) {
    const document = mapEndpoint(endpoint, stored, metadata, report)
    if (document) needed.add(document)
  }
  for (const { collection, name } of stored.filter((each) => !needed.has(each))) {
    report.leave('query', `${collection}.${name}`, 'its collection is not in the allow list')
  }
  if (needed.size === 0 && !allowed) return
  const operations: JsonObject = {}
  for (const { collection, name, text } of needed) {
    operations[Object.hasOwn(operations, name) ? `${collection}.${name}` : name] = text
  }
  Object.assign(report.graphql, { operations }, allowed && { onlyListed: true })
}

/** Returns the collections that all roles may run, or undefined if there is no allow list. */
function allowedCollections(given: JsonObject, report: Report): ReadonlySet<string> | undefined {
  const entries = objects(given['allowlist'])
  if (entries.length === 0) return undefined
  const isGlobal = ({ scope }: JsonObject) => !isObject(scope) || scope['global'] !== false
  for (const entry of entries.filter((each) => !isGlobal(each))) {
    const roles = isObject(entry['scope']) ? listOf(entry['scope']['roles']).map(textOf).join(', ') : ''
    report.leave('allow list', textOf(entry['collection']), `it is for the roles ${roles}; onlyListed is for all roles`)
  }
  report.note('allow list', 'onlyListed', 'leave it out if HASURA_GRAPHQL_ENABLE_ALLOWLIST is not true')
  report.note(
    'allow list',
    'onlyListed',
    'it limits GraphQL only: roles may send any query to /v1/query that they may run',
  )
  return new Set(entries.filter(isGlobal).map(({ collection }) => textOf(collection)))
}

/** @returns the document, if the endpoint is not a template and clients must send it instead */
function mapEndpoint(
  endpoint: JsonObject,
  stored: readonly Stored[],
  metadata: Metadata,
  report: Report,
): Stored | undefined {
  const name = textOf(endpoint['name'])
  const { query } = isObject(endpoint['definition']) ? endpoint['definition'] : {}
  const wanted = isObject(query) ? query : {}
  const document = stored.find(
    (each) => each.collection === wanted['collection_name'] && each.name === wanted['query_name'],
  )
  if (!document) {
    report.leave('REST endpoint', name, `the query ${textOf(wanted['query_name'])} does not exist`)
    return undefined
  }
  const found =
    report.graphql['namingConvention'] === undefined
      ? templateOf(document.text, metadata)
      : { reason: 'templates take the names of the database, and the document has those of graphql-default' }
  if ('reason' in found) {
    report.leave('REST endpoint', name, `${found.reason} (document "${document.name}")`)
    return document
  }
  const { comment } = endpoint
  metadata.query_templates.push({
    name,
    template: found.template,
    ...(typeof comment === 'string' && comment !== '' ? { comment } : {}),
  })
  const parameters = found.parameters.map((each) => `${each}=...`).join('&')
  const url = `/v1/template/${encodeURIComponent(name)}${parameters === '' ? '' : `?${parameters}`}`
  const change = `${textOf(endpoint['url'])} is now ${url}, and its answer is the array itself instead of {"${found.field}": ...}`
  report.note('REST endpoint', name, change)
  return undefined
}
