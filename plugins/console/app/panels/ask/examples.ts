import { catalog, findTable, isNumeric, isSystem, isTime, labelOf, type Table, wireName } from '../../catalog.js'
import type { Json, JsonObject } from '../../json.js'
import { pretty } from '../../ui/flat.js'

export interface Example {
  readonly title: string
  readonly text: string
  /** How its answer is shown. */
  readonly view?: 'plot'
}

const request = (args: JsonObject): string => pretty({ type: 'select', args }, '', 52)

/** Returns the first request of a new tab: some rows of a table that the caller may see. */
export const firstRequest = (): string => examples()[0]?.text ?? pretty({ type: 'describe', args: {} })

/** Returns requests about real tables of the caller. */
export function examples(): readonly Example[] {
  const table = mainTable()
  if (!table) return []
  const shown = table.columns.filter(({ select }) => select)
  const names = shown.map(({ name }) => name)
  const name = wireName(table.table) as Json
  const order = table.primary_key[0] ?? names[0]
  const time = shown.find(isTime)
  const condition = shown.find(({ values }) => values) ?? shown.find(({ type }) => type === 'text') ?? shown[0]!
  const one = table.relationships.find(({ type, table: to }) => type === 'object' && namesOf(to).length > 0)
  const many = table.relationships.find(({ type, table: to }) => type === 'array' && namesOf(to).length > 0)
  const related = [one, many].flatMap((relationship): Json[] =>
    relationship
      ? [
          {
            name: relationship.name,
            columns: namesOf(relationship.table),
            ...(relationship.type === 'array' ? { limit: 3 } : {}),
          },
        ]
      : [],
  )
  const category = shown.find(
    ({ type, values, name: of }) =>
      (type === 'text' || type === 'bool' || values) && !table.unique.some(({ columns }) => columns.includes(of)),
  )
  const number = shown.find((column) => isNumeric(column) && !/(^|_)id$/.test(column.name))
  return [
    {
      title: 'First rows',
      text: request({ table: name, columns: names.slice(0, 6), order_by: [`-${order}`], limit: 10 }),
    },
    {
      title: 'Filter',
      text: request({
        table: name,
        columns: names.slice(0, 6),
        where: { [condition.name]: conditionOf(condition) },
        limit: 100,
      }),
    },
    ...(related.length > 0
      ? [
          {
            title: 'Related rows',
            text: request({
              table: name,
              columns: [...names.slice(0, 4), ...related],
              order_by: [`-${order}`],
              limit: 10,
            }),
          },
        ]
      : []),
    ...(table.aggregations && category
      ? [
          {
            title: 'Groups',
            text: request({
              table: name,
              columns: [category.name, { count: '*' }, ...(number ? [{ sum: number.name }] : [])],
              group_by: [category.name],
              order_by: ['-count'],
            }),
          },
        ]
      : []),
    ...(time
      ? [
          {
            title: 'Plot by month',
            view: 'plot',
            text: request({ table: name, columns: [time.name], order_by: [time.name] }),
          } as const,
        ]
      : []),
  ]
}

/** Returns the table with most to show: relationships, times and columns. */
function mainTable(): Table | undefined {
  const worth = (table: Table) =>
    table.relationships.length * 3 +
    (table.relationships.some(({ type }) => type === 'object') ? 1 : 0) +
    (table.columns.some(isTime) ? 5 : 0) +
    (table.aggregations ? 1 : 0)
  return catalog.value?.tables
    .filter((table) => !isSystem(table) && table.columns.some(({ select }) => select))
    .toSorted((a, b) => worth(b) - worth(a))[0]
}

const namesOf = (table: Table['table']): string[] =>
  (findTable(labelOf(table))?.columns ?? [])
    .filter(({ select }) => select)
    .slice(0, 3)
    .map(({ name }) => name)

function conditionOf({ type, values }: Table['columns'][number]): Json {
  if (values?.[0] !== undefined) return { $eq: values[0] }
  if (type === 'text') return { $ilike: '%a%' }
  return isNumeric({ type }) ? { $gt: 0 } : { $is_null: false }
}
