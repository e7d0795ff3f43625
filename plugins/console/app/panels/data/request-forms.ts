import { type Table, labelOf } from '../../catalog.js'
import { BigNumber, isObject, type Json, textOf } from '../../json.js'
import type { Request } from '../../program.js'
import { choicesOf, keyOf, related, selectArgs, sortedBy, sortOf, type View } from './view.js'

const LIMIT = 100

/** Returns the request of a view, for its first rows. */
export const requestOf = (table: Table, view: View) => ({
  type: 'select',
  args: { ...selectArgs(table, view), limit: Math.min(LIMIT, table.limit ?? LIMIT) },
})

/** Returns a request as a program sends it. */
export const programOf = (request: unknown): Request => ({
  method: 'POST',
  path: '/v1/query',
  body: JSON.stringify(request, null, 2),
})

/**
 * Returns the GraphQL document of a view.
 * @throws Error if GraphQL has no such names or operators
 */
export function graphqlOf(table: Table, view: View): string {
  const order = sortOf(table, view).map((key) => {
    const { path, isDescending } = sortedBy(table, key)
    return path.reduceRight<string>((inner, name) => `{${nameOf(name)}: ${inner}}`, isDescending ? 'desc' : 'asc')
  })
  const args = [
    ...(Object.keys(view.where).length > 0 ? [`where: ${conditionText(view.where)}`] : []),
    ...(order.length > 0 ? [`order_by: [${order.join(', ')}]`] : []),
    `limit: ${Math.min(LIMIT, table.limit ?? LIMIT)}`,
  ]
  const field = nameOf(labelOf(table.table).replace('.', '_'))
  return `query {\n  ${field}(${args.join(', ')}) {\n${fieldsText(fieldsOf(table, view), '    ')}  }\n}\n`
}

type Fields = Map<string, Fields | undefined>

function fieldsOf(table: Table, view: View): Fields {
  const fields: Fields = new Map()
  const add = (into: Fields, [first = '', ...rest]: readonly string[]): void => {
    const name = nameOf(first.split('(')[0]!) + first.slice(first.split('(')[0]!.length)
    if (rest.length === 0) {
      if (!into.has(name)) into.set(name, undefined)
      return
    }
    const inner = into.get(name) ?? new Map()
    into.set(name, inner)
    add(inner, rest)
  }
  for (const choice of choicesOf(table, view)) {
    if (typeof choice === 'string') add(fields, [choice])
    else if ('count' in choice) add(fields, [`${choice.count}_aggregate`, 'aggregate', 'count'])
    else if ('rows' in choice) {
      const other = related(table, choice.rows)?.other
      for (const { name, select } of other?.columns ?? []) if (select) add(fields, [`${choice.rows}(limit: 10)`, name])
    } else add(fields, choice)
  }
  return fields
}

function fieldsText(fields: Fields, indent: string): string {
  const lines = [...fields].map(([name, inner]) =>
    inner ? `${indent}${name} {\n${fieldsText(inner, `${indent}  `)}${indent}}\n` : `${indent}${name}\n`,
  )
  return lines.join('')
}

function nameOf(name: string): string {
  if (/^[A-Za-z_]\w*$/.test(name)) return name
  throw new Error(`the name ${JSON.stringify(name)} is not valid in GraphQL`)
}

/** Writes a condition with the operators of GraphQL. */
function conditionText(where: Json): string {
  if (Array.isArray(where)) return `[${where.map((each) => conditionText(each as Json)).join(', ')}]`
  if (!isObject(where)) return valueText(where)
  const parts = Object.entries(where).map(([key, value = null]) => {
    if (/^[$_]c(n?eq|ne|gt|lt|gte|lte)$/.test(key)) throw new Error('GraphQL does not compare two columns')
    if (/^\$(and|or|not)$/.test(key)) return `_${key.slice(1)}: ${conditionText(value)}`
    if (key.startsWith('$')) return `_${key.slice(1)}: ${valueText(value)}`
    const comparison = value === null ? { $is_null: true } : isObject(value) ? value : { $eq: value }
    return `${nameOf(key)}: ${conditionText(comparison)}`
  })
  return `{${parts.join(', ')}}`
}

/** Writes a value as GraphQL does. */
function valueText(value: Json): string {
  if (value instanceof BigNumber) return textOf(value)
  if (Array.isArray(value)) return `[${value.map((each) => valueText(each as Json)).join(', ')}]`
  if (!isObject(value)) return JSON.stringify(value)
  return `{${Object.entries(value)
    .map(([key, each = null]) => `${nameOf(key)}: ${valueText(each)}`)
    .join(', ')}}`
}

/** A text that changes with the view. */
export const viewKey = (view: View): string => JSON.stringify([view.where, view.sort, view.columns?.map(keyOf)])
