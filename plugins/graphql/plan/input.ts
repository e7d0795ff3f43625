import {
  at,
  type Composed,
  composedOf,
  isObject,
  type Json,
  type JsonObject,
  NumberText,
  serviceError,
  stringifyJson,
  wholeNumber,
} from 'rowhouse/plan'
import { readOpaque, type Said } from './opaque.js'

/**
 * A GraphQL input value. The value of a variable is the number of its slot, so that it does not change the SQL; a value
 * in the document itself is a constant of the plan. An absent value is undefined.
 */
export type Input =
  | { readonly kind: 'null'; readonly missing?: true }
  /** A scalar, or a whole list of scalars. `said`: what it says as a global id or cursor, with the slots of its values. */
  | { readonly kind: 'slot'; readonly slot: number; readonly said?: Said<number | null> }
  | { readonly kind: 'literal'; readonly value: Json }
  /** A number on its way between threads, with all digits that were written. Planning makes it a literal. */
  | { readonly kind: 'number'; readonly text: string }
  | { readonly kind: 'enum'; readonly name: string }
  | { readonly kind: 'list'; readonly of: readonly Input[] }
  | { readonly kind: 'object'; readonly fields: Readonly<Record<string, Input>> }

/** A value without variables and without parts. */
export type ScalarInput = Exclude<Input, { readonly kind: 'slot' | 'list' | 'object' }>

export const NULL: ScalarInput = { kind: 'null' }
/** Stands for a variable without a value in a condition. */
export const MISSING: ScalarInput = { kind: 'null', missing: true }

/** Returns a number as `parseJson` does: with its digits as text, where JavaScript would print others. */
export function numberOf(text: string): number | NumberText {
  const number = Number(text)
  return String(number) === text ? number : new NumberText(text)
}

const literal = (value: Json): Input =>
  value instanceof NumberText ? { kind: 'number', text: value.text } : { kind: 'literal', value }

/** Options of an aggregate in a condition. */
const AGGREGATE_OPTIONS = new Set(['distinct', 'arguments', 'filter'])
/** Options in the argument of an operator. */
const OPERATOR_OPTIONS = new Set(['language', 'use_spheroid', 'useSpheroid'])
/**
 * Returns whether a key of a condition is an option, which may be absent.
 * @param keys those beside it
 * @param isArgument whether it is in the argument of an operator
 */
export const isOption = (name: string, keys: readonly string[], isArgument: boolean): boolean =>
  (isArgument && OPERATOR_OPTIONS.has(name)) || (AGGREGATE_OPTIONS.has(name) && keys.includes('predicate'))

/** Makes numbers literals. */
export function withNumbers(input: Input): Input {
  if (input.kind === 'number') return { kind: 'literal', value: numberOf(input.text) }
  if (input.kind === 'list') return { kind: 'list', of: input.of.map(withNumbers) }
  if (input.kind !== 'object') return input
  const fields = Object.entries(input.fields).map(([key, each]) => [key, withNumbers(each)] as const)
  return { kind: 'object', fields: Object.fromEntries(fields) }
}

/** Arguments of a field, or fields of an input object. */
export type Args = Readonly<Record<string, Input>>

export const isAbsent = (input: Input | undefined): input is undefined | { readonly kind: 'null' } =>
  input === undefined || input.kind === 'null'
export const isTrue = (input: Input | undefined): boolean => input?.kind === 'literal' && input.value === true
/** Returns the fields of an object, or none for other values. */
export const fieldsOf = (input: Input | undefined): Args => (input?.kind === 'object' ? input.fields : {})

export const isGiven = (value: Json | undefined): value is Exclude<Json, null> => value !== undefined && value !== null

/** A type as in a document, e.g. `[author_order_by!]!`. */
export interface TypeRef {
  readonly nonNull: boolean
  /** The element type of a list. */
  readonly of?: TypeRef
  /** Absent for lists. */
  readonly name?: string
}
/** A named input type. */
export type InputType =
  | { readonly kind: 'scalar' }
  /** `data`: its values are values of columns, not names in the SQL. */
  | { readonly kind: 'enum'; readonly values: readonly string[]; readonly data?: true }
  | {
      readonly kind: 'object'
      readonly fields: Readonly<Record<string, { readonly type: TypeRef; readonly fallback?: Input }>>
    }
export interface Variable {
  readonly name: string
  readonly type: TypeRef
  readonly fallback?: Input
  /** Whether its value changes the SQL, as in a directive or in an alpha `order_by`. */
  readonly structural: boolean
  /** Whether it may be a global id or a cursor. */
  readonly opaque?: boolean
  /** Whether it holds rows to insert. Only their keys are part of the shape. */
  readonly rows?: boolean
}
export interface InputTypes {
  readonly variables: readonly Variable[]
  readonly types: Readonly<Record<string, InputType>>
}

