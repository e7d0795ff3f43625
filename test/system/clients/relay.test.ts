import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { buildClientSchema, getIntrospectionQuery, type IntrospectionQuery, printSchema } from 'graphql'
import t from 'tap'
import { patience } from '../../kit/patience.js'
import { loadPackage, packages } from '../packages.js'
import { BUYER, type Role, type Row, shop } from './shop.js'

interface Edge {
  readonly cursor: string
  readonly node: Row
}

const home = await packages(t, 'clients')
const { Environment, fetchQuery, Network, RecordSource, Store, commitMutation } = loadPackage(home, 'relay-runtime')
const here = await shop(t)
const url = here.url.replace('/v1/graphql', '/v1beta1/relay')

const QUERIES = `
graphql\`
  query clientsPageQuery($first: Int, $after: String, $last: Int, $before: String, $where: orders_bool_exp!) {
    orders_connection(first: $first, after: $after, last: $last, before: $before, where: $where, order_by: { placed_at: desc }) {
      edges {
        cursor
        node {
          id
          status
          placed_at
          customer {
            ...clients_customer
          }
        }
      }
      pageInfo {
        startCursor
        endCursor
        hasNextPage
        hasPreviousPage
      }
    }
  }
\`
graphql\`
  fragment clients_customer on customer {
    id
    name
  }
\`
graphql\`
  fragment clients_orders on customer
  @argumentDefinitions(count: { type: "Int", defaultValue: 2 }, cursor: { type: "String" })
  @refetchable(queryName: "clientsMoreQuery") {
    name
    orders_connection(first: $count, after: $cursor, order_by: { placed_at: asc }) @connection(key: "clients_orders_connection") {
      edges {
        node {
          placed_at
          items(order_by: { product_id: asc }) {
            quantity
            product {
              sku
            }
          }
        }
      }
    }
  }
\`
graphql\`
  query clientsCustomerQuery($where: customer_bool_exp!) {
    customer_connection(where: $where, first: 1) {
      edges {
        node {
          id
          ...clients_orders
        }
      }
    }
  }
\`
`
const MUTATION = `
graphql\`
  mutation clientsStarsMutation($id: Int!, $stars: smallint!) {
    update_review_by_pk(pk_columns: { id: $id }, _set: { stars: $stars }) {
      id
      stars
      product {
        name
      }
    }
  }
\`
`

t.test('compiled queries as admin, staff and customer', async (t) => {
  for (const role of ['admin', 'staff', 'customer'] as const) {
    const { ask } = clientOf(role, await compile(role))
    const where = { customer_id: { _eq: BUYER } }
    const all = await here.rows(`select status, placed_at, json_build_object('name', name) as customer
      from orders join customer c on c.id = customer_id where customer_id = ${BUYER} order by placed_at desc`)

    await t.test(`${role}: pages of a connection`, async (t) => {
      const seen: Edge[] = []
      for (let after: string | undefined, more = true; more;) {
        const { edges, pageInfo } = (await ask('clientsPageQuery', { where, first: 10, after })).orders_connection
        t.equal(pageInfo.hasPreviousPage, seen.length > 0)
        t.equal(pageInfo.startCursor, edges[0].cursor)
        t.equal(pageInfo.endCursor, edges.at(-1).cursor)
        seen.push(...edges)
        ;({ endCursor: after, hasNextPage: more } = pageInfo)
      }
      t.strictSame(
        seen.map(({ node }) => columns(node)),
        all,
        `${all.length} rows`,
      )
      const before = seen[20]?.cursor
      const back = (await ask('clientsPageQuery', { where, last: 7, before })).orders_connection
      t.strictSame(
        back.edges.map(({ node }: Edge) => columns(node)),
        all.slice(13, 20),
        'backwards',
      )
      t.match(back.pageInfo, { hasNextPage: true, hasPreviousPage: true })
    })

    await t.test(`${role}: the compiler's query of a node`, async (t) => {
      const found = await ask('clientsCustomerQuery', { where: { id: { _eq: BUYER } } })
      const { node } = found.customer_connection.edges[0]
      const orders = (limit: string) =>
        here.rows(`select placed_at, (select json_agg(json_build_object('quantity', quantity,
          'product', json_build_object('sku', sku)) order by product_id) from item join product p on p.id = product_id
          where order_id = o.id) as items
        from orders o where customer_id = ${BUYER} order by placed_at limit ${limit}`)
      const first = node.orders_connection
      t.strictSame(
        first.edges.map(({ node }: Edge) => columns(node)),
        await orders('2'),
      )
      const { id } = node
      const cursor = first.pageInfo.endCursor
      const next = await ask('clientsMoreQuery', { id, count: 3, cursor })
      t.equal(next.node.id, id, 'the same node by its id')
      t.strictSame(
        next.node.orders_connection.edges.map(({ node }: Edge) => columns(node)),
        await orders('3 offset 2'),
      )
    })
  }
})

