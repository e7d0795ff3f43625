import { at, parseFailed, serviceError, unexpectedPayload } from '../errors.js'
import type { Json } from '../json/parse.js'
import { isObject } from '../plan/encode.js'
import { assertAdmin } from '../session.js'
import { checkArgs, checkTemplateArgs } from './args.js'
import type { Request } from './data.js'
import type { Answer, Call, Operation, Operations } from './operations.js'

/** Operations by `type`. More can be added while plugins are set up. */
export class Registry implements Operations {
  private readonly checks = new Map<string, (args: Json) => void>()

  /** @param timeoutMs limit for operations that do not set their own */
  constructor(
    private readonly operations: ReadonlyMap<string, Operation>,
    private readonly timeoutMs: number,
  ) {}

  get types(): readonly string[] {
    return [...this.operations.keys()]
  }

  async run(query: Json, call: Parameters<Operations['run']>[1]): ReturnType<Operations['run']> {
    const { type, args, operation } = this.find(query)
    if (operation.admin) assertAdmin(call.session)
    if (call.format !== 'json' && !operation.formats) {
      throw serviceError('not-acceptable', `"${type}" answers with application/json only`, '$.type')
    }
    this.check(type, operation, args)
    const timeoutMs = operation.timeoutMs ?? this.timeoutMs
    return timeoutMs === 0 ? operation.run(args, call) : runWithin(type, operation, args, call, timeoutMs)
  }

  lift(query: Json, placeholders: readonly string[] = []): Request | undefined {
    const { args, operation } = this.find(query)
    if (operation.args) checkTemplateArgs(operation.args, args, placeholders)
    return operation.lift?.(args)
  }

  get(type: string): Operation | undefined {
    return this.operations.get(type)
  }

  private find(query: Json): { type: string; args: Json; operation: Operation } {
    if (!isObject(query)) throw parseFailed('expecting an object with the keys type and args', '$')
    for (const key in query) {
      if (key !== 'type' && key !== 'args') throw unexpectedPayload(`unexpected key "${key}"`, at('$', key))
    }
    const { type, args } = query
    if (type === undefined) throw parseFailed("the key 'type' was not present", '$')
    if (args === undefined) throw parseFailed("the key 'args' was not present", '$')
    if (typeof type !== 'string') throw parseFailed('expecting a string', '$.type')
    const operation = this.operations.get(type)
    if (!operation) throw parseFailed(`unknown type : "${type}"`, '$.type')
    return { type, args, operation }
  }

  private check(type: string, { args: schema }: Operation, args: Json): void {
    if (!schema) return
    let check = this.checks.get(type)
    if (!check) this.checks.set(type, (check = checkArgs(schema)))
    check(args)
  }
}

/** @throws ServiceError 504 `timeout`; a surrounding transaction is then aborted */
async function runWithin(
  type: string,
  operation: Operation,
  args: Json,
  call: Call,
  timeoutMs: number,
): Promise<Answer> {
  const abort = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const message = `the operation "${type}" took longer than ${timeoutMs / 1000} s`
      const error = serviceError('timeout', message)
      reject(error)
      call.transaction?.abort(error)
      abort.abort(error)
    }, timeoutMs)
  })
  try {
    return await Promise.race([
      operation.run(args, { ...call, signal: AbortSignal.any([call.signal, abort.signal]) }),
      late,
    ])
  } finally {
    clearTimeout(timer)
  }
}
