import { isObject } from '../../../core/json/value.js'
import type { As, TestServer } from '../server.js'
import type { Caller, Exp, Row, TableModel } from './model.js'
import type { Random } from './generate.js'
import type { Nested, Select } from './requests.js'

/** What came out of a door: an answer as the JSON query API would give it, a refusal, or something that should not be. */
export type Out = { readonly answer: unknown } | 'refused' | { readonly wrong: string }

export interface Case {
  readonly type: string
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly args: any
  readonly table: TableModel
  readonly caller: Caller
}
/** Undefined: this door has no way to ask for that. */
type Door = (server: TestServer, test: Case, as: As, random: Random) => Promise<Out> | undefined

const read = (status: number, text: string, body: unknown): Out => {
  if (status === 200) return { answer: body }
  return status >= 400 && status < 500 ? 'refused' : { wrong: text }
}

export const DOORS: Readonly<Record<string, Door>> = {
  query: (server, { type, args }, as) => query(server, type, args, as),
  async bulk(server, { type, args }, as) {
    const { status, text, body } = await server.query('bulk', [{ type, args }], as)
    return read(status, text, status === 200 ? (body as unknown[])[0] : body)
  },
  template: (server, test, as, random) => (changesRelated(test) ? undefined : template(server, test, as, random)),
  alpha: (server, test, as, random) => graphql(server, '/v1alpha1/graphql', 'alpha', test, as, random),
  modern: (server, test, as, random) => graphql(server, '/v1/graphql', 'modern', test, as, random),
  relay,
  /** The function `all_<table>` gives every row of the table. */
  function: (server, test, as, random) =>
    test.type === 'select' ? graphql(server, '/v1/graphql', 'modern', test, as, random, 'all_') : undefined,
  call(server, { type, args, table }, as) {
    if (type !== 'select' || 'after' in args) return undefined
    const { table: _, ...rest } = args
    return query(server, 'call', { function: `all_${table.name}`, ...rest }, as)
  },
}

async function query(server: TestServer, type: string, args: object, as: As): Promise<Out> {
  const { status, text, body } = await server.query(type, args, as)
  return read(status, text, body)
}

/** Only the JSON API changes related rows in an update. */
const changesRelated = ({ type, args }: Case): boolean =>
  type === 'update' && Object.values(args.$set ?? {}).some(isObject)

async function template(server: TestServer, test: Case, as: As, random: Random): Promise<Out> {
  const { query, values } = templated(test)
  await server.must('create_query_template', { name: 'oracle', template: query })
  try {
    const answer = random.chance(50)
      ? await server.query('execute_query_template', { name: 'oracle', args: values }, as)
      : await server.fetch('/v1/template/oracle', { method: 'POST', body: JSON.stringify(values) }, as)
    return read(answer.status, answer.text, answer.body)
  } finally {
    await server.must('drop_query_template', { name: 'oracle' })
  }
}

/** Every value of the conditions, the limit and the rows as a parameter. */
function templated({ type, args }: Case): { query: object; values: Record<string, unknown> } {
  const values: Record<string, unknown> = {}
  const param = (value: unknown) => {
    const name = `p${Object.keys(values).length}`
    values[name] = value
    return { param: name }
  }
  const exp = (value: Exp): Exp =>
    Object.fromEntries(
      Object.entries(value).map(([key, inner]) => {
        if (key === '$and' || key === '$or') return [key, (inner as Exp[]).map(exp)]
        if (key === '$is_null' || key.startsWith('$c')) return [key, inner]
        if (key.startsWith('$') && key !== '$not') return [key, param(inner)]
        return [key, isObject(inner) ? exp(inner) : param(inner)]
      }),
    )
  const mapped = (row: Row) => Object.fromEntries(Object.entries(row).map(([column, value]) => [column, param(value)]))
  const related = (row: Row): Record<string, unknown> =>
    Object.fromEntries(
      Object.entries(row as Record<string, unknown>).map(([key, value]) => {
        if (!isObject(value)) return [key, param(value)]
        const { data } = value
        return [key, { data: isObject(data) ? mapped(data as Row) : param(data) }]
      }),
    )
  const select = (from: Record<string, unknown>): Record<string, unknown> => ({
    ...from,
    ...('where' in from ? { where: exp(from['where'] as Exp) } : {}),
    ...('limit' in from ? { limit: param(from['limit']) } : {}),
    ...('after' in from ? { after: mapped(from['after'] as Row) } : {}),
    ...('columns' in from
      ? { columns: (from['columns'] as unknown[]).map((column) => (isObject(column) ? select(column) : column)) }
      : {}),
  })
  const filled = select(args as Record<string, unknown>)
  if (type === 'insert') {
    const objects = filled['objects'] as Row[]
    filled['objects'] = objects.some((row) => Object.values(row).some(isObject)) ? objects.map(related) : param(objects)
  }
  if ('$set' in filled) {
    const set = filled['$set'] as Row
    filled['$set'] = mapped(set)
  }
  return { query: { type, args: filled }, values }
}

