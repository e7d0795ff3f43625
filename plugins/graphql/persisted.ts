import { createHash } from 'node:crypto'
import { isAdmin, serviceError, type Session, SharedCache } from 'rowhouse'
import { isObject, type Json, type JsonObject } from 'rowhouse/plan'
import type { GraphqlConfig } from './config.js'
import { invalid } from './plan/input.js'

export interface FoundDocument {
  readonly text: string
  /** Hash under which the client wants it to be kept; absent: it is known, or has none. */
  readonly hash?: string
}

interface Documents {
  /**
   * Finds the document of a request: its own, or a configured or registered one that the request names.
   * @throws ServiceError 400 for one that is too long or unknown, and, with `onlyListed`, for one that is not configured
   */
  find(body: JsonObject, session: Session, maxBytes: number): FoundDocument | undefined
  /** Keeps a valid document under its hash. */
  register(found: FoundDocument, session: Session): void
}

/** Memory for documents that clients registered, in bytes. */
const MOST_BYTES = 16 * 2 ** 20

export function persistedDocuments({ operations, onlyListed, maxPersisted }: GraphqlConfig): Documents {
  const listed = new Map<string, string>()
  for (const [name, text] of Object.entries(operations)) {
    listed.set(name, text)
    listed.set(hashOf(text), text)
  }
  const registered = new SharedCache<string>(MOST_BYTES)
  const known = (id: string): string | undefined =>
    listed.get(id) ?? listed.get(id.replace(/^sha256:/, '')) ?? registered.get(id)

  return {
    find(body, session, maxBytes) {
      const { query } = body
      const given = typeof query === 'string' ? query : undefined
      if (given !== undefined) mustFit(given, maxBytes)
      const hash = hashIn(body['extensions'])
      const id = typeof body['documentId'] === 'string' ? body['documentId'] : hash
      const text = given ?? (id === undefined ? undefined : known(id))
      if (text === undefined && id !== undefined) {
        throw serviceError('PERSISTED_QUERY_NOT_FOUND', 'PersistedQueryNotFound', '$')
      }
      if (text === undefined) return undefined
      mustFit(text, maxBytes)
      if (onlyListed && !isAdmin(session) && !listed.has(hashOf(text))) {
        throw serviceError('permission-denied', 'only listed documents may be run here', '$.query')
      }
      if (given === undefined || hash === undefined) return { text }
      if (hashOf(given) !== hash) {
        throw serviceError('parse-failed', 'the hash does not match the document', '$.extensions')
      }
      return { text, hash }
    },
    register({ text, hash }, { caller }) {
      if (hash === undefined || maxPersisted === 0 || registered.get(hash) !== undefined) return
      registered.set(hash, text, Math.max(2 * text.length, MOST_BYTES / maxPersisted - ENTRY_BYTES), caller)
    },
  }
}

/** Memory of an entry besides its text, in bytes. */
const ENTRY_BYTES = 1024

function mustFit(text: string, maxBytes: number): void {
  if (text.length <= maxBytes && Buffer.byteLength(text) <= maxBytes) return
  throw invalid(`the document is longer than ${maxBytes} bytes (plugins.graphql.limits.maxBytes)`, '$.query')
}

const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex')

/** Returns the hash in `{"persistedQuery": {"version": 1, "sha256Hash": "..."}}`. */
function hashIn(extensions: Json | undefined): string | undefined {
  const persisted = isObject(extensions) ? extensions['persistedQuery'] : undefined
  const hash = isObject(persisted) ? persisted['sha256Hash'] : undefined
  return typeof hash === 'string' ? hash : undefined
}
