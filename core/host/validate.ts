import type { Ajv, ErrorObject } from 'ajv'
import { newAjv } from '../ajv.js'
import { fastValidator } from './fast-validate.js'
import { pointerKeys } from '../json-pointer.js'
import type { Issue, Schema } from '../schema.js'
import { didYouMean } from './did-you-mean.js'

/** Any schema, for a reader that does not care which form it has. */
export interface AnySchema {
  readonly type?: string
  readonly anyOf?: readonly Schema[]
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: boolean | Schema
}

export type Validated =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly issues: readonly Issue[] }

// Each schema is compiled for one value, so what Ajv does to make the code shorter costs more than it saves: a third of
// the compilation.
function createAjv(): Ajv {
  const made = newAjv({
    useDefaults: true,
    allErrors: true,
    strict: true,
    verbose: true,
    logger: false,
    code: { optimize: false },
  })
  return made.addKeyword({ keyword: 'secret', schemaType: 'boolean' })
}
let ajv: Ajv | undefined

/** Checks a value of the configuration and fills in defaults, in place. Objects take no unknown keys. */
export function validate(schema: Schema, value: unknown): Validated {
  // Inside an object, because ajv fills in the defaults of properties alone.
  const holder: { value?: unknown } = value === undefined ? {} : { value }
  const whole = { type: 'object', properties: { value: refuseUnknownKeys(schema) as Schema } } as const
  if (fastValidator(whole)?.(holder)) return { ok: true, value: holder.value }
  const compiled = compile(whole)
  if (typeof compiled === 'string') return { ok: false, issues: [{ keys: [], message: compiled }] }
  if (compiled(holder)) return { ok: true, value: holder.value }
  return { ok: false, issues: relevant(compiled.errors ?? []).map(explain) }
}

function compile(schema: object) {
  try {
    return (ajv ??= createAjv()).compile(schema)
  } catch (error) {
    return `its schema is not valid: ${error instanceof Error ? error.message : String(error)}`
  }
}

/** Objects with known properties take no others, unless their schema says otherwise. */
function refuseUnknownKeys(schema: AnySchema): AnySchema {
  const properties = Object.entries(schema.properties ?? {}).map(([key, item]) => [key, refuseUnknownKeys(item)])
  return {
    ...(schema.properties === undefined ? {} : { additionalProperties: false }),
    ...schema,
    ...(schema.properties === undefined ? {} : { properties: Object.fromEntries(properties) }),
    ...(schema.items === undefined ? {} : { items: refuseUnknownKeys(schema.items) }),
    ...(schema.anyOf === undefined ? {} : { anyOf: schema.anyOf.map(refuseUnknownKeys) }),
    ...(typeof schema.additionalProperties === 'object'
      ? { additionalProperties: refuseUnknownKeys(schema.additionalProperties) }
      : {}),
  } as AnySchema
}

/**
 * One error where ajv has several for one cause. Of an `anyOf`: those of the only branch that has the value's type,
 * else one that names the types.
 */
function relevant(errors: readonly ErrorObject[]): readonly ErrorObject[] {
  const listed = new Set(errors.filter(({ keyword }) => keyword === 'enum').map(({ instancePath }) => instancePath))
  const dropped = new Set(errors.filter(({ keyword, instancePath }) => keyword === 'type' && listed.has(instancePath)))
  for (const choice of errors.filter(({ keyword }) => keyword === 'anyOf')) {
    const prefix = `${choice.schemaPath}/`
    const branchOf = (error: ErrorObject) => error.schemaPath.slice(prefix.length).split('/')[0]
    const inside = errors.filter(
      (error) => error.schemaPath.startsWith(prefix) && error.instancePath.startsWith(choice.instancePath),
    )
    const ofOtherType = new Set(
      inside.filter((error) => error.keyword === 'type' && error.instancePath === choice.instancePath).map(branchOf),
    )
    const fitting = new Set(inside.map(branchOf).filter((branch) => !ofOtherType.has(branch)))
    if (fitting.size === 1) dropped.add(choice)
    for (const error of inside) if (fitting.size !== 1 || !fitting.has(branchOf(error))) dropped.add(error)
  }
  return errors.filter((error) => !dropped.has(error))
}

/** Messages name the rule, never the value, which may be a secret. */
function explain(error: ErrorObject): Issue {
  const [, ...inside] = pointerKeys(error.instancePath)
  const keys = inside.map((key) => (/^\d+$/.test(key) ? Number(key) : key))
  const params: Readonly<Record<string, unknown>> = error.params
  const parent = (error.parentSchema ?? {}) as AnySchema
  switch (error.keyword) {
    case 'additionalProperties': {
      const key = String(params['additionalProperty'])
      return { keys: [...keys, key], message: `unknown key${didYouMean(key, Object.keys(parent.properties ?? {}))}` }
    }
    case 'required':
      return { keys: [...keys, String(params['missingProperty'])], message: 'is required' }
    case 'enum':
      return { keys, message: `must be one of ${JSON.stringify(params['allowedValues']).slice(1, -1)}` }
    case 'anyOf': {
      const types = (parent.anyOf ?? []).map((branch: AnySchema) => branch.type ?? 'something else')
      return { keys, message: `must be ${[...new Set(types)].join(' or ')}` }
    }
    default:
      return { keys, message: error.message ?? 'is not valid' }
  }
}
