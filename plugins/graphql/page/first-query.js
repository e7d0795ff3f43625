import { getIntrospectionQuery } from 'graphql'

const EMPTY = '{\n  __typename\n}\n'

/** Returns a query of the first rows of some table, as far as the caller may see the schema. */
export async function firstQuery(fetcher) {
  try {
    const { data } = await fetcher({
      query: getIntrospectionQuery({ descriptions: false }),
      operationName: 'IntrospectionQuery',
    })
    return data ? queryOf(data.__schema) : EMPTY
  } catch {
    return EMPTY
  }
}

function queryOf({ types, queryType }) {
  const byName = new Map(types.map((type) => [type.name, type]))
  for (const { name, type, args } of byName.get(queryType.name).fields) {
    const row = byName.get(nameOf(type))
    if (!isList(type) || row?.kind !== 'OBJECT' || args.some(isRequired)) continue
    const columns = row.fields.filter(
      (field) => isValue(byName.get(nameOf(field.type))) && !field.args.some(isRequired),
    )
    if (columns.length === 0) continue
    const limit = args.some((arg) => arg.name === 'limit') ? '(limit: 10)' : ''
    const lines = columns.slice(0, 6).map((column) => `    ${column.name}\n`)
    return `{\n  ${name}${limit} {\n${lines.join('')}  }\n}\n`
  }
  return EMPTY
}

const nameOf = (type) => type.name ?? nameOf(type.ofType)
const isList = (type) => type.kind === 'LIST' || (type.ofType ? isList(type.ofType) : false)
const isValue = (type) => type?.kind === 'SCALAR' || type?.kind === 'ENUM'
const isRequired = (arg) => arg.type.kind === 'NON_NULL' && arg.defaultValue === null
