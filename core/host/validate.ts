import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { Ajv, ErrorObject } from 'ajv'
import { newAjv } from '../json/ajv.js'
import { pointerKeys } from '../json/json-pointer.js'
import { type AnySchema, type Issue, refuseUnknownKeys, type Schema } from '../json/schema.js'
import { didYouMean } from '../wording.js'

type Validated =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly issues: readonly Issue[] }

/** Module of the validators that the build makes of the schemas of Rowhouse: Ajv takes longer to load than a server to start. */
export const BUILT = fileURLToPath(new URL('validators.cjs', import.meta.url))
type Validators = Readonly<Record<string, (value: unknown) => boolean>>
let built: Validators | undefined

/** Returns the name of the validator of a schema. */
export const keyOf = (schema: Schema): string =>
  `v${createHash('sha256').update(JSON.stringify(schema)).digest('hex').slice(0, 16)}`

/** Wraps a value, because Ajv fills in the defaults of properties only. Objects accept no unknown keys. */
export const holderOf = (schema: Schema) =>
  ({ type: 'object', properties: { value: refuseUnknownKeys(schema) as Schema } }) as const satisfies Schema

// Compiles each schema for a single value, so Ajv's optimization of the code costs more than it saves: a third of the
// compilation.
function createAjv(): Ajv {
  return newAjv({
    useDefaults: true,
    allErrors: true,
    strict: true,
    verbose: true,
    logger: false,
    code: { optimize: false },
  })
}
let ajv: Ajv | undefined

/** Validates a value of the configuration and fills in defaults, in place. */
export function validate(schema: Schema, value: unknown): Validated {
  const holder: { value?: unknown } = value === undefined ? {} : { value }
  built ??= existsSync(BUILT) ? (createRequire(import.meta.url)(BUILT) as Validators) : {}
  // Only Ajv says what is wrong.
  if (built[keyOf(schema)]?.(holder)) return { ok: true, value: holder.value }
  const compiled = compile(holderOf(schema))
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

/**
 * Reduces Ajv's errors to one per cause. For an `anyOf`, returns those of the only branch with the value's type, or one
 * that lists the types.
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

/** Explains an error by its rule. Never quotes the value, which may be a secret. */
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
