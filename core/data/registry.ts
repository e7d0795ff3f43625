import { didYouMean } from '../wording.js'
import type { Ajv, ErrorObject } from 'ajv'
import { newAjv } from '../json/ajv.js'
import { at, isUnder, parseFailed, serviceError, type ServiceError, unexpectedKey } from '../errors.js'
import { isObject, refuseOtherKeys } from '../json/value.js'
import { IF_MATCH } from '../request-headers.js'
import { pointerKeys, valueAtPointer } from '../json/json-pointer.js'
import type { Json, JsonObject } from '../json/parse.js'
import { type AnySchema, refuseUnknownKeys, type Schema } from '../json/schema.js'
import { assertAdmin, isAdmin } from '../session.js'
import type { Request } from './data.js'
import type { Answer, Call, Operation, Operations } from './operations.js'
import type { DataService } from './service.js'

/** Operations by `type`. More can be added while plugins are set up. */
export class Registry implements Operations {
  private readonly checks = new Map<Operation, (args: Json) => Json>()

  /** @param timeoutMs limit for operations that do not set their own */
  constructor(
    private readonly operations: ReadonlyMap<string, Operation>,
    private readonly timeoutMs: number,
    private readonly data: Pick<DataService, 'once' | 'isRead'>,
  ) {}

  get types(): readonly string[] {
    return [...this.operations.keys()]
  }

