import { type JsonSchema, orNull, schemaOf } from 'rowhouse'
import type { Column } from 'rowhouse/plan'
import type { Parameter } from './meaning.js'

/** Returns the schema of the arguments of a parameter. */
export function parameterSchema({ use, type, columns, default: fallback, schema }: Parameter): JsonSchema {
  const more = fallback === undefined ? {} : { default: fallback }
  if (schema) return { ...schema, ...more }
  switch (use) {
    case 'rows':
      return { type: 'array', items: columns ? rowSchema(columns) : { type: 'object' }, ...more }
    case 'list':
      return { type: 'array', items: type ? orNull(schemaOf(type)) : {}, ...more }
    case 'count':
      return { type: ['integer', 'null'], minimum: 0, ...more }
    case 'value':
    case 'text':
      return { ...(type ? orNull(schemaOf(type)) : {}), ...more }
  }
}

function rowSchema(columns: readonly Column[]): JsonSchema {
  const required = columns.filter(
    ({ nullable, default: fallback, generated }) => !nullable && fallback === undefined && generated === undefined,
  )
  return {
    type: 'object',
    properties: Object.fromEntries(
      columns.map(({ name, type, nullable }) => [name, nullable ? orNull(schemaOf(type)) : schemaOf(type)]),
    ),
    ...(required.length > 0 ? { required: required.map(({ name }) => name) } : {}),
    additionalProperties: false,
  }
}
