import { createHash } from 'node:crypto'
import { isAdmin, serviceError } from 'rowhouse'
import { isObject, type Json, type JsonObject } from 'rowhouse/plan'

export interface PersistedConfig {
  /** Documents by the name that clients ask for them by. */
  readonly operations: Readonly<Record<string, string>>
  /** Others than admin may run listed documents only. */
  readonly onlyListed: boolean
  /** How many documents clients may leave with the server. */
  readonly maxPersisted: number
}

/** Documents that the server knows, so that a client need not send them. */
export interface Persisted {
  /**
   * The document of a request: its own, or a known one that it names.
   * @throws ServiceError 400: one that is not known, or, where only listed ones are run, not listed
   */
  text(body: JsonObject, role: string): string | undefined
}

export function persistedDocuments({ operations, onlyListed, maxPersisted }: PersistedConfig): Persisted {
  const listed = new Map<string, string>()
  for (const [name, text] of Object.entries(operations)) {
    listed.set(name, text)
    listed.set(hashOf(text), text)
  }
  /** Left by clients, the one asked for longest ago first. */
  const left = new Map<string, string>()

  function find(id: string): string | undefined {
    const known = listed.get(id) ?? listed.get(id.replace(/^sha256:/, ''))
    const text = known ?? left.get(id)
    if (known === undefined && text !== undefined) keep(id, text)
    return text
  }

  function keep(hash: string, text: string): void {
    left.delete(hash)
    left.set(hash, text)
    if (left.size > maxPersisted) left.delete(left.keys().next().value as string)
  }

  return {
    text(body, role) {
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
        if (hashOf(given) !== hash)
          throw serviceError('parse-failed', 'the hash is not that of the document', '$.extensions')
        if (maxPersisted > 0) keep(hash, given)
      }
      return text
    },
  }
}

const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex')

/** `{"persistedQuery": {"version": 1, "sha256Hash": "..."}}` */
function hashIn(extensions: Json | undefined): string | undefined {
  const persisted = isObject(extensions) ? extensions['persistedQuery'] : undefined
  const hash = isObject(persisted) ? persisted['sha256Hash'] : undefined
  return typeof hash === 'string' ? hash : undefined
}