/** GraphQL has no way to say it. */
class Unsayable extends Error {}

function graphql(
  server: TestServer,
  path: string,
  dialect: 'alpha' | 'modern',
  test: Case,
  as: As,
  random: Random,
  root = '',
): Promise<Out> | undefined {
  let document: { text: string; variables: Record<string, unknown> }
  try {
    document = documentOf(test, dialect, random, root)
  } catch (error) {
    if (error instanceof Unsayable) return undefined
    throw error
  }
  return send(server, path, document, test, as)
}

/** Reads page by page, unless a limit says how many rows there are. */
function relay(server: TestServer, test: Case, as: As, random: Random): Promise<Out> | undefined {
  if (test.type !== 'select') return undefined
  const { limit } = test.table.permissions[test.caller.role]?.select ?? {}
  const isWhole = test.args.limit !== undefined || (limit !== undefined && test.caller.role !== 'admin')
  let document: { text: string; variables: Record<string, unknown> }
  try {
    document = documentOf(test, 'modern', random, '', isWhole ? 'whole' : 'pages')
  } catch (error) {
    if (error instanceof Unsayable) return undefined
    throw error
  }
  return readPages(server, document, test, as)
}

async function readPages(
  server: TestServer,
  { text, variables }: { text: string; variables: Record<string, unknown> },
  test: Case,
  as: As,
): Promise<Out> {
  const rows: unknown[] = []
  for (let cursor: string | undefined; ;) {
    const out = await send(server, '/v1beta1/relay', { text, variables: { ...variables, cursor } }, test, as)
    if (out === 'refused' || 'wrong' in out) return out
    const page = out.answer as { pageInfo: { hasNextPage: boolean; endCursor: string } }
    rows.push(...(ofConnections(page) as unknown[]))
    if (!page.pageInfo.hasNextPage || !text.includes('$cursor')) return { answer: rows }
    cursor = page.pageInfo.endCursor
  }
}

/** Makes rows of connections, and keys of global ids. */
function ofConnections(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(ofConnections)
  if (!isObject(value)) return value
  if ('edges' in value) return (value['edges'] as { node: unknown }[]).map(({ node }) => ofConnections(node))
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [
      key,
      key === 'id' ? JSON.parse(Buffer.from(each as string, 'base64').toString())[3] : ofConnections(each),
    ]),
  )
}

async function send(
  server: TestServer,
  path: string,
  { text: query, variables }: { text: string; variables: Record<string, unknown> },
  { type }: Case,
  as: As,
): Promise<Out> {
  const { text, body, status } = await server.fetch(
    path,
    { method: 'POST', body: JSON.stringify({ query, variables }) },
    as,
  )
  if (body?.data) return { answer: type === 'count' ? { count: body.data.root.aggregate.count } : body.data.root }
  const code = body?.errors?.[0]?.extensions?.code as string | undefined
  const fault = status >= 500 || code === undefined || code === 'unexpected' || code === 'compile-failed'
  return fault ? { wrong: `${query} ${JSON.stringify(variables)}: ${text}` } : 'refused'
}

