import { addressProblem, createOutbound, OutboundError } from 'rowhouse'
import type { Caller } from './caller.js'
import type { FileOperation, FilestoreConfig } from './config.js'
import { accessDenied, broken } from './errors.js'

/** Asks whether a caller may do something with a file. */
export interface Hook {
  /** @throws ServiceError 403 when it says no, 500 when it says anything else but yes, or nothing in time */
  ask(caller: Caller, wanted: Wanted, signal: AbortSignal): Promise<void>
  close(): void
}
export interface Wanted {
  readonly operation: FileOperation
  readonly id: string
  /** It is stored in place of one that there may be. */
  readonly replaces?: boolean
}

/** Who may read and store files, by the name of a hook that needs no service. Nobody but the admin deletes. */
const BUILT_IN: Readonly<Record<string, (operation: FileOperation, known: boolean) => boolean>> = {
  'user-read-write': (operation, known) => known && operation !== 'delete',
  'public-read-user-write': (operation, known) => operation === 'read' || (known && operation === 'create'),
  'public-read': (operation) => operation === 'read',
}
/** Nothing of an answer is read but its status. */
const MAX_BYTES = 64 * 1024

/** @throws Error when the setting is no hook */
export function createHook({ url: text, timeoutMs }: NonNullable<FilestoreConfig['hook']>): Hook {
  const builtIn = Object.hasOwn(BUILT_IN, text) ? BUILT_IN[text] : undefined
  if (builtIn) {
    return {
      async ask({ role }, { operation }) {
        if (!builtIn(operation, role !== 'anonymous')) throw accessDenied('access denied')
      },
      close() {},
    }
  }
  const problem = addressProblem(text)
  if (problem) {
    throw new Error(
      `plugins.filestore.hook.url ${problem}; it is an address or one of ${Object.keys(BUILT_IN).join(', ')}`,
    )
  }
  const outbound = createOutbound({ timeoutMs, maxBytes: MAX_BYTES })
  return {
    async ask(caller, wanted, signal) {
      const request = { method: 'GET', url: question(text, wanted), headers: headersOf(caller) } as const
      const { status } = await outbound.ask(request, signal).catch((error: unknown) => {
        throw error instanceof OutboundError ? broken(error) : error
      })
      if (status === 403) throw accessDenied('access denied')
      if (status !== 200) throw broken(new Error(`the hook answered with status ${status}`))
    },
    close: () => outbound.close(),
  }
}

function question(text: string, { operation, id, replaces }: Wanted): URL {
  const url = new URL(text)
  url.searchParams.set('file_id', id)
  url.searchParams.set('file_op', operation)
  if (replaces) url.searchParams.set('file_method', 'put')
  return url
}

const headersOf = ({ role, userId }: Caller) => ({
  'x-service-user-id': userId,
  'x-service-user-role': role,
  'x-service-role': role,
  'x-service-allowed-roles': role,
})
