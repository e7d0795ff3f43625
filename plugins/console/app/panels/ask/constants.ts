import { isObject, type Json, type JsonObject } from '../../json.js'
import type { Path } from '../../json-places.js'

/** A value of a request that a template may take as a parameter. */
interface Constant {
  readonly path: Path
  readonly value: Json
  /** Suggested name of the parameter. */
  readonly name: string
}

const CONDITIONS = new Set(['where', 'having'])
const ASSIGNED = new Set(['$set', '$inc', '$mul', '_set', '_inc', '_mul', 'arguments', 'after'])

/** Finds the values of a request that may become parameters. */
export function constantsOf(request: JsonObject): readonly Constant[] {
  const found: Constant[] = []
  const add = (path: Path, value: Json, name: string) => {
    const plain = name.replaceAll(/\W/g, '') || 'value'
    const isTaken = (each: string) => found.some((other) => other.name === each)
    let unique = plain
    for (let i = 2; isTaken(unique); i++) unique = `${plain}_${i}`
    found.push({ path, value, name: unique })
  }
  const inCondition = (value: Json, path: Path, column: string): void => {
    if (Array.isArray(value) && /^[$_](and|or)$/.test(String(path.at(-1)))) {
      ;(value as readonly Json[]).forEach((each, i) => inCondition(each, [...path, i], column))
    } else if (isObject(value)) {
      for (const [key, each] of Object.entries(value)) {
        if (each !== undefined && !/^[$_]c?(is_null|ceq|cne|cneq|cgt|clt|cgte|clte)$/.test(key)) {
          inCondition(each, [...path, key], /^[$_]/.test(key) ? column : key)
        }
      }
    } else add(path, value, column)
  }
  const walk = (value: Json, path: Path): void => {
    if (Array.isArray(value)) (value as readonly Json[]).forEach((each, i) => walk(each, [...path, i]))
    else if (isObject(value)) {
      for (const [key, each] of Object.entries(value)) {
        const inner = [...path, key]
        if (each === undefined) continue
        if (CONDITIONS.has(key)) inCondition(each, inner, 'value')
        else if (ASSIGNED.has(key) && isObject(each)) {
          for (const [name, assigned] of Object.entries(each))
            if (assigned !== undefined) add([...inner, name], assigned, name)
        } else if (key === 'limit' || key === 'offset' || key === 'objects') add(inner, each, key)
        else walk(each, inner)
      }
    }
  }
  walk(request['args'] ?? null, ['args'])
  return found
}

/** Returns a request with some of its values replaced. */
export function replaced(value: Json, by: readonly { readonly path: Path; readonly value: Json }[]): Json {
  return by.reduce((all, { path, value: next }) => put(all, path, next), value)
}

function put(value: Json, [step, ...rest]: Path, next: Json): Json {
  if (step === undefined) return next
  if (Array.isArray(value))
    return (value as readonly Json[]).map((each, i) => (i === step ? put(each, rest, next) : each))
  const object = value as JsonObject
  return { ...object, [step]: put(object[String(step)] ?? null, rest, next) }
}
