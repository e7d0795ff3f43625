import { at, notExists, parseFailed, unexpectedPayload } from '../errors.js'
import { isObject, refuseOtherKeys } from '../json/value.js'
import type { Json, JsonObject } from '../json/parse.js'
import { and, arrayOf, type Operands, planBoolExp, rootColumns } from '../plan/boolexp.js'
import { constantAt } from '../plan/encode.js'
import { computedColumn, computedRelationship, needsNothing } from '../plan/fields.js'
import { type BoolExp, type Join, type Operand, type Preset, type SqlType } from '../ir.js'
import { liftBoolExp, liftTableRef, Slots } from '../plan/lift-boolexp.js'
import type { Names } from '../plan/names.js'
import { COLUMN_OPERATORS, operatorName } from '../plan/operators.js'
import { PATTERNS } from '../plan/price.js'
import { failClosed, takesUserId } from '../plan/user-id.js'
import { USER_ID, VARIABLE_NAME } from '../session.js'
import type {
  Column,
  DeletePermission,
  InsertPermission,
  SelectPermission,
  Table,
  UpdatePermission,
} from '../catalog/catalog.js'
import type { PermissionType } from './metadata.js'

/** Stores each distinct expression once and returns its index. */
type Store = (exp: BoolExp) => number

export type Permission = { readonly backendOnly: boolean } & (
  | { readonly type: 'insert'; readonly permission: InsertPermission }
  | { readonly type: 'select'; readonly permission: SelectPermission }
  | { readonly type: 'update'; readonly permission: UpdatePermission }
  | { readonly type: 'delete'; readonly permission: DeletePermission }
)

const KEYS: Record<PermissionType, readonly string[]> = {
  insert: ['check', 'columns', 'set', 'allow_upsert', 'allow_conflict_update', 'backend_only'],
  select: ['columns', 'filter', 'limit', 'allow_aggregations', 'computed_fields'],
  update: ['columns', 'filter', 'check', 'set', 'backend_only'],
  delete: ['filter', 'backend_only'],
}

/**
 * Resolves the definition of a permission on a table.
 * @throws ServiceError 400 with a path below `$`, the root of the definition; also for an unknown key, because a typo
 *   must never widen a permission
 */
export function parsePermission(
  type: PermissionType,
  definition: Json,
  table: Table,
  names: Names,
  store: Store,
): Permission {
  if (!isObject(definition)) throw parseFailed('expecting an object', '$')
  refuseOtherKeys(definition, KEYS[type], '$')
  const exp = (key: string): number => store(expression(definition, key, table, names))
  const set = presets(definition, table, names)
  const columns = (fallback?: '*') => columnList(definition['columns'] ?? fallback, table, names, set)
  const backendOnly = flag(definition, 'backend_only')
  switch (type) {
    case 'insert':
      return {
        type,
        backendOnly,
        permission: {
          check: exp('check'),
          columns: columns('*'),
          set,
          upsert: flag(definition, 'allow_upsert') || flag(definition, 'allow_conflict_update'),
        },
      }
    case 'select': {
      const limit = definition['limit']
      if (limit !== undefined && (typeof limit !== 'number' || !Number.isInteger(limit) || limit < 0)) {
        throw parseFailed('expecting a whole number of rows', '$.limit')
      }
      return {
        type,
        backendOnly,
        permission: {
          columns: columns(),
          filter: exp('filter'),
          limit,
          aggregations: flag(definition, 'allow_aggregations'),
          computedFields: computedFields(definition['computed_fields'], table),
        },
      }
    }
    case 'update':
      return {
        type,
        backendOnly,
        permission: {
          columns: columns(),
          filter: exp('filter'),
          ...(definition['check'] === undefined || definition['check'] === null ? {} : { check: exp('check') }),
          set,
        },
      }
    case 'delete':
      return { type, backendOnly, permission: { filter: exp('filter') } }
  }
}

/** A rule, or a part of one, with the parts that it consists of. */
export interface RulePart {
  /** Path below `$`, the root of the definition. */
  readonly path: string
  /** Part as written: an object of conditions that must all hold. */
  readonly clause: JsonObject
  readonly exp: BoolExp
  /** Parts of a combination: all or any of them must hold, or the one must not. */
  readonly parts?: { readonly of: 'all' | 'any' | 'not'; readonly rules: readonly RulePart[] }
  /** Columns of the row that a comparison is about. */
  readonly columns?: readonly Column[]
  /** Rows of which one must satisfy the rule. `on` is empty for all rows of the table. */
  readonly related?: { readonly table: Table; readonly on: Join; readonly rule: RulePart }
}