/** @param relay whether to read connections, and whether the outermost one whole or in pages */
function documentOf(
  { type, args, table, caller }: Case,
  dialect: 'alpha' | 'modern',
  random: Random,
  root: string,
  relay?: 'whole' | 'pages',
) {
  const variables: Record<string, unknown> = {}
  const declared: string[] = []
  const { name } = table
  const say = (value: unknown, graphqlType: string, enums = false): string => {
    if (random.chance(50)) return literal(value, enums)
    const variable = `v${declared.length}`
    declared.push(`$${variable}: ${graphqlType}`)
    variables[variable] = value
    return `$${variable}`
  }
  const where = (exp: Exp, of: string) => say(condition(exp), `${of}_bool_exp!`)
  const rows = (from: Partial<Select>, of: TableModel | undefined, isConnection = false): string => {
    if (from.after || (isConnection && from.offset !== undefined) || (from.distinct_on && dialect === 'alpha'))
      throw new Unsayable()
    const isPaged = isConnection && of !== undefined && relay === 'pages'
    const parts = [
      ...(isPaged ? [`first: ${1 + random.below(3)}, after: $cursor`] : []),
      ...(from.where ? [`where: ${of ? where(from.where, of.name) : literal(condition(from.where))}`] : []),
      ...(from.order_by?.length
        ? [`order_by: ${dialect === 'alpha' ? literal(from.order_by) : literal(from.order_by.map(orderObject), true)}`]
        : []),
      ...(from.distinct_on ? [`distinct_on: ${literal(from.distinct_on, true)}`] : []),
      ...(from.limit === undefined ? [] : [`${isConnection ? 'first' : 'limit'}: ${say(from.limit, 'Int')}`]),
      ...(from.offset === undefined ? [] : [`offset: ${say(from.offset, 'Int')}`]),
    ]
    return parts.length > 0 ? `(${parts.join(', ')})` : ''
  }
  const fields = (columns: readonly (string | Nested)[]): string => columns.map(field).join(' ')
  const field = (column: string | Nested): string => {
    if (typeof column === 'string') return column
    const { name: many, offset, columns } = column
    const isConnection = relay && column.order_by && offset === undefined && random.chance(50)
    if (!isConnection) return `${many}${rows(column, undefined)} { ${fields(columns)} }`
    return `${many}: ${many}_connection${rows(column, undefined, true)} { edges { node { ${fields(columns)} } } }`
  }
  const written = (returning: readonly string[]) => `{ affected_rows returning { ${returning.join(' ')} } }`
  const done = (kind: 'query' | 'mutation', root: string) => ({
    text: `${kind}${declared.length > 0 ? ` q(${declared.join(', ')})` : ''} { root: ${root} }`,
    variables,
  })

  switch (type) {
    case 'select': {
      if ((args as Select).columns.length === 0 || 'as' in Object(args.columns.at(-1)) || 'group_by' in args)
        throw new Unsayable()
      if (relay) {
        if (relay === 'pages') declared.push('$cursor: String')
        const page = `{ pageInfo { hasNextPage endCursor } edges { node { ${fields((args as Select).columns)} } } }`
        return done('query', `${name}_connection${rows(args as Select, table, true)} ${page}`)
      }
      return done('query', `${root}${name}${rows(args as Select, table)} { ${fields((args as Select).columns)} }`)
    }
    case 'call': {
      if (dialect === 'alpha') throw new Unsayable()
      const { function: called, arguments: given, columns, limit } = args
      const parts = [`args: ${literal(given)}`, 'order_by: {id: desc}', `limit: ${say(limit, 'Int')}`]
      return done('query', `${called}(${parts.join(', ')}) { ${columns.join(' ')} }`)
    }
    case 'count': {
      // Another permission decides about aggregates.
      if (dialect === 'alpha' || caller.role !== 'admin' || args.distinct.length > 0) throw new Unsayable()
      return done('query', `${name}_aggregate(where: ${where(args.where as Exp, name)}) { aggregate { count } }`)
    }
    case 'update': {
      if (changesRelated({ type, args, table, caller })) throw new Unsayable()
      const inc = args.$inc as Row | undefined
      if (inc && dialect === 'alpha') throw new Unsayable()
      const input = dialect === 'alpha' ? `${name}_input!` : inc ? `${name}_inc_input` : `${name}_set_input`
      const set = `${inc ? '_inc' : '_set'}: ${say(inc ?? args.$set, input)}`
      return done(
        'mutation',
        `update_${name}(where: ${where(args.where as Exp, name)}, ${set}) ${written(args.returning)}`,
      )
    }
    case 'delete':
      return done('mutation', `delete_${name}(where: ${where(args.where as Exp, name)}) ${written(args.returning)}`)
    default: {
      if (dialect === 'alpha' && (args.objects as Row[]).some((row) => Object.values(row).some(isObject)))
        throw new Unsayable()
      const objects = `objects: ${say(args.objects, `[${name}_${dialect === 'alpha' ? 'input' : 'insert_input'}!]!`)}`
      const action = args.on_conflict?.action as 'ignore' | 'update' | undefined
      if (action && dialect === 'alpha') throw new Unsayable()
      const may = caller.role === 'admin' ? undefined : table.permissions[caller.role]?.update?.columns
      const keys = Object.keys(args.objects[0] as Row).filter((key) => key !== 'id' && (may?.includes(key) ?? true))
      // Without the permission to update, the newer dialect offers no conflict at all.
      if (action && caller.role !== 'admin' && !table.permissions[caller.role]?.update) throw new Unsayable()
      const columns = action === 'update' ? `, update_columns: [${keys.join(', ')}]` : ''
      const conflict = action ? `, on_conflict: {constraint: ${name}_pkey${columns}}` : ''
      return done('mutation', `insert_${name}(${objects}${conflict}) ${written(args.returning)}`)
    }
  }
}

