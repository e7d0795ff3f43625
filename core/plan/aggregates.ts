import { type GroupValue, isGeo, type SqlType, supports } from '../ir.js'
import { FLOAT8, INT8 } from './operators.js'

const NUMERIC: SqlType = { schema: 'pg_catalog', name: 'numeric', kind: 'numeric', array: '_numeric' }
const JSONB: SqlType = { schema: 'pg_catalog', name: 'jsonb', kind: 'jsonb', array: '_jsonb' }

const NUMBERS: ReadonlySet<SqlType['kind']> = new Set(['int2', 'int4', 'int8', 'float', 'numeric'])

/** Types other than numbers and texts that have `min` and `max`. */
const ORDERED = new Set(['date', 'timestamp', 'timestamptz', 'time', 'timetz', 'interval', 'money', 'inet'])

/** PostgreSQL sorts a list by its elements. */
const isSortedList = (type: SqlType): boolean =>
  type.kind === 'array' && type.element !== undefined && type.element.kind !== 'row' && supports(type, 'sort')

/** Returns the type of an aggregate of a column of type `type`, or undefined for an unsupported one. */
export function aggregateType(fn: GroupValue['fn'], type: SqlType): SqlType | undefined {
  const { schema, array, kind, name } = type
  switch (fn) {
    case 'count':
      return INT8
    case 'min':
    case 'max':
      return NUMBERS.has(kind) || kind === 'text' || isSortedList(type) || ORDERED.has(name) ? type : undefined
    case 'array_agg':
      // PostgreSQL aggregates arrays only if all have the same dimensions, and none is null.
      if (array === undefined || kind === 'array' || isGeo(type)) return undefined
      return { schema, name: array, kind: 'array', element: type }
    case 'jsonb_agg':
      return isGeo(type) ? undefined : JSONB
    case 'sum':
      if (kind === 'int2' || kind === 'int4') return INT8
      if (kind === 'float') return type
      return NUMBERS.has(kind) ? NUMERIC : undefined
    case 'avg':
    case 'stddev':
    case 'stddev_pop':
    case 'stddev_samp':
    case 'var_pop':
    case 'var_samp':
    case 'variance':
      if (kind === 'float') return FLOAT8
      return NUMBERS.has(kind) ? NUMERIC : undefined
  }
}

const FUNCTIONS: Readonly<Record<GroupValue['fn'], true>> = {
  count: true,
  sum: true,
  avg: true,
  min: true,
  max: true,
  array_agg: true,
  jsonb_agg: true,
  stddev: true,
  stddev_pop: true,
  stddev_samp: true,
  var_pop: true,
  var_samp: true,
  variance: true,
}

export const isAggregateFunction = (name: string): name is GroupValue['fn'] => Object.hasOwn(FUNCTIONS, name)
