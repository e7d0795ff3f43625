import type { Data, Operations, TemplateMeaning } from 'rowhouse'
import {
  type Column,
  encode,
  encodeList,
  INT8,
  isObject,
  type Json,
  type JsonObject,
  type Names,
  type Op,
  type Operand,
  rowsOf,
  ServiceError,
  type SqlType,
  type Table,
  type TableRef,
  TEXT,
} from 'rowhouse/plan'
import { fill, parseTemplate, type Place, type Template, type Use } from './template.js'

/** What a parameter stands for, by the columns that it meets. */
export interface Parameter {
  readonly name: string
  readonly use: Use
  /** Of the value, or of each element of a list; absent for rows. */
  readonly type?: SqlType
  /** The table that rows go to. */
  readonly table?: Table
  /** Those of its columns that may be given. */
  readonly columns?: readonly Column[]
  readonly required: boolean
  readonly default?: Json
}
export interface Described {
  readonly template: Template
  /** One for each parameter, in order of appearance. */
  readonly parameters: ReadonlyMap<string, Parameter>
  /** What each member reads or writes; a template that is no bulk has one. */
  readonly ops: readonly Op[]
  /** Values that are in it already, defaults among them: PostgreSQL has to be able to read them. */
  readonly constants: readonly Operand[]
}

/** Finds out what a template means, by planning it with something in place of its parameters. */
export class Meanings {
  private readonly data: Data
  private readonly operations: Operations

  constructor(data: Data, operations: Operations) {
    this.data = data
    this.operations = operations
  }

  /** @throws ServiceError 400 with a path below `$`, the definition being `$` */
  readonly resolve = (definition: Json, names: Names): TemplateMeaning => this.describe(definition, names)

  describe(definition: Json, names: Names): Described {
    const template = parseTemplate(definition)
    const standIns = new Map<Json, Place>()
    const filled = fill(definition, (place) => standIn(place, standIns))
    const ops: Op[] = []
    const fixed: Operand[] = []
    const types = new Map<Place, SqlType>()
    const tables = new Map<Place, Table>()
    for (const { query, path } of members(filled, '$')) {
      under(path, () => {
        const request = this.operations.lift(query)
        const op = this.data.plan(request, names)
        ops.push(op)
        for (const { slot, type, path: here } of operands(op)) {
          const value = request.values[slot] as Json
          const places = (Array.isArray(value) ? value : [value]).flatMap((each) => standIns.get(each) ?? [])
          for (const place of places) {
            types.set(place, Array.isArray(value) || place.use === 'list' ? (type.element ?? type) : type)
          }
          if (places.length === 0) fixed.push({ kind: 'const', value: encode(value, type, here), type })
        }
        const rows = template.places.find((place) => place.path === `${path}.args.objects`)
        if (rows && op.kind === 'insert') tables.set(rows, names.table(op.table as TableRef, 'insert', '$.args.table'))
      })
    }
    const typeOf = (place: Place): SqlType | undefined => {
      if (place.use === 'count') return INT8
      if (place.use === 'text') return TEXT
      for (const [each, type] of types) if (each.path === place.path) return type
      return undefined
    }
    const tableOf = (place: Place) => tables.get(place)
    return {
      template,
      ops,
      parameters: parametersOf(template.places, typeOf, tableOf, names),
      constants: [
        ...fixed,
        ...template.places.flatMap((place) => this.constants(place, typeOf(place), definition, names)),
      ],
    }
  }

  /** The default of a place, checked as an argument would be. */
  private constants(place: Place, type: SqlType | undefined, definition: Json, names: Names): readonly Operand[] {
    const { use, path, default: value } = place
    if (value === undefined || value === null) return []
    const where = `${path}.default`
    if (use === 'rows' || use === 'count') {
      under(where, () => this.tryWith(place, value, definition, names))
      return []
    }
    if (!type) return []
    if (use === 'value' || use === 'text') return [{ kind: 'const', value: encode(value, type, where), type }]
    if (!Array.isArray(value)) throw new ServiceError(400, 'parse-failed', 'expecting an array', where)
    const elements = value.filter((element) => element !== null)
    encodeList(elements, type, where)
    return elements.map((element) => ({ kind: 'const', value: encode(element, type, where), type }))
  }

  private tryWith(place: Place, value: Json, definition: Json, names: Names): void {
    const filled = fill(definition, (other) => (other.path === place.path ? argument(other, value) : standIn(other)))
    for (const { query, path } of members(filled, '$')) {
      try {
        this.data.plan(this.operations.lift(query), names)
      } catch (error) {
        if (!(error instanceof ServiceError)) throw error
        const full = error.under(path).path
        throw full.startsWith(place.path)
          ? new ServiceError(400, error.code, error.message, `$${full.slice(place.path.length)}`)
          : error
      }
    }
  }
}

/** An argument as the query wants it. */
export function argument({ use, path }: Place, value: Json): Json {
  return use === 'rows' && Array.isArray(value) ? rowsOf(value, path) : value
}

let counter = 0
function standIn(place: Place, places?: Map<Json, Place>): Json {
  if (place.use === 'count') return 1
  if (place.use === 'rows') return rowsOf([Object.create(null) as JsonObject], place.path)
  // No other value of the template is this string.
  const value = `\u0000${counter++}`
  places?.set(value, place)
  return value
}

/** The single requests of a query: itself, or those of a bulk. */
export function* members(query: Json, path: string): Generator<{ query: JsonObject; path: string }> {
  if (!isObject(query)) return
  if (query['type'] !== 'bulk') {
    yield { query, path }
    return
  }
  for (const [i, member] of (query['args'] as Json[]).entries()) yield* members(member, `${path}.args[${i}]`)
}

/** Everything in a plan that stands for a value of the request. */
function operands(node: unknown): { slot: number; type: SqlType; path: string }[] {
  if (Array.isArray(node)) return node.flatMap(operands)
  if (typeof node !== 'object' || node === null) return []
  const { kind, slot, type, path } = node as { kind?: string; slot?: number; type?: SqlType; path?: string }
  if (kind === 'value' && slot !== undefined && type && path) return [{ slot, type, path }]
  return Object.values(node).flatMap(operands)
}

function parametersOf(
  places: readonly Place[],
  typeOf: (place: Place) => SqlType | undefined,
  tableOf: (place: Place) => Table | undefined,
  names: Names,
): ReadonlyMap<string, Parameter> {
  const parameters = new Map<string, Parameter>()
  for (const place of places) {
    const known = parameters.get(place.param)
    // Required as soon as one of its places has no default.
    const required = (known?.required ?? false) || place.default === undefined
    if (known) {
      parameters.set(place.param, { ...known, required })
      continue
    }
    const [type, table] = [typeOf(place), tableOf(place)]
    parameters.set(place.param, {
      name: place.param,
      use: place.use,
      required,
      ...(type ? { type } : {}),
      ...(table ? { table, columns: names.columns(table, 'insert') } : {}),
      ...(place.default === undefined ? {} : { default: place.default }),
    })
  }
  return parameters
}

function under<T>(path: string, fn: () => T): T {
  try {
    return fn()
  } catch (error) {
    throw error instanceof ServiceError ? error.under(path) : error
  }
}
