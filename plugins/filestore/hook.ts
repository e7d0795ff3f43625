import { addressProblem, createOutbound, OutboundError } from 'rowhouse'
import type { Caller } from './caller.js'
import type { FileOperation, FilestoreConfig } from './config.js'
import { accessDenied, internalError } from './errors.js'

/** Asks a service of the operator for permission. */
export interface Hook {
  /** @throws ServiceError 403 when it refuses; 500 for any other response except 200, or a timeout */
  check(caller: Caller, request: FileRequest, signal: AbortSignal): Promise<void>
  close(): void
}
export interface FileRequest {
  readonly operation: FileOperation
  readonly id: string
  /** Whether an existing file may be replaced. */
  readonly replaces?: boolean
}

/** Built-in rules by name. Only the admin may delete. */
const BUILT_IN: Readonly<Record<string, (operation: FileOperation, isUser: boolean) => boolean>> = {
  'user-read-write': (operation, isUser) => isUser && operation !== 'delete',
  'public-read-user-write': (operation, isUser) => operation === 'read' || (isUser && operation === 'create'),
  'public-read': (operation) => operation === 'read',
}
/** Maximum size of a response, of which only the status matters. */
const MAX_BYTES = 64 * 1024

/** @throws Error when the URL is not valid */
export function createHook({ url: text, timeoutMs }: NonNullable<FilestoreConfig['hook']>): Hook {
  const builtIn = Object.hasOwn(BUILT_IN, text) ? BUILT_IN[text] : undefined
  if (builtIn) {
    return {
      async check({ role }, { operation }) {
        if (!builtIn(operation, role !== 'anonymous')) throw accessDenied('access denied')
      },
      close() {},
    }
  }
  const problem = addressProblem(text)
  if (problem) {
    throw new Error(
      `plugins.filestore.hook.url ${problem}; it should be a URL or one of ${Object.keys(BUILT_IN).join(', ')}`,
    )
  }
  const outbound = createOutbound({ timeoutMs, maxBytes: MAX_BYTES, purpose: 'filestore hook' })
  return {
    async check(caller, request, signal) {
      const query = { method: 'GET', url: urlOf(text, request), headers: headersOf(caller) } as const
      const { status } = await outbound.ask(query, signal).catch((error: unknown) => {
        throw error instanceof OutboundError ? internalError(error) : error
      })
      if (status === 403) throw accessDenied('access denied')
      if (status !== 200) throw internalError(new Error(`the hook answered with status ${status}`))
    },
    close: () => outbound.close(),
  }
}

function urlOf(text: string, { operation, id, replaces }: FileRequest): URL {
  const url = new URL(text)
  url.searchParams.set('file_id', id)
  url.searchParams.set('file_op', operation)
  if (replaces) url.searchParams.set('file_method', 'put')
  return url
}

const headersOf = ({ role, userId }: Caller) => ({
  ...(userId === null ? {} : { 'x-service-user-id': headerText(userId) }),
  'x-service-user-role': role,
  'x-service-role': role,
  'x-service-allowed-roles': role,
})

/** Encodes what a header cannot hold, or a program on the way could change: `%`, blanks, and all but ASCII. */
const headerText = (userId: string): string => userId.replace(/[^!-$&-~]/gu, encodeURIComponent)