function condition(exp: Exp): Exp {
  return Object.fromEntries(
    Object.entries(exp).map(([key, value]) => {
      switch (key) {
        case '$and':
        case '$or':
          return [`_${key.slice(1)}`, (value as Exp[]).map(condition)]
        case '$not':
          return ['_not', condition(value as Exp)]
      }
      if (!isObject(value)) return [key, operator('$eq', value)]
      const names = Object.keys(value)
      if (
        names.length === 0 ||
        !names.every((name) => name.startsWith('$') && name !== '$and' && name !== '$or' && name !== '$not')
      ) {
        return [key, condition(value)]
      }
      const all = names.map((name) => operator(name, value[name]))
      return [key, Object.assign({}, ...all) as Exp]
    }),
  )
}

function operator(name: string, value: unknown): Exp {
  if (name.startsWith('$c') && name !== '$contains') throw new Unsayable()
  if (value === null && name === '$eq') return { _is_null: true }
  if (value === null && (name === '$ne' || name === '$neq')) return { _is_null: false }
  if (value === null || (Array.isArray(value) && value.includes(null))) throw new Unsayable()
  return { [`_${name.slice(1)}`]: value }
}

function orderObject(order: string): object {
  const way = order.startsWith('-') ? 'desc' : 'asc'
  const [first, second] = order.replace(/^[+-]/, '').split('.') as [string, string?]
  return { [first]: second === undefined ? way : { [second]: way } }
}

/** @param enums whether strings are names of enum values */
function literal(value: unknown, enums = false): string {
  if (Array.isArray(value)) return `[${value.map((each) => literal(each, enums)).join(', ')}]`
  if (isObject(value))
    return `{${Object.entries(value)
      .map(([key, each]) => `${key}: ${literal(each, enums)}`)
      .join(', ')}}`
  return enums && typeof value === 'string' ? value : JSON.stringify(value)
}