/** The main thread adds each object and list to the key of the plan. */
const MAX_CONTAINERS = 20_000

interface LiftedVariables {
  readonly shape: Readonly<Record<string, Input>>
  readonly values: readonly Json[]
}

/**
 * Splits the variables of a request by their declared types.
 * @throws ServiceError 400 `validation-failed` with the path of the wrong value
 */
export function liftVariables(
  { variables, types }: InputTypes,
  given: Readonly<Record<string, Json>>,
): LiftedVariables {
  const values: Json[] = []
  let containers = 0
  const count = () => {
    if (++containers > MAX_CONTAINERS)
      throw invalid(`the variables hold more than ${MAX_CONTAINERS} objects, rows to insert not counted`, '$.variables')
  }
  const add = (value: Json) => ({ kind: 'slot' as const, slot: values.push(value) - 1 })
  const addOpaque = (value: string): Input => {
    const said = readOpaque(value)
    const slots = said && { ...said, values: said.values.map((each) => (each === null ? null : add(each).slot)) }
    return { ...add(value), said: slots }
  }

  const lift = (value: Json, type: TypeRef, path: string, keep: boolean, opaque = false): Input => {
    if (value === null) {
      if (type.nonNull) throw invalid(`expecting a value for non-null type: ${typeText(type)} in variableValues`, path)
      return { kind: 'null' }
    }
    if (type.of) {
      const { of } = type
      const list = Array.isArray(value) ? value : [value]
      if (!keep && isScalar(of)) {
        checkAll(list, of, path, types)
        return add([...list])
      }
      count()
      return { kind: 'list', of: list.map((element, i) => lift(element, of, at(path, i), keep)) }
    }
    const named = ownOf(types, type.name as string) ?? SCALAR
    switch (named.kind) {
      case 'enum':
        if (typeof value === 'string' && named.values.includes(value))
          return named.data ? add(value) : { kind: 'enum', name: value }
        throw invalid(`expecting a value of the enum ${typeText(type)}`, path)
      case 'object':
        return liftObject(value, named, type, path)
      case 'scalar':
        if (FULL_TEXT_QUERY.has(type.name as string) && isObject(value)) return searchOf(value)
        check(value, type, path, types)
        if (opaque && typeof value === 'string') return addOpaque(value)
        // A directive may use the same boolean, and there are two plans at most.
        return keep || typeof value === 'boolean' ? literal(value) : add(value)
    }
  }

  const liftObject = (
    value: Json,
    named: Extract<InputType, { kind: 'object' }>,
    type: TypeRef,
    path: string,
  ): Input => {
    if (!isObject(value)) throw invalid(`expecting an object of type ${typeText(type)}`, path)
    count()
    const fields: Record<string, Input> = Object.create(null)
    for (const key in value) {
      const field = ownOf(named.fields, key)
      if (!field) throw invalid(`field "${key}" not found in type: '${type.name as string}'`, at(path, key))
      fields[key] = lift(value[key] as Json, field.type, at(path, key), false)
    }
    for (const [key, field] of Object.entries(named.fields)) {
      if (key in fields) continue
      if (field.fallback) fields[key] = field.fallback
      else if (field.type.nonNull) throw invalid(`the field "${key}" of type ${typeText(field.type)} is missing`, path)
    }
    return { kind: 'object', fields }
  }

  const searchOf = (value: JsonObject): Input => {
    count()
    const fields = Object.entries(value).map(([key, each]) => [key, each === null ? NULL : add(each)] as const)
    return { kind: 'object', fields: Object.fromEntries(fields) }
  }

  const isScalar = (type: TypeRef): boolean => {
    if (type.of) return isScalar(type.of)
    const named = ownOf(types, type.name as string) ?? SCALAR
    return named.kind === 'scalar' || (named.kind === 'enum' && named.data === true)
  }

  const shape: Record<string, Input> = Object.create(null)
  for (const { name, type, fallback, structural, opaque, rows } of variables) {
    const path = at('$.variables', name)
    const value = given[name]
    if (rows && value !== undefined && value !== null) continue
    if (value !== undefined) shape[name] = lift(value, type, path, structural, opaque)
    else if (fallback) shape[name] = fallback
    else if (type.nonNull)
      throw invalid(`expecting a value for non-null type: ${typeText(type)} in variableValues`, path)
  }
  return { shape, values }
}

/** Converts JSON to an input in which every value is a constant of the plan. */
export function inputOf(value: Json): Input {
  if (value === null) return { kind: 'null' }
  if (Array.isArray(value)) return { kind: 'list', of: value.map(inputOf) }
  if (!isObject(value)) return { kind: 'literal', value }
  return {
    kind: 'object',
    fields: Object.fromEntries(Object.entries(value).map(([key, each]) => [key, inputOf(each)])),
  }
}