t.test('a node that the role may not see', async (t) => {
  const [staff, buyer] = await Promise.all(
    (['staff', 'customer'] as const).map(async (role) => clientOf(role, await compile(role))),
  )
  const found = await staff?.ask('clientsCustomerQuery', { where: { id: { _neq: BUYER } } })
  const { id } = found.customer_connection.edges[0].node
  const hidden = await buyer?.ask('clientsMoreQuery', { id, count: 1 })

  t.strictSame(hidden, { node: null })
})

t.test('a mutation changes the store', async (t) => {
  const { environment, load } = clientOf('customer', await compile('customer', MUTATION))
  const id = await here.value(`select min(id) from review where customer_id = ${BUYER}`)
  const before = await here.value(`select stars from review where id = ${id}`)
  const variables = { id, stars: before === 5 ? 1 : 5 }
  const mutation = load('clientsStarsMutation')
  const answer: any = await new Promise((onCompleted, onError) => {
    commitMutation(environment, { mutation, variables, onCompleted, onError })
  })

  const { id: node, ...row } = answer.update_review_by_pk
  const [stored] = await here.rows(`select stars, json_build_object('name', name) as product
    from review r join product p on p.id = product_id where r.id = ${id}`)
  t.strictSame(columns(row), stored)
  t.equal(stored?.['stars'], variables.stars)
  t.equal(environment.getStore().getSource().get(node).stars, variables.stars, 'by its global id')
})

/** Compiles the documents against the schema of a role. @returns the folder of the compiled ones */
async function compile(role: Role, source = QUERIES): Promise<string> {
  const folder = await mkdtemp(join(home, 'relay-'))
  const { data } = await post(role, { query: getIntrospectionQuery() })
  await writeFile(join(folder, 'schema.graphql'), printSchema(buildClientSchema(data as IntrospectionQuery)))
  await writeFile(join(folder, 'clients.js'), source)
  await writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'commonjs' }))
  const config = {
    src: '.',
    schema: 'schema.graphql',
    language: 'javascript',
    artifactDirectory: 'compiled',
    eagerEsModules: false,
  }
  await mkdir(join(folder, 'compiled'))
  await writeFile(join(folder, 'relay.config.json'), JSON.stringify(config))
  await promisify(execFile)(process.execPath, [join(home, 'node_modules/relay-compiler/cli.js'), 'relay.config.json'], {
    cwd: folder,
    timeout: patience(60_000),
  })
  return join(folder, 'compiled')
}

async function post(role: Role, body: object): Promise<{ data: unknown }> {
  const headers = { ...here.headers(role), 'content-type': 'application/json' }
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
  return response.json() as Promise<{ data: unknown }>
}

/** An environment of Relay, and a way to run a compiled query in it that returns what the server answered. */
function clientOf(role: Role, compiled: string) {
  const answers: Row[] = []
  const network = Network.create(async ({ text }: { text: string }, variables: Row) => {
    const answer = await post(role, { query: text, variables })
    answers.push(answer.data as Row)
    return answer
  })
  const environment = new Environment({ network, store: new Store(new RecordSource()) })
  const load = (name: string) => loadPackage(home, join(compiled, `${name}.graphql.js`))
  const ask = async (name: string, variables: Row): Promise<any> => {
    await fetchQuery(environment, load(name), variables).toPromise()
    return answers.at(-1)
  }
  return { ask, environment, load }
}

/** A row without what the compiler adds to each: global ids and the names of types. */
const columns = (row: unknown): Row =>
  JSON.parse(
    JSON.stringify(row, (key, value: unknown) => (key === 'id' || key === '__typename' ? undefined : value)),
  ) as Row
