import { createHash } from 'node:crypto'
import { isAdmin, serviceError } from 'rowhouse'
import { isObject, type Json, type JsonObject } from 'rowhouse/plan'
import type { GraphqlConfig } from './config.js'

/**
 * Finds the document of a request: its own, or a configured or registered one that the request names.
 * @throws ServiceError 400 for an unknown document, and, with `onlyListed`, for one that is not configured
 */
export type FindDocument = (body: JsonObject, role: string) => string | undefined

export function persistedDocuments({ operations, onlyListed, maxPersisted }: GraphqlConfig): FindDocument {
  const listed = new Map<string, string>()
  for (const [name, text] of Object.entries(operations)) {
    listed.set(name, text)
    listed.set(hashOf(text), text)
  }
  /** Documents that clients registered, the least recently used first. */
  const registered = new Map<string, string>()

  function find(id: string): string | undefined {
    const known = listed.get(id) ?? listed.get(id.replace(/^sha256:/, ''))
    const text = known ?? registered.get(id)
    if (known === undefined && text !== undefined) register(id, text)
    return text
  }

  function register(hash: string, text: string): void {
    registered.delete(hash)
    registered.set(hash, text)
    if (registered.size > maxPersisted) registered.delete(registered.keys().next().value as string)
  }

  return (body, role) => {
    const { query } = body
    const hash = hashIn(body['extensions'])
    const id = typeof body['documentId'] === 'string' ? body['documentId'] : hash
    const given = typeof query === 'string' ? query : undefined
    const text = given ?? (id === undefined ? undefined : find(id))
    if (text === undefined && id !== undefined) {
      throw serviceError('PERSISTED_QUERY_NOT_FOUND', 'PersistedQueryNotFound', '$')
    }
    if (text === undefined) return undefined
    if (onlyListed && !isAdmin({ role }) && !listed.has(hashOf(text))) {
      throw serviceError('permission-denied', 'only listed documents may be run here', '$.query')
    }
    if (given !== undefined && hash !== undefined) {
      if (hashOf(given) !== hash) {
        throw serviceError('parse-failed', 'the hash does not match the document', '$.extensions')
      }
      if (maxPersisted > 0) register(hash, given)
    }
    return text
  }
}

const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex')

/** Returns the hash in `{"persistedQuery": {"version": 1, "sha256Hash": "..."}}`. */
function hashIn(extensions: Json | undefined): string | undefined {
  const persisted = isObject(extensions) ? extensions['persistedQuery'] : undefined
  const hash = isObject(persisted) ? persisted['sha256Hash'] : undefined
  return typeof hash === 'string' ? hash : undefined
}
