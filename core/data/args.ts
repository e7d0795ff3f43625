import type { Ajv, ErrorObject } from 'ajv'
import { newAjv } from '../ajv.js'
import { at, isUnder, parseFailed, type ServiceError, unexpectedPayload } from '../errors.js'
import type { Json } from '../json/parse.js'
import { pointerKeys } from '../json-pointer.js'
import type { Schema } from '../schema.js'

let ajv: Ajv | undefined
let thorough: Ajv | undefined

/** Compiles the schema of an operation's `args` into a check. The check throws with the path of the mistake. */
export function checkArgs(schema: Schema): (args: Json) => void {
  ajv ??= newAjv({ strict: true, allowUnionTypes: true })
  const valid = ajv.compile(schema)
  return (args) => {
    if (!valid(args)) throw refusal(valid.errors?.[0] as ErrorObject)
  }
}

/**
 * Checks the arguments of a template in the same way.
 * @param placeholders paths of parameter placeholders, which are not checked
 */
export function checkTemplateArgs(schema: Schema, args: Json, placeholders: readonly string[]): void {
  thorough ??= newAjv({ strict: true, allowUnionTypes: true, allErrors: true })
  const valid = thorough.compile(schema)
  if (valid(args)) return
  const wrong = valid.errors?.find(({ instancePath, schemaPath }) => {
    const path = pathOf(instancePath)
    // An `anyOf` fails as a whole when a placeholder in it does not match.
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

/** Converts a JSON pointer to a path: `/objects/2/name` becomes `$.args.objects[2].name`. */
function pathOf(pointer: string): string {
  return pointerKeys(pointer).reduce((path, key) => at(path, /^\d+$/.test(key) ? Number(key) : key), '$.args')
}
