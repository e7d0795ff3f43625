import type { Ajv, ErrorObject } from 'ajv'
import { newAjv } from '../ajv.js'
import { at, isUnder, parseFailed, type ServiceError, unexpectedPayload } from '../errors.js'
import type { Json } from '../json/parse.js'
import { pointerKeys } from '../json-pointer.js'
import type { Schema } from '../schema.js'

let ajv: Ajv | undefined
let thorough: Ajv | undefined

/** Compiles the schema of an operation's `args` to a check that refuses with the path of what is wrong. */
export function checkArgs(schema: Schema): (args: Json) => void {
  ajv ??= newAjv({ strict: true, allowUnionTypes: true })
  const valid = ajv.compile(schema)
  return (args) => {
    if (!valid(args)) throw refusal(valid.errors?.[0] as ErrorObject)
  }
}

/**
 * The same check for the arguments of a template.
 * @param placeholders paths of what stands for a parameter: nothing is refused there
 */
export function checkTemplateArgs(schema: Schema, args: Json, placeholders: readonly string[]): void {
  thorough ??= newAjv({ strict: true, allowUnionTypes: true, allErrors: true })
  const valid = thorough.compile(schema)
  if (valid(args)) return
  const wrong = valid.errors?.find(({ instancePath, schemaPath }) => {
    const path = pathOf(instancePath)
    // An `anyOf` fails as a whole where a placeholder in it does not fit.
    const isOpen = (placeholder: string) =>
      isUnder(path, placeholder) || (schemaPath.includes('/anyOf') && isUnder(placeholder, path))
    return !placeholders.some(isOpen)
  })
  if (wrong) throw refusal(wrong)
}

function refusal(error: ErrorObject): ServiceError {
  const path = pathOf(error.instancePath)
  const params = error.params as Record<string, unknown>
  switch (error.keyword) {
    case 'required':
      return parseFailed(`the key '${String(params['missingProperty'])}' was not present`, path)
    case 'additionalProperties': {
      const key = String(params['additionalProperty'])
      return unexpectedPayload(`unexpected key "${key}"`, at(path, key))
    }
    case 'type':
      return parseFailed(`expecting ${String(params['type'])}`, path)
    case 'enum':
      return parseFailed(`expecting one of ${(params['allowedValues'] as unknown[]).join(', ')}`, path)
    default:
      return parseFailed(error.message ?? 'not valid', path)
  }
}

/** A JSON pointer as a path: `/objects/2/name` is `$.args.objects[2].name`. */
function pathOf(pointer: string): string {
  return pointerKeys(pointer).reduce((path, key) => at(path, /^\d+$/.test(key) ? Number(key) : key), '$.args')
}
