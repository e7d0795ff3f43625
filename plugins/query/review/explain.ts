import {
  type Call,
  type Data,
  type Explained,
  isAdmin,
  type Json,
  type Operation,
  type Operations,
  type PermissionExplained,
  ServiceError,
  serviceError,
  type Session,
} from 'rowhouse'
import { at, isObject, parseFailed, stringifyJson, unexpectedPayload } from 'rowhouse/plan'
import { liftCall, liftCount, liftSelect } from '../rows/lift/reads.js'
import { liftDelete, liftInsert, liftUpdate } from '../rows/lift/writes.js'
import { type Lifted, PLANNER } from '../rows/lift/shape.js'
import { anything, args, tableOf, tableSchema, text } from '../metadata/operation.js'

const EXPLAINABLE = new Map<Json | undefined, (args: Json) => Lifted>([
  ['select', liftSelect],
  ['count', liftCount],
  ['call', liftCall],
  ['insert', liftInsert],
  ['update', liftUpdate],
  ['delete', liftDelete],
])

/**
 * Returns the SQL of a query or of the query of a template, PostgreSQL's plan for it, and the clauses by which the role's
 * permission refuses a write.
 */
export async function explain(data: Data, operations: Operations, body: Json, call: Call): Promise<string> {
  if (!isObject(body)) throw parseFailed('expecting an object', '$')
  const { query, role, analyze = false } = body
  if (typeof analyze !== 'boolean') throw parseFailed('expecting a boolean', '$.analyze')
  if (role !== undefined && typeof role !== 'string') throw parseFailed('expecting a role name', '$.role')
  const session = {
    ...call.session,
    role: role ?? call.session.role,
    variables: variablesOf(body['headers'], '$.headers'),
  }
  const run = async (query: Json): Promise<string> => {
    const { type, args = null } = isObject(query) ? query : {}
    const resolve = typeof type === 'string' ? operations.get(type)?.resolve : undefined
    if (resolve) {
      operations.lift(query)
      return resolve(args, call, run)
    }
    const lift = EXPLAINABLE.get(type)
    if (!lift) throw parseFailed(NOT_EXPLAINABLE, '$')
    const [explained] = await data.inspect.explain({ planner: PLANNER, ...lift(args) }, { ...call, session }, analyze)
    const { sql, plan, refused } = explained as Explained
    return stringifyJson({ sql, plans: plan, ...(refused && { refused }) } as unknown as Json)
  }
  try {
    return await run(query ?? null)
  } catch (error) {
    throw error instanceof ServiceError ? error.under('$.query') : error
  }
}

const NOT_EXPLAINABLE = 'expecting a select, count, call, insert, update or delete query, or a template of one'

function variablesOf(headers: Json | undefined, path: string): ReadonlyMap<string, string> {
  if (headers === undefined) return new Map()
  if (!isObject(headers)) throw parseFailed('expecting an object', path)
  return new Map(
    Object.entries(headers).map(([name, value]) => {
      if (typeof value !== 'string') throw parseFailed('expecting a string', at(path, name))
      return [name.toLowerCase(), value]
    }),
  )
}

const ACTIONS = ['select', 'insert', 'update', 'delete'] as const

interface Question {
  readonly role?: string
  readonly session?: Json
  readonly operation: (typeof ACTIONS)[number]
  readonly table: Json
  readonly key?: Json
  readonly object?: Json
  readonly permission?: Json
}

/**
 * The operation that explains why a role may or may not read or write a row. Where others than admins may run it, they
 * ask about themselves.
 */
export function explainPermissionOperation(data: Data): Operation {
  return {
    admin: true,
    explains: true,
    args: args(
      {
        role: text,
        session: anything,
        operation: { ...text, enum: ACTIONS },
        table: tableSchema,
        key: { type: 'object' },
        object: { type: 'object' },
        permission: anything,
      },
      ['role', 'session', 'key', 'object', 'permission'],
    ),
    async run(given, call) {
      const { role, session: headers, ...question } = given as unknown as Question
      const session = sessionOf(role, variablesOf(headers, '$.args.session'), call.session)
      const { operation, permission } = question
      if (permission !== undefined && !isAdmin(call.session)) {
        throw serviceError('access-denied', 'only admins may try a permission', '$.args.permission')
      }
      const explained = await asAsked(() =>
        data.inspect.explainPermission(
          { session, action: operation, table: tableOf(question.table), permission, ...requestsOf(question) },
          call,
        ),
      )
      return { kind: 'text', text: stringifyJson(explained as unknown as Json) }
    },
  }
}

/** Returns the session in question: for all callers but admins their own, which they need not name. */
function sessionOf(role: string | undefined, variables: ReadonlyMap<string, string>, own: Session): Session {
  if (isAdmin(own)) {
    if (role === undefined) throw parseFailed("the key 'role' was not present", '$.args')
    if (isAdmin({ role })) throw unexpectedPayload('the role admin may do everything', '$.args.role')
    for (const name of variables.keys()) {
      if (/^x-service-./.test(name)) continue
      throw unexpectedPayload('a session variable is called X-Service-...', at('$.args.session', name))
    }
    return { role, variables, via: 'internal' }
  }
  if (role !== undefined && role !== own.role) throw notOwn('role', '$.args.role')
  for (const [name, value] of variables) {
    if (own.variables.get(name) !== value) throw notOwn('session', at('$.args.session', name))
  }
  return own
}

const notOwn = (what: string, path: string) =>
  serviceError('access-denied', `only admins may name another ${what}`, path)

/** Returns the select that finds the row, and the write in question. */
function requestsOf({ operation, table, key, object }: Omit<Question, 'role' | 'session'>) {
  const request = ({ shape, values }: Lifted) => ({ planner: PLANNER, shape, values })
  const need = (value: Json | undefined, name: 'key' | 'object'): Json => {
    if (value !== undefined) return value
    throw parseFailed(`the key '${name}' was not present; ${operation} needs it`, '$.args')
  }
  const refuse = (value: Json | undefined, name: 'key' | 'object'): void => {
    if (value !== undefined) throw unexpectedPayload(`${operation} takes no ${name}`, at('$.args', name))
  }
  if (operation === 'insert') {
    refuse(key, 'key')
    return { write: request(liftInsert({ table, objects: [need(object, 'object')] })) }
  }
  const where = need(key, 'key')
  const row = request(liftSelect({ table, columns: [], where }))
  if (operation === 'update') return { row, write: request(liftUpdate({ table, where, $set: need(object, 'object') })) }
  refuse(object, 'object')
  return operation === 'select' ? { row } : { row, write: request(liftDelete({ table, where })) }
}

/** Runs `fn`, and names the parts of a question in errors, instead of those of the requests that it becomes. */
async function asAsked(run: () => Promise<PermissionExplained>): Promise<PermissionExplained> {
  try {
    const explained = await run()
    const { error } = explained
    return error ? { ...explained, error: { ...error, path: asked(error.path) } } : explained
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    throw error.moved(asked(error.path))
  }
}

const asked = (path: string): string =>
  path.replace(/^\$\.args\.where\b/, '$.args.key').replace(/^\$\.args\.(objects\[0\]|\$set)/, '$.args.object')
