import { readFile } from 'node:fs/promises'
import {
  buildSchema,
  execute,
  type FieldNode,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  Kind,
  parse,
  validate,
  valueFromASTUntyped,
} from 'graphql'
import type pg from 'pg'
import type { FakePeer } from './fake-peer.js'

/** The metadata for Hasura that the bench tells people to apply. */
const METADATA = new URL('../../../../bench/hasura-metadata.json', import.meta.url)

interface Table {
  readonly table: { readonly name: string }
  readonly object_relationships?: readonly { readonly name: string; readonly using: ByColumn<string> }[]
  readonly array_relationships?: readonly {
    readonly name: string
    readonly using: ByColumn<{ readonly table: { readonly name: string }; readonly column: string }>
  }[]
  readonly select_permissions: readonly {
    readonly role: string
    readonly permission: { readonly columns: readonly string[]; readonly filter: Condition }
  }[]
}
interface ByColumn<T> {
  readonly foreign_key_constraint_on: T
}
type Condition = { readonly [name: string]: unknown }

/** A server with Hasura's schema of the metadata for its role `user`: other fields, arguments and operators are errors. */
export async function hasura(client: pg.Client, secret: string): Promise<FakePeer> {
  const { args } = JSON.parse(await readFile(METADATA, 'utf8')) as {
    args: { metadata: { sources: readonly [{ tables: readonly Table[] }] } }
  }
  const tables = new Map(args.metadata.sources[0].tables.map((table) => [table.table.name, table]))
  const { rows } = await client.query<{ table: string; column: string; type: string }>(
    `select table_name as table, column_name as column, data_type as type from information_schema.columns
     where table_schema = 'public'`,
  )
  const schema = schemaOf(tables, (table, column) => {
    const type = rows.find((row) => row.table === table && row.column === column)?.type ?? ''
    return { integer: 'Int', boolean: 'Boolean', text: 'String' }[type] ?? 'timestamptz'
  })
  return async ({ method, path, headers, body }) => {
    if (path === '/v1/version') return { status: 200, body: { version: 'v2.0.0', server_type: 'ce' } }
    if (method !== 'POST' || path !== '/v1/graphql') return { status: 404, body: {} }
    if (headers['x-hasura-admin-secret'] !== secret || headers['x-hasura-role'] !== 'user')
      return errors(['invalid x-hasura-admin-secret/x-hasura-access-key'])
    const { query, variables } = JSON.parse(body) as { query: string; variables: Record<string, unknown> }
    const document = parse(query)
    const wrong = validate(schema, document)
    if (wrong.length > 0) return errors(wrong.map(({ message }) => message))
    const user = String(headers['x-hasura-user-id'])
    const root = async (_: unknown, info: GraphQLResolveInfo) => {
      const [field] = info.fieldNodes as [FieldNode]
      const { rows } = await client.query<{ json: unknown }>(`select (${selectOf(tables, field, info, user)}) as json`)
      return rows[0]?.json
    }
    const fields = Object.keys(schema.getQueryType()?.getFields() ?? {})
    const rootValue = Object.fromEntries(
      fields.map((name) => [name, (args: unknown, _: unknown, info: GraphQLResolveInfo) => root(args, info)]),
    )
    const result = await execute({ schema, document, rootValue, variableValues: variables })
    return { status: 200, body: result }
  }
}

const errors = (messages: readonly string[]) => ({
  status: 200,
  body: { errors: messages.map((message) => ({ message })) },
})

function schemaOf(
  tables: ReadonlyMap<string, Table>,
  typeOf: (table: string, column: string) => string,
): GraphQLSchema {
  const lists = (name: string) =>
    `(where: ${name}_bool_exp, order_by: [${name}_order_by!], limit: Int, offset: Int): [${name}!]!`
  const types = [...tables].map(
    ([name, { object_relationships: one = [], array_relationships: many = [], ...rest }]) => {
      const columns = rest.select_permissions.find(({ role }) => role === 'user')?.permission.columns ?? []
      const to = one.map((relationship) => ({ name: relationship.name, type: relationship.name }))
      const from = many.map((relationship) => ({
        name: relationship.name,
        type: relationship.using.foreign_key_constraint_on.table.name,
      }))
      return `
      type ${name} {
        ${columns.map((column) => `${column}: ${typeOf(name, column)}!`).join('\n')}
        ${to.map((each) => `${each.name}: ${each.type}`).join('\n')}
        ${from.map((each) => `${each.name}${lists(each.type)}`).join('\n')}
      }
      input ${name}_bool_exp {
        _and: [${name}_bool_exp!] _or: [${name}_bool_exp!] _not: ${name}_bool_exp
        ${columns.map((column) => `${column}: ${typeOf(name, column)}_comparison_exp`).join('\n')}
        ${[...to, ...from].map((each) => `${each.name}: ${each.type}_bool_exp`).join('\n')}
      }
      input ${name}_order_by { ${columns.map((column) => `${column}: order_by`).join('\n')} }`
    },
  )
  const scalars = ['Int', 'Boolean', 'String', 'timestamptz'].map(
    (type) =>
      `input ${type}_comparison_exp { ${['_eq', '_gt', '_gte', '_lt', '_lte', '_neq'].map((op) => `${op}: ${type}`).join(' ')} }`,
  )
  const roots = [...tables.keys()].map((name) => `${name}${lists(name)} ${name}_by_pk(id: Int!): ${name}`)
  return buildSchema(
    `scalar timestamptz enum order_by { asc desc } ${scalars.join('\n')} ${types.join('\n')} type Query { ${roots.join('\n')} }`,
  )
}

