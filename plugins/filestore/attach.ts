import { assertAdmin, type Data, type Json, type Operation, ServiceError, serviceError, textFor } from 'rowhouse'
import { type Caller, countedAs } from './caller.js'
import type { Components } from './components.js'
import { checkFileId } from './file-id.js'

/**
 * `attach_file`: makes a pending upload of the caller a file, so that in a `bulk` or a template the file exists if and only if
 * everything else is committed. The hook was called when the upload began; role and rules are checked now.
 */
export function attachFile(data: Data, { access, rules, changes, pending }: Components): Operation<typeof ARGS> {
  return {
    args: ARGS,
    templatable: { file_id: 'text', uploader: { user_id: 'value', user_role: 'text' } },
    undoable: true,
    answer: RECORD,
    async run({ file_id, uploader }, call) {
      if (uploader) assertAdmin(call.session)
      const id = atFileId(() => checkFileId(file_id))
      // Rules that depend on whether the file exists are checked in the transaction.
      const { caller, ruled } = await access.recheck({ operation: 'create', id, replaces: true }, call)
      const owner = uploader ? uploaderOf(uploader) : caller
      const text = await data.transaction(call, async (inner) => {
        const counted = uploader ? undefined : countedAs(call.session, caller)
        const blob = await pending.take(id, owner, inner.transaction, counted)
        return changes.attach(blob, ruled ? { call: inner, rules } : undefined, inner).catch(throwAtFileId)
      })
      return { kind: 'text', text }
    },
  }
}

const ARGS = {
  type: 'object',
  properties: {
    file_id: { type: 'string', description: 'The id under which the file was uploaded.' },
    uploader: {
      type: 'object',
      description: 'Who uploaded it; for admins only. Default: the caller.',
      properties: {
        // Without a type, because integers may have more digits than a number of JavaScript.
        user_id: { description: 'An integer, a string or null.' },
        user_role: { type: 'string' },
      },
      required: ['user_id', 'user_role'],
    },
  },
  required: ['file_id'],
} as const

/** JSON Schema of the answer. */
const RECORD = {
  type: 'object',
  description: 'The record of the file.',
  properties: {
    file_id: { type: 'string' },
    content_type: { type: 'string' },
    file_status: { const: 'uploaded' },
    file_size: { type: 'integer' },
    user_id: { type: ['integer', 'string', 'null'] },
    user_role: { type: 'string' },
    created_at: { type: 'string', format: 'date-time' },
  },
} as const

interface Uploader {
  readonly user_id: unknown
  readonly user_role: string
}

/** @throws ServiceError 400 parse-failed */
function uploaderOf({ user_id: id, user_role: role }: Uploader): Caller {
  const userId = textFor(id as Json)
  if (userId !== null && !(typeof userId === 'string' && (typeof id === 'string' || /^-?\d+$/.test(userId)))) {
    throw serviceError('parse-failed', 'expecting an integer, a string or null', '$.args.uploader.user_id')
  }
  return { userId, role }
}

function atFileId<T>(fn: () => T): T {
  try {
    return fn()
  } catch (error) {
    return throwAtFileId(error)
  }
}

function throwAtFileId(error: unknown): never {
  throw error instanceof ServiceError ? error.moved('$.args.file_id') : error
}