/** Takes a rule of a valid definition apart. */
export function partsOf(definition: Json, key: 'check' | 'filter', table: Table, names: Names): RulePart {
  const ruleOf = (clause: JsonObject, path: string, on: Table): RulePart => {
    const rules = Object.entries(clause).map(([name, value]) => partOf(name, value, path, on))
    const [only] = rules
    if (only && rules.length === 1) return only
    return { path, clause, exp: planRule(clause, path, on, names), parts: { of: 'all', rules } }
  }
  const partOf = (name: string, value: Json, path: string, on: Table): RulePart => {
    const here = at(path, name)
    const clause = { [name]: value }
    const exp = planRule(clause, path, on, names)
    const isLeaf = exp.kind === 'exists' && rootColumns(exp).length > 0
    // The related rows are not found without the row that they are compared with.
    return { path: here, clause, exp, ...(isLeaf ? {} : inside(name, value, here, on)) }
  }
  const inside = (name: string, value: Json, here: string, on: Table): Partial<RulePart> => {
    const relationship = on.relationshipsByName.get(name)
    const column = on.columnsByName.get(name)
    switch (name) {
      case '$and':
      case '_and':
      case '$or':
      case '_or': {
        const rules = (value as JsonObject[]).map((part, i) => ruleOf(part, at(here, i), on))
        return { parts: { of: name.endsWith('or') ? 'any' : 'all', rules } }
      }
      case '$not':
      case '_not':
        return { parts: { of: 'not', rules: [ruleOf(value as JsonObject, here, on)] } }
      case '$exists':
      case '_exists': {
        const { _table, _where = {} } = value as JsonObject
        const other = names.table(liftTableRef(_table, here), 'select', here)
        return { related: { table: other, on: [], rule: ruleOf(_where as JsonObject, at(here, '_where'), other) } }
      }
    }
    if (column) return { columns: [column, ...comparedWith(value, on)] }
    if (!relationship) return {}
    const other = names.table(relationship.table, 'select', here)
    return { related: { table: other, on: relationship.on, rule: ruleOf(value as JsonObject, here, other) } }
  }
  return ruleOf(((definition as JsonObject)[key] ?? {}) as JsonObject, at('$', key), table)
}

/** Returns the columns of the same row that the operators of a column name. */
const comparedWith = (operators: Json, { columnsByName }: Table): readonly Column[] =>
  isObject(operators)
    ? Object.entries(operators).flatMap(([key, to]) => {
        const isColumn = COLUMN_OPERATORS.has(operatorName(key) ?? '')
        return (isColumn ? columnsByName.get([to].flat().at(-1) as string) : undefined) ?? []
      })
    : []

/** Returns the parts of a rule that must all hold: one per key, and one per key of the members of `$and` at any depth. */
export const clausesOf = (rule: RulePart): readonly RulePart[] =>
  rule.parts?.of === 'all' ? rule.parts.rules.flatMap(clausesOf) : [rule]

function expression(definition: JsonObject, key: string, table: Table, names: Names): BoolExp {
  if (definition[key] === undefined) throw parseFailed(`the key '${key}' was not present`, '$')
  return planRule(definition[key], at('$', key), table, names)
}

function planRule(rule: Json, path: string, table: Table, names: Names): BoolExp {
  const slots = new Slots()
  const shape = liftBoolExp(rule, path, slots)
  const exp = and([planBoolExp(shape, table, withComputed(names), path, definedOperands(slots.values))])
  refusePatterns(exp, path)
  return failClosed(exp)
}

/** Adds computed fields whose function needs only the row. */
const withComputed = (names: Names): Names => ({
  ...names,
  columnOrRelationship(table, name, path) {
    const field = table.computedByName.get(name)
    if (!field || !needsNothing(field.arguments)) return names.columnOrRelationship(table, name, path)
    const found = computedColumn(field, path) ?? computedRelationship(field, names, path)
    return found ?? names.columnOrRelationship(table, name, path)
  },
})

/** Converts the values of a definition: constants, or session variables. */
function definedOperands(values: readonly Json[]): Operands {
  const one = (value: Json, type: SqlType, path: string, compared = type): Operand => {
    const name = variableName(value)
    if (name === undefined) {
      if (containsVariable(value)) throw unexpectedPayload('a session variable must be the whole value', path)
      return constantAt(value, type, path)
    }
    checkVariable(name, takesUserId(compared) ? type : compared, path)
    return { kind: 'session', name, type }
  }
  return {
    one: (slot, type, path, compared) => one(values[slot] as Json, type, path, compared),
    list(slot, type, path, compared) {
      const value = values[slot] as Json
      const name = variableName(value)
      if (name !== undefined) {
        const list = arrayOf(type, path)
        checkVariable(name, list, path)
        return { list: { kind: 'session', name, type: list }, ones: [] }
      }
      if (!Array.isArray(value)) throw parseFailed('expecting an array', path)
      const fixed = value.filter((element) => variableName(element) === undefined)
      const variables = value.flatMap((element, i) => (variableName(element) === undefined ? [] : [{ element, i }]))
      const list = constantAt(fixed, arrayOf(type, path), path)
      return { list, ones: variables.map(({ element, i }) => one(element, type, at(path, i), compared)) }
    },
  }
}

