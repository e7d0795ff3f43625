import { jwtVerify } from 'jose'
import type pg from 'pg'
import type { FakePeer } from './fake-peer.js'

/** A table that is selected, alone or inside another one. */
interface Node {
  readonly table: string
  readonly columns: readonly string[]
  readonly inside: readonly (Node & { readonly name: string; readonly inner: boolean })[]
}

const FOREIGN_KEYS = [
  { from: 'article', column: 'author_id', to: 'author' },
  { from: 'comment', column: 'article_id', to: 'article' },
]
const OPERATORS: Readonly<Record<string, string>> = { eq: '=', gt: '>', gte: '>=', lt: '<', lte: '<=', is: 'is' }

/**
 * PostgREST with the schema `public`: it verifies the token, takes the role in it, and tells the database who asks. It knows
 * columns, embedded tables by foreign key, conditions, orders and limits of each; of anything else it says what it is.
 */
export function postgrest(client: pg.Client, secret: string): FakePeer {
  return async ({ method, path, headers }) => {
    const server = { server: 'postgrest/13.0.0' }
    const url = new URL(path, 'http://peer')
    if (url.pathname === '/') return { status: 200, headers: server, body: {} }
    if (method !== 'GET') return { status: 405, body: {} }
    const token = headers.authorization?.replace('Bearer ', '') ?? ''
    const claims = await jwtVerify(token, Buffer.from(secret), { algorithms: ['HS256'] }).then(
      ({ payload }) => payload,
      () => undefined,
    )
    if (claims === undefined) return { status: 401, body: { code: 'PGRST301', message: 'JWT could not be verified' } }
    const { node, left } = readNode(url.pathname.slice(1), `${url.searchParams.get('select') ?? ''})`)
    if (left !== ')') throw new Error(`select: ${left}`)
    const given = [...url.searchParams].filter(([name]) => name !== 'select')
    const sql = sqlOf(node, '', 'true', given)
    if (given.length > 0) throw new Error(`${String(given[0])} is of no table that is selected`)
    await client.query('begin read only')
    try {
      await client.query(`select set_config('role', $1, true), set_config('request.jwt.claims', $2, true)`, [
        claims['role'],
        JSON.stringify(claims),
      ])
      const { rows } = await client.query<{ json: unknown }>(
        `select coalesce(json_agg(t), '[]') as json from (${sql}) t`,
      )
      return { status: 200, headers: server, body: rows[0]?.json }
    } finally {
      await client.query('rollback')
    }
  }
}

/** @param text what stands inside of the brackets of a table, and all that comes behind */
function readNode(table: string, text: string): { readonly node: Node; readonly left: string } {
  const columns: string[] = []
  const inside: Node['inside'][number][] = []
  for (let left = text; ;) {
    const [whole = '', alias, name = '', inner, open] = /^(?:(\w+):)?(\w+)(!inner)?(\()?/.exec(left) ?? []
    left = left.slice(whole.length)
    if (open === undefined) columns.push(name)
    else {
      const read = readNode(name, left)
      inside.push({ ...read.node, name: alias ?? name, inner: inner !== undefined })
      left = read.left.slice(1)
    }
    if (!left.startsWith(',')) return { node: { table, columns, inside }, left }
    left = left.slice(1)
  }
}

/** @param given parameters of the URL; those of this table and what is inside it are taken out */
function sqlOf({ table, columns, inside }: Node, path: string, joined: string, given: [string, string][]): string {
  const embedded = inside.map((node) => {
    const { name } = node
    const up = FOREIGN_KEYS.find(({ from, to }) => from === table && to === node.table)
    const down = FOREIGN_KEYS.find(({ from, to }) => to === table && from === node.table)
    if (!up && !down) throw new Error(`no relationship between ${table} and ${node.table}`)
    const on = up ? `${node.table}.id = ${table}.${up.column}` : `${node.table}.${down?.column} = ${table}.id`
    const sql = sqlOf(node, `${path}${name}.`, on, given)
    const value = up ? `(select to_json(x) from (${sql}) x)` : `(select coalesce(json_agg(x), '[]') from (${sql}) x)`
    return { column: `${value} as ${name}`, must: node.inner ? [`exists (${sql})`] : [] }
  })
  const where: string[] = [joined, ...embedded.flatMap(({ must }) => must)]
  let [order, limit] = ['', '']
  for (const parameter of given.filter(([name]) => name.startsWith(path) && !name.slice(path.length).includes('.'))) {
    given.splice(given.indexOf(parameter), 1)
    const name = parameter[0].slice(path.length)
    const [, operator = '', value = ''] = /^(\w+)\.(.*)$/.exec(parameter[1]) ?? []
    if (name === 'order')
      order = `order by ${parameter[1]
        .split(',')
        .map((each) => `${table}.${each.replace('.', ' ')}`)
        .join()}`
    else if (name === 'limit') limit = `limit ${Number(parameter[1])}`
    else if (OPERATORS[operator] === undefined) throw new Error(`unknown operator in ${parameter.join('=')}`)
    else where.push(`${table}.${name} ${OPERATORS[operator]} ${value}`)
  }
  const all = [...columns.map((column) => `${table}.${column}`), ...embedded.map(({ column }) => column)]
  return `select ${all.join()} from ${table} where ${where.join(' and ')} ${order} ${limit}`
}