const OPERATORS: Readonly<Record<string, string>> = { _eq: '=', _gt: '>', _gte: '>=', _lt: '<', _lte: '<=', _neq: '<>' }

/** SQL with one JSON value. Values are those of the bench: numbers and truth values. */
function selectOf(
  tables: ReadonlyMap<string, Table>,
  field: FieldNode,
  { variableValues }: GraphQLResolveInfo,
  user: string,
): string {
  return select(field.name.value.replace(/_by_pk$/, ''), field, 't', 'true', field.name.value.endsWith('_by_pk'))

  function select(name: string, node: FieldNode, alias: string, joined: string, single: boolean): string {
    const args = Object.fromEntries(
      (node.arguments ?? []).map(({ name, value }) => [name.value, valueFromASTUntyped(value, variableValues)]),
    )
    const table = tableOf(name)
    const columns = (node.selectionSet?.selections ?? []).flatMap((selection) => {
      if (selection.kind !== Kind.FIELD) return []
      const inner = selection.name.value
      const one = table.object_relationships?.find((each) => each.name === inner)
      const many = table.array_relationships?.find((each) => each.name === inner)?.using.foreign_key_constraint_on
      const value = one
        ? select(inner, selection, `${alias}x`, `${alias}x.id = ${alias}.${one.using.foreign_key_constraint_on}`, true)
        : many && select(many.table.name, selection, `${alias}x`, `${alias}x.${many.column} = ${alias}.id`, false)
      return [`'${selection.alias?.value ?? inner}', ${value === undefined ? `${alias}.${inner}` : `(${value})`}`]
    })
    const where = [
      joined,
      ...(args['id'] === undefined ? [] : [`${alias}.id = ${JSON.stringify(args['id'])}`]),
      conditionOf(name, alias, (args['where'] ?? {}) as Condition),
      conditionOf(name, alias, tableOf(name).select_permissions[0]?.permission.filter ?? {}),
    ]
    const order = [args['order_by'] ?? []]
      .flat()
      .flatMap((each) =>
        Object.entries(each as Record<string, string>).map(([column, direction]) => `${alias}.${column} ${direction}`),
      )
    const rows = `select json_build_object(${columns.join()}) as json from ${name} ${alias} where ${where.join(' and ')}
      ${order.length > 0 ? `order by ${order.join()}` : ''} ${args['limit'] === undefined ? '' : `limit ${JSON.stringify(args['limit'])}`}`
    return single ? rows : `select coalesce(json_agg(json), '[]') from (${rows}) ${alias}rows`
  }

  function conditionOf(name: string, alias: string, condition: Condition): string {
    const parts = Object.entries(condition).flatMap(([key, value]) => {
      if (key === '_or')
        return [`(${(value as Condition[]).map((each) => conditionOf(name, alias, each)).join(' or ')})`]
      if (tableOf(name).object_relationships?.some((each) => each.name === key)) {
        const inner = conditionOf(key, `${alias}x`, value as Condition)
        return [`exists (select from ${key} ${alias}x where ${alias}x.id = ${alias}.${key}_id and ${inner})`]
      }
      return Object.entries(value as Condition).map(
        ([operator, given]) =>
          `${alias}.${key} ${OPERATORS[operator] ?? ''} ${given === 'X-Hasura-User-Id' ? user : String(given)}`,
      )
    })
    return ['true', ...parts].join(' and ')
  }

  function tableOf(name: string): Table {
    const table = tables.get(name)
    if (table === undefined) throw new Error(`no table ${name}`)
    return table
  }
}
