import { nameOf } from '../compile/compile.js'
import { type Session, USER_ID, VARIABLE_NAME } from '../session.js'

/** A statement that tells the transaction who writes, and its values. */
export interface Writer {
  readonly statement: { readonly name: string; readonly text: string }
  readonly values: readonly string[]
}

/** Who asks for a write. */
interface Author {
  readonly session: Session
  readonly requestId?: string | undefined
}

/** Always set, so that nothing of an earlier transaction of the connection is left. Unknown: an empty text. */
const ALWAYS: Readonly<Record<string, (author: Author) => string | undefined>> = {
  role: ({ session }) => session.role,
  user_id: ({ session }) => session.variables.get(USER_ID),
  request_id: ({ requestId }) => requestId,
}

/**
 * Returns how the database learns who writes: settings of the transaction such as `service.role`, for triggers, defaults,
 * functions and policies. PostgreSQL forgets them at its end, behind a pooler in transaction mode too.
 * @param more other session variables to pass on: `x-service-org-id` as `service.org_id`
 */
export function writerOf(more: readonly string[]): (author: Author) => Writer {
  const others = more.map((name) => [settingOf(name), ({ session }: Author) => session.variables.get(name)] as const)
  const settings = [...new Map([...others, ...Object.entries(ALWAYS)])]
  const calls = settings.map(([key], i) => `pg_catalog.set_config('service.${key}', $${i + 1}, true)`)
  const text = `select ${calls.join()}`
  const statement = { name: nameOf(text), text }
  return (author) => ({ statement, values: settings.map(([, read]) => read(author) ?? '') })
}

/** The last part of the name of a setting, which is an identifier. */
const settingOf = (variable: string): string => variable.replace(PREFIX, '').replaceAll('-', '_')
const PREFIX = /^x-service-/
/** A session variable whose name without the prefix is an identifier. */
export const isWritable = (name: string): boolean => VARIABLE_NAME.test(name) && /^[a-z_]/.test(settingOf(name))