  run(query: Json, given: Call): Promise<Answer> {
    try {
      // An operation in JavaScript may return its answer itself.
      return Promise.resolve(this.start(query, given))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  private start(query: Json, given: Call): Promise<Answer> {
    const call = given.transaction ? given : withDryRun(query, given)
    const { type, args: unchecked, operation } = this.find(query, call)
    if (operation.admin && !(operation.explains && call.explains)) assertAdmin(call.session)
    if (call.format !== 'json' && !operation.formats) {
      throw serviceError('not-acceptable', `"${type}" answers with application/json only`, '$.type')
    }
    if (call.dryRun && !operation.undoable) {
      throw serviceError(
        'not-supported',
        `"${type}" cannot be a dry run, because a rollback would not undo it`,
        '$.type',
      )
    }
    if (!given.transaction && !operation.ifMatch && !operation.resolve && call.headers?.get('If-Match')) {
      throw serviceError('not-supported', `"${type}" does not support If-Match`, IF_MATCH)
    }
    const args = this.check(operation, unchecked)
    const timeoutMs = operation.timeoutMs ?? this.timeoutMs
    // Others may send more than one request.
    const run = (as: Call) =>
      runOperation(
        type,
        operation,
        args,
        operation.lift || operation.resolve ? as : { ...as, onSent: undefined },
        timeoutMs,
      )
    return !call.transaction && (call.keyed || call.dryRun) ? this.once(operation, args, call, run) : run(call)
  }

  /** Runs what writes once for its key, or as a dry run. */
  private async once(
    operation: Operation,
    args: Json,
    call: Call,
    run: (call: Call) => Promise<Answer>,
  ): Promise<Answer> {
    return (await this.writes(operation, args, call)) ? this.data.once(call, run) : run(call)
  }

  /** Returns whether an operation may have an effect, other than the query that it runs in its place. */
  private async writes(operation: Operation, args: Json, call: Call): Promise<boolean> {
    if (operation.resolve) return false
    try {
      const request = operation.lift?.(args)
      return !request?.onStandby || !(await this.data.isRead(request, call))
    } catch {
      // It fails in the same way when it runs.
      return true
    }
  }

  lift(query: Json, placeholders: readonly string[] = []): Request | undefined {
    const { args: given, operation } = this.find(query)
    const args = operation.args ? checkTemplateArgs(operation.args, given, placeholders) : given
    return operation.lift?.(args)
  }

  get(type: string): Operation | undefined {
    return this.operations.get(type)
  }

  /** @param call suggests the operations of its role for an unknown type, and may be a dry run */
  private find(query: Json, call?: Call): { type: string; args: Json; operation: Operation } {
    if (!isObject(query)) throw parseFailed('expecting an object with the keys type and args', '$')
    refuseOtherKeys(query, call && !call.transaction ? TOP_KEYS : KEYS, '$')
    const { type, version = 1, args } = query
    if (type === undefined) throw parseFailed("the key 'type' was not present", '$')
    if (args === undefined) throw parseFailed("the key 'args' was not present", '$')
    if (typeof type !== 'string') throw parseFailed('expecting a string', '$.type')
    const operation = this.operations.get(type)
    if (!operation) {
      const others = [...this.operations].filter(([, { admin }]) => !admin || !call || isAdmin(call.session))
      const near = didYouMean(type, others.map(([name]) => name)) // prettier-ignore
      throw parseFailed(`unknown type "${type}"${near}`, '$.type')
    }
    if (version === 1) return { type, args, operation }
    if (version === 2 && operation.version2) return { type, args, operation: operation.version2 }
    const known = operation.version2 ? 'versions 1 and 2' : 'version 1 only'
    throw parseFailed(`"${type}" has ${known}`, '$.version')
  }

  /** @returns the arguments with defaults */
  private check(operation: Operation, args: Json): Json {
    if (!operation.args) return args
    let check = this.checks.get(operation)
    if (!check) this.checks.set(operation, (check = checkArgs(operation.args)))
    return check(args)
  }
}

const KEYS = ['type', 'version', 'args']
const TOP_KEYS = [...KEYS, 'dry_run']

const runOperation: typeof runWithin = (type, operation, args, call, timeoutMs) =>
  timeoutMs === 0 ? operation.run(args, call) : runWithin(type, operation, args, call, timeoutMs)

/** @throws ServiceError 504 `timeout`; a surrounding transaction is then aborted */
async function runWithin(
  type: string,
  operation: Operation,
  args: Json,
  call: Call,
  timeoutMs: number,
): Promise<Answer> {
  const own = abortable(call)
  let timer: NodeJS.Timeout | undefined
  let hasEnded = false
  const late = new Promise<never>((_, reject) => {
    const onLate = () => {
      const message = `the operation "${type}" took longer than ${timeoutMs / 1000} s`
      const error = serviceError('timeout', message)
      reject(error)
      call.transaction?.abort(error)
      own.abort(error)
    }
    const startTimer = () => {
      if (!hasEnded) timer = setTimeout(onLate, timeoutMs)
    }
    // The time of earlier members of a bulk does not count.
    if (call.earlier) call.earlier.then(startTimer, startTimer)
    else startTimer()
  })
  try {
    return await Promise.race([operation.run(args, own.call), late])
  } finally {
    hasEnded = true
    clearTimeout(timer)
  }
}

/** Returns a call that can be aborted alone. Most operations do not read its signal, so it is made when they do. */
function abortable(call: Call): { readonly call: Call; abort(reason: Error): void } {
  const own = new AbortController()
  let signal: AbortSignal | undefined
  return {
    call: {
      ...call,
      get signal() {
        return (signal ??= AbortSignal.any([call.signal, own.signal]))
      },
    },
    abort: (reason) => own.abort(reason),
  }
}

/** Ajv rejects an invalid schema as it compiles it. To compile its schema of schemas first would take longer than all else. */
const ARGUMENTS = { strict: true, allowUnionTypes: true, meta: false, validateSchema: false } as const
let ajv: Ajv | undefined
/** Reports all errors, of which some do not count. */
let thorough: Ajv | undefined

/**
 * Compiles the schema of an operation's `args` into a check. The check returns the arguments with defaults, or throws
 * with the path of the mistake.
 */
function checkArgs(schema: Schema): (args: Json) => Json {
  ajv ??= newAjv(ARGUMENTS)
  const closed = closedOf(schema)
  const valid = ajv.compile(closed)
  const fill = defaultsOf(schema)
  return (given) => {
    const args = fill(given)
    if (!valid(args)) throw refusal(valid.errors?.[0] as ErrorObject, closed)
    return args
  }
}

/** Schemas that refuse unknown keys. Ajv compiles each of them once. */
const closedSchemas = new WeakMap<Schema, Schema>()

function closedOf(schema: Schema): Schema {
  const known = closedSchemas.get(schema) ?? (refuseUnknownKeys(schema) as Schema)
  closedSchemas.set(schema, known)
  return known
}

/** Returns the function that fills in the defaults of a schema. It does nothing if there are none. */
const defaultsOf = (schema: Schema): ((args: Json) => Json) =>
  JSON.stringify(schema).includes('"default":') ? (args) => withDefaults(schema, args) : (args) => args

/** Copies arguments, with the defaults of their schema. */
function withDefaults({ properties = {}, items, additionalProperties }: AnySchema, value: Json): Json {
  if (Array.isArray(value)) return items ? value.map((item) => withDefaults(items, item)) : value
  if (!isObject(value)) return value
  const filled = Object.assign(Object.create(null) as JsonObject, value)
  const rest = typeof additionalProperties === 'object' ? additionalProperties : {}
  for (const key of new Set([...Object.keys(value), ...Object.keys(properties)])) {
    const schema = (Object.hasOwn(properties, key) ? properties[key] : rest) as AnySchema & { readonly default?: Json }
    const given = filled[key] === undefined ? structuredClone(schema.default) : filled[key]
    if (given !== undefined) filled[key] = withDefaults(schema, given)
  }
  return filled
}

/**
 * Checks the arguments of a template in the same way.
 * @param placeholders paths of parameter placeholders, which are not checked
 * @returns the arguments with defaults
 */
function checkTemplateArgs(schema: Schema, given: Json, placeholders: readonly string[]): Json {
  thorough ??= newAjv({ ...ARGUMENTS, allErrors: true })
  const closed = closedOf(schema)
  const valid = thorough.compile(closed)
  const args = defaultsOf(schema)(given)
  if (valid(args)) return args
  const wrong = valid.errors?.find(({ instancePath, schemaPath }) => {
    const path = pathOf(instancePath)
    // An `anyOf` fails as a whole when a placeholder in it does not match.
    const isOpen = (placeholder: string) =>
      isUnder(path, placeholder) || (schemaPath.includes('/anyOf') && isUnder(placeholder, path))
    return !placeholders.some(isOpen)
  })
  if (wrong) throw refusal(wrong, closed)
  return args
}

function refusal(error: ErrorObject, schema: Schema): ServiceError {
  const path = pathOf(error.instancePath)
  const params = error.params as Record<string, unknown>
  switch (error.keyword) {
    case 'required':
      return parseFailed(`the key '${String(params['missingProperty'])}' was not present`, path)
    case 'additionalProperties':
      return unexpectedKey(String(params['additionalProperty']), keysAt(schema, error.schemaPath), path)
    case 'type':
      return parseFailed(`expecting ${String(params['type'])}`, path)
    case 'enum':
      return parseFailed(`expecting one of ${(params['allowedValues'] as unknown[]).join(', ')}`, path)
    default:
      return parseFailed(error.message ?? 'not valid', path)
  }
}

/** Returns the keys of the object schema that a keyword is part of. @param schemaPath e.g. `#/items/additionalProperties` */
function keysAt(schema: Schema, schemaPath: string): readonly string[] {
  const around = valueAtPointer(schema, schemaPath.slice(1, schemaPath.lastIndexOf('/')))
  return Object.keys((around as { readonly properties?: object } | undefined)?.properties ?? {})
}

/** Converts a JSON pointer to a path: `/objects/2/name` becomes `$.args.objects[2].name`. */
function pathOf(pointer: string): string {
  return pointerKeys(pointer).reduce((path, key) => at(path, /^\d+$/.test(key) ? Number(key) : key), '$.args')
}

/** Returns the context of a request with the `dry_run` of its body. @throws ServiceError 400 parse-failed */
export function withDryRun(body: Json, call: Call): Call {
  const dryRun = isObject(body) ? body['dry_run'] : undefined
  if (dryRun === undefined || dryRun === false) return call
  if (dryRun !== true) throw parseFailed('expecting a boolean', '$.dry_run')
  call.headers?.set('Preference-Applied', 'tx=rollback')
  return { ...call, dryRun }
}
