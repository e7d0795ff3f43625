import { type JsonSchema, operandsIn, type Place, typeInRows } from 'rowhouse'
import { type Json, type Op, parseFailed, type ServiceError, type SqlType, type TypeKind } from 'rowhouse/plan'

/** @throws ServiceError 400 when a value cannot have the type of its place */
export function assertFit(op: Op, values: readonly Json[], placed: ReadonlyMap<Json, Placed>): void {
  const mustFit = ({ use, path, from }: Placed, type: SqlType | undefined) => {
    const wrong = type && misfit(use === 'list' ? elementOf(from) : from, type, path)
    if (wrong) throw wrong
  }
  for (const { value, type } of operandsIn(op, values)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      const place = placed.get(each)
      if (place) mustFit(place, Array.isArray(value) || place.use === 'list' ? (type.element ?? type) : type)
    }
  }
  if (op.kind !== 'insert') return
  for (const place of placed.values()) {
    const { key, via = [] } = place
    if (key !== undefined) mustFit(place, typeInRows(op, via, key))
  }
}

type Placed = Place & { readonly from: JsonSchema }

/** Returns the schema of the elements of a list. */
export const elementOf = (schema: JsonSchema): JsonSchema => (schema['items'] as JsonSchema | undefined) ?? {}

/**
 * Returns an error if no value of a schema can be a value of a PostgreSQL type. Texts may be values of any type that is
 * written as text, because only PostgreSQL can tell.
 */
function misfit(schema: JsonSchema, type: SqlType, path: string): ServiceError | undefined {
  const { type: json, format } = schema as { type?: string; format?: string }
  const kinds = ANY.has(type.kind) ? undefined : json && TAKEN_BY[json]
  if (!kinds) return undefined
  const isText = json === 'string'
  const fits = kinds.has(type.kind) && !(isText && format !== undefined && NUMBERS.has(type.kind))
  if (fits) return undefined
  return parseFailed(`expecting a value for type ${type.name}, but found ${format ?? json}`, path)
}

const ANY: ReadonlySet<TypeKind> = new Set(['json', 'jsonb', 'range', 'multirange'])
const NUMBERS: ReadonlySet<TypeKind> = new Set(['int2', 'int4', 'int8', 'float', 'numeric', 'bool'])
/** Kinds of types that accept a JSON value. @see encode */
const TAKEN_BY: Readonly<Record<string, ReadonlySet<TypeKind>>> = {
  integer: new Set(['int2', 'int4', 'int8', 'float', 'numeric', 'other']),
  number: new Set(['int2', 'int4', 'int8', 'float', 'numeric', 'other']),
  boolean: new Set(['bool']),
  array: new Set(['array']),
  object: new Set(['row', 'hstore', 'geometry', 'geography']),
  string: new Set([
    'int2',
    'int4',
    'int8',
    'float',
    'numeric',
    'bool',
    'text',
    'array',
    'row',
    'hstore',
    'geometry',
    'geography',
    'other',
  ]),
}