/** Returns the session variable that a whole string such as `X-Service-Org-Id` names. */
function variableName(value: Json): string | undefined {
  if (typeof value !== 'string') return undefined
  const name = value.toLowerCase()
  return VARIABLE_NAME.test(name) ? name : undefined
}

/** Returns whether an array or object contains the name of a variable, which would be taken literally there. */
const containsVariable = (value: Json): boolean => variablesIn(value).length > 0

/** Returns the names of the session variables in a definition. */
export function variablesIn(value: Json): readonly string[] {
  const name = variableName(value)
  if (name !== undefined) return [name]
  if (typeof value !== 'object' || value === null) return []
  return [...new Set(Object.values(value).flatMap((inner) => variablesIn(inner as Json)))]
}

/** Refuses the user id as a pattern: an identity provider may issue ids that contain `%`, and these would match others. */
function refusePatterns(exp: BoolExp, path: string): void {
  switch (exp.kind) {
    case 'and':
    case 'or':
      return exp.of.forEach((part) => refusePatterns(part, path))
    case 'not':
    case 'guarded':
      return refusePatterns(exp.of, path)
    case 'exists':
    case 'aggregate':
      return refusePatterns(exp.where, path)
    case 'compare':
      if (exp.to.kind !== 'session' || exp.to.name !== USER_ID) return
      if (!PATTERNS.has(exp.op) && exp.to.type.search === undefined) return
      throw unexpectedPayload('X-SERVICE-USER-ID cannot be a pattern; compare it with $eq', path)
    case 'columns':
    case 'null':
    case 'sorted':
    case 'unknown':
    case 'known':
  }
}

function checkVariable(name: string, type: SqlType, path: string): void {
  if (name !== USER_ID || takesUserId(type)) return
  throw unexpectedPayload(
    `X-SERVICE-USER-ID requires a smallint, integer, bigint, uuid, text, varchar, char or citext; the type here is ${type.name}`,
    path,
  )
}

function presets(definition: JsonObject, table: Table, names: Names): readonly Preset[] {
  const set = definition['set']
  if (set === undefined || set === null) return []
  if (!isObject(set)) throw parseFailed('expecting an object of columns', '$.set')
  return Object.entries(set).map(([name, value]) => {
    const path = at('$.set', name)
    const column = names.column(table, name, 'insert', path)
    refuseGenerated(column, path)
    const to: Operand =
      value === null
        ? { kind: 'const', value: null, type: column.type }
        : definedOperands([value]).one(0, column.type, path)
    return { column: name, to }
  })
}

function refuseGenerated(column: Column, path: string): void {
  if (column.generated === 'always') throw unexpectedPayload(`column "${column.name}" is generated`, path)
}

/** Returns the columns that the client may set; excludes presets. */
function columnList(value: Json | undefined, table: Table, names: Names, set: readonly Preset[]): readonly string[] {
  const preset = new Set(set.map(({ column }) => column))
  if (value === '*') return table.columns.map(({ name }) => name).filter((name) => !preset.has(name))
  if (value === undefined) throw parseFailed("the key 'columns' was not present", '$')
  if (!Array.isArray(value)) throw parseFailed("expecting an array of column names, or '*'", '$.columns')
  return value
    .map((name, i) => {
      const path = at('$.columns', i)
      if (typeof name !== 'string') throw parseFailed('expecting a column name', path)
      return names.column(table, name, 'select', path).name
    })
    .filter((name) => !preset.has(name))
}

function flag(definition: JsonObject, key: string): boolean {
  const value = definition[key] ?? false
  if (typeof value !== 'boolean') throw parseFailed('expecting a boolean', at('$', key))
  return value
}

function computedFields(value: Json | undefined, table: Table): readonly string[] {
  if (value === undefined) return []
  if (!Array.isArray(value)) throw parseFailed('expecting an array of names', '$.computed_fields')
  return value.map((name, i) => {
    const path = at('$.computed_fields', i)
    if (typeof name !== 'string') throw parseFailed('expecting a name', path)
    if (table.computedByName.has(name)) return name
    throw notExists(`computed field "${name}" does not exist`, path)
  })
}