/**
 * Converts an input to JSON text, with slots where variables stand.
 * @throws ServiceError 400 for a missing variable in a condition
 */
export function jsonParts(input: Input, path: string): Composed {
  const parts: (string | number)[] = []
  const add = (part: string | number) => {
    const last = parts.at(-1)
    if (typeof part === 'string' && typeof last === 'string') parts[parts.length - 1] = last + part
    else parts.push(part)
  }
  const visit = (each: Input, here: string): void => {
    switch (each.kind) {
      case 'null':
        if (each.missing) throw invalid('the variable has no value', here)
        return add('null')
      case 'literal':
        return add(stringifyJson(each.value))
      case 'number':
        return add(each.text)
      case 'enum':
        return add(JSON.stringify(each.name))
      case 'slot':
        return add(each.slot)
      case 'list':
        add('[')
        each.of.forEach((element, i) => {
          if (i > 0) add(',')
          visit(element, at(here, i))
        })
        return add(']')
      case 'object':
        add('{')
        Object.entries(each.fields).forEach(([key, value], i) => {
          add(`${i > 0 ? ',' : ''}${JSON.stringify(key)}:`)
          visit(value, at(here, key))
        })
        return add('}')
    }
  }
  visit(input, path)
  return parts
}
/** Converts an input of constants to JSON. */
export const jsonOf = (input: Input, path: string): Json => composedOf(jsonParts(input, path), [])

/** Keys come from clients and from the catalog, so `constructor` must not find an inherited property. */
export const ownOf = <T>(record: Readonly<Record<string, T>>, key: string): T | undefined =>
  Object.hasOwn(record, key) ? record[key] : undefined

const SCALAR: InputType = { kind: 'scalar' }
/** The scalar of `_matches` in both conventions. Its values may be objects, whose fields are values. */
const FULL_TEXT_QUERY = new Set(['full_text_query', 'FullTextQuery'])

/** Builds paths only for errors, because the main thread may check a list of a million elements. */
function checkAll(list: readonly Json[], of: TypeRef, path: string, types: InputTypes['types']): void {
  const fits = of.name === undefined ? undefined : fitsOf(of.name, types)
  list.forEach((element, i) => {
    if (element === null || !fits?.(element)) check(element, of, at(path, i), types)
  })
}

/** Checks built-in scalars and enums as the GraphQL specification requires. PostgreSQL checks the other scalars. */
function check(value: Json, type: TypeRef, path: string, types: InputTypes['types']): void {
  if (type.of) {
    if (!Array.isArray(value)) throw invalid(`expecting a list of type ${typeText(type)}`, path)
    return checkAll(value, type.of, path, types)
  }
  if (value === null) {
    if (type.nonNull) throw invalid(`expecting a value for non-null type: ${typeText(type)} in variableValues`, path)
    return
  }
  const fits = fitsOf(type.name as string, types)
  if (fits && !fits(value)) throw invalid(`expecting a value of type ${typeText(type)}`, path)
}

function fitsOf(name: string, types: InputTypes['types']): ((value: Json) => boolean) | undefined {
  const named = ownOf(types, name)
  if (named?.kind !== 'enum') return ownOf(BUILT_IN, name)
  const values = new Set<Json>(named.values)
  return (value) => values.has(value)
}

const textOf = (value: Json): string | undefined =>
  typeof value === 'number' || value instanceof NumberText ? String(value) : undefined

/** Returns whether a value is an `Int`: a whole number in any form. */
export const isInt = (value: Json): boolean => {
  if (Number.isSafeInteger(value)) return true
  const text = textOf(value)
  return text !== undefined && wholeNumber(text) !== undefined
}
/** Returns whether a value is a `Float`. */
export const isFloat = (value: Json): boolean => textOf(value) !== undefined || NO_NUMBERS.has(value)
const NO_NUMBERS: ReadonlySet<Json> = new Set(['NaN', 'Infinity', '-Infinity'])

const BUILT_IN: Readonly<Record<string, (value: Json) => boolean>> = {
  Int: isInt,
  Float: isFloat,
  String: (value) => typeof value === 'string',
  Boolean: (value) => typeof value === 'boolean',
  ID: (value) => typeof value === 'string' || Number.isInteger(value),
}

function typeText({ nonNull, of, name }: TypeRef): string {
  return (of ? `[${typeText(of)}]` : (name as string)) + (nonNull ? '!' : '')
}

export const invalid = (message: string, path: string) => serviceError('validation-failed', message, path)

/** Returns every key in a JSON value: the names that its types must contain. */
export function keysIn(json: Json, keys: Set<string> = new Set()): Set<string> {
  if (Array.isArray(json)) for (const each of json) keysIn(each, keys)
  else if (isObject(json)) {
    for (const key in json) {
      keys.add(key)
      keysIn(json[key] as Json, keys)
    }
  }
  return keys
}
