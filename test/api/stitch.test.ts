import {
  buildClientSchema,
  buildSchema,
  getIntrospectionQuery,
  graphql,
  type IntrospectionQuery,
  printSchema,
} from 'graphql'
import { tmpdir } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import tap from 'tap'
import { wantsDatabase } from '../../core/cli/builtins.js'
import { ADMIN_SECRET, testServer } from '../kit/server.js'
import { type Got, schemaRemote, stitchServer, stubRemote, weatherRemote } from '../kit/stitch.js'

const SQL = `
create table person (id serial primary key, name text not null, city text, secret text, big bigint, price numeric(10, 2), data jsonb);
create table pet (id serial primary key, person_id int not null references person, name text not null);
insert into person (name, city, big, price, data)
  select 'p' || n, (array['Berlin', 'Lyon', 'Pune'])[1 + n % 3], 9007199254740993, 1.10, '{"n": 12345678901234567890}'
  from generate_series(1, 60) n;
insert into person (name) values ('nowhere');
insert into pet (person_id, name) select 1 + n % 3, 'pet' || n from generate_series(1, 6) n;`

const ADMIN = { 'x-service-admin-secret': ADMIN_SECRET }
const AS_SHOP = ['authorization', 'x-service-admin-secret', 'x-service-role', 'x-service-user-id']
const BY_LIST = {
  type: 'person',
  field: 'weather',
  from: 'weather',
  query: 'weathers',
  arguments: { city_names: '$city' },
  batch: { argument: 'city_names', key: 'city' },
}
const BY_ONE = {
  type: 'person',
  field: 'sky',
  from: 'weather',
  query: 'weather',
  arguments: { city_name: '$city' },
}

tap.test('a Rowhouse and a weather service as one', async (t) => {
  const shop = await testServer(t)
  await shop.must('run_sql', { sql: SQL })
  await shop.must('bulk', [
    { type: 'track_table', args: 'person' },
    { type: 'track_table', args: 'pet' },
    {
      type: 'create_array_relationship',
      args: {
        table: 'person',
        name: 'pets',
        using: { foreign_key_constraint_on: { table: 'pet', column: 'person_id' } },
      },
    },
    {
      type: 'create_select_permission',
      args: {
        table: 'person',
        role: 'user',
        permission: { columns: ['id', 'name', 'city'], filter: { id: 'X-SERVICE-USER-ID' } },
      },
    },
    {
      type: 'create_select_permission',
      args: { table: 'person', role: 'clerk', permission: { columns: ['id', 'name'], filter: {} } },
    },
  ])
  const weather = await weatherRemote(t)
  // Between the two, to see what reaches the shop.
  const toShop: Got[] = []
  let delayed = ''
  const spy = await stubRemote(t, async (got, res) => {
    toShop.push(got)
    if (delayed !== '' && got.body.includes(delayed)) await sleep(200)
    const headers = Object.fromEntries(
      Object.entries(got.headers).filter(([name]) => name.startsWith('x-service') || name === 'authorization'),
    ) as Record<string, string>
    const answer = await fetch(`${shop.url}/v1/graphql`, { method: 'POST', headers, body: got.body })
    res.end(await answer.text())
  })
  const schemas = {
    shop: { url: spy.url, schemaHeaders: ADMIN, forwardHeaders: AS_SHOP },
    weather: { url: weather.url, forwardHeaders: [] },
  }
  const stitched = await stitchServer(t, { schemas, extensions: [BY_LIST, BY_ONE] })
  const ask = async (query: string, variables = {}, headers: Record<string, string> = ADMIN) => {
    toShop.length = 0
    weather.got.length = 0
    return stitched.ask(query, variables, headers)
  }

  await t.test('a row has the answer of the other schema to one of its columns', async (t) => {
    const { status, body } = await ask('{ person(limit: 2) { name city weather { city temperature sky } } }')

    t.equal(status, 200)
    t.same(body, {
      data: {
        person: [
          { name: 'p1', city: 'Lyon', weather: { city: 'Lyon', temperature: 12.1, sky: 'CLOUDS' } },
          { name: 'p2', city: 'Pune', weather: { city: 'Pune', temperature: 4.6, sky: 'RAIN' } },
        ],
      },
    })
  })

  await t.test('the column is fetched although nobody selected it, and is not in the answer', async (t) => {
    const { body } = await ask('{ person(limit: 1) { weather { sky } } }')

    t.same(body, { data: { person: [{ weather: { sky: 'CLOUDS' } }] } })
  })

  await t.test('all rows are one request, by a list argument or by aliases', async (t) => {
    const list = await ask('{ person { weather { sky } } }')
    t.equal(list.body.data.person.length, 61)
    t.same([toShop.length, weather.got.length], [1, 1])
    t.same(JSON.parse(weather.got[0]!.body).variables, { st0: ['Lyon', 'Pune', 'Berlin'] })
    const aliases = await ask('{ person { sky { sky } } }')
    t.equal(aliases.body.data.person.length, 61)
    t.same([toShop.length, weather.got.length], [1, 1])
    t.same(JSON.parse(weather.got[0]!.body).variables, { st0: 'Lyon', st1: 'Pune', st2: 'Berlin' })
  })

  await t.test('a column that is null asks nothing', async (t) => {
    const { body } = await ask('{ person(where: {city: {_is_null: true}}) { name weather { sky } sky { sky } } }')

    t.same(body, { data: { person: [{ name: 'nowhere', weather: null, sky: null }] } })
    t.equal(weather.got.length, 0)
  })

  await t.test('root fields of one schema are one request, of several one each', async (t) => {
    const { body } = await ask(
      '{ a: person(limit: 1) { name } b: pet(limit: 1) { name } weather(city_name: "X") { city } }',
    )

    t.same(body, { data: { a: [{ name: 'p1' }], b: [{ name: 'pet1' }], weather: { city: 'X' } } })
    t.same([toShop.length, weather.got.length], [1, 1])
  })

  await t.test('variables, aliases, fragments and directives mean what they mean in one schema', async (t) => {
    const { body } = await ask(
      `query Q($n: Int = 5, $where: person_bool_exp, $no: Boolean!, $city: String!) {
        people: person(limit: $n, where: $where) { ...Who st_city: name w: weather { ...Sky } ... on person { pets { toy: name __typename } } }
        here: weather(city_name: $city) { ...Sky }
      }
      fragment Who on person { called: name city @skip(if: $no) weather @include(if: $no) { temperature } __typename }
      fragment Sky on Weather { sky }`,
      { n: 1, where: { id: { _eq: 3 } }, no: false, city: 'Oslo' },
    )

    t.same(body, {
      data: {
        people: [
          {
            called: 'p3',
            city: 'Berlin',
            __typename: 'person',
            st_city: 'p3',
            w: { sky: 'SNOW' },
            pets: [
              { toy: 'pet2', __typename: 'pet' },
              { toy: 'pet5', __typename: 'pet' },
            ],
          },
        ],
        here: { sky: 'CLOUDS' },
      },
    })
    t.notMatch(toShop[0]!.body, /fragment|\.\.\.|skip|include/, 'an endpoint without fragments could have answered')
  })

  await t.test('numbers keep their digits, both ways', async (t) => {
    const { text } = await ask('{ person(limit: 1, where: {big: {_eq: 9007199254740993}}) { big price data } }')
    t.equal(text, '{"data":{"person":[{"big":9007199254740993,"price":1.10,"data":{"n":12345678901234567890}}]}}')
    const answer = await stitched.fetch('/v1/stitch', {
      method: 'POST',
      headers: ADMIN,
      body: '{"query": "query ($big: bigint) { person(limit: 1, where: {big: {_eq: $big}}) { id } }", "variables": {"big": 9007199254740993}}',
    })
    t.same(answer.body, { data: { person: [{ id: 1 }] } })
    t.match(toShop.at(-1)?.body, '{"big":9007199254740993}')
  })

  await t.test('mutations run one after the other, and their rows are extended too', async (t) => {
    const { body } = await ask(`mutation {
      a: insert_person(objects: [{name: "new", city: "Pune"}]) { returning { name weather { sky } } }
      b: delete_person(where: {name: {_eq: "new"}}) { affected_rows }
    }`)

    t.same(body, { data: { a: { returning: [{ name: 'new', weather: { sky: 'RAIN' } }] }, b: { affected_rows: 1 } } })
    t.same(
      toShop.map(({ body: sent }) => /insert|delete/.exec(sent)?.[0]),
      ['insert', 'delete'],
    )
    for (const accept of ['application/json', 'application/graphql-response+json', '*/*']) {
      const headers = { ...ADMIN, accept }
      const get = await stitched.fetch('/v1/stitch?query=mutation{delete_person(where:{}){affected_rows}}', { headers })
      const body = { data: undefined, errors: [{ message: /POST/, extensions: { code: 'method-not-allowed' } }] }
      t.match(get, { status: 405, body }, accept)
      t.equal(get.headers.get('allow'), 'POST')
    }
  })

  await t.test('a caller sees what the schema shows to its role', async (t) => {
    const user = { ...ADMIN, 'x-service-role': 'user', 'x-service-user-id': '2' }
    const own = await ask('{ person { name weather { sky } } }', {}, user)
    t.same(own.body, { data: { person: [{ name: 'p2', weather: { sky: 'RAIN' } }] } })
    const secret = await ask('{ person { secret } weather(city_name: "X") { city } }', {}, user)
    t.match(secret.body, {
      data: { person: null, weather: { city: 'X' } },
      errors: [{ path: ['person'], message: /secret/, extensions: { code: 'validation-failed', schema: 'shop' } }],
    })
    const clerk = await ask('{ person { weather { sky } } }', {}, { ...ADMIN, 'x-service-role': 'clerk' })
    t.match(clerk.body, { data: { person: null }, errors: [{ message: /city/ }] })
    const nobody = await ask('{ person { name } }', {}, {})
    t.match(nobody.body, { data: { person: null }, errors: [{ extensions: { schema: 'shop' } }] })
  })

  await t.test('no header reaches a schema but those that the configuration lists', async (t) => {
    await ask('{ person(limit: 1) { name } }', {}, { ...ADMIN, cookie: 'a=b', 'x-request-id': 'mine', 'x-other': '1' })

    t.same(Object.keys(toShop[0]!.headers).toSorted(), [
      'accept',
      'connection',
      'content-length',
      'content-type',
      'host',
      'user-agent',
      'x-service-admin-secret',
    ])
  })

  await t.test('introspection shows one schema', async (t) => {
    const { body } = await ask(getIntrospectionQuery())
    const sdl = printSchema(buildClientSchema(body.data as IntrospectionQuery))

    t.match(sdl, /type person \{[^}]*weather: Weather\n[^}]*sky: Weather\n/)
    t.match(sdl, /type Query \{[^}]*person\([^}]*weathers\(/)
    t.equal(toShop.length + weather.got.length, 0)
  })

  await t.test('GET, media types, and what is no request are answered as by /v1/graphql', async (t) => {
    const get = await stitched.fetch('/v1/stitch?query={weather(city_name:"X"){city}}')
    t.match(get, { status: 200, body: { data: { weather: { city: 'X' } } } })
    const browser = await stitched.fetch('/v1/stitch', { headers: { accept: 'text/html' } })
    t.match(browser.text, /graphiql\.js/)
    for (const part of ['graphiql.js', 'graphiql.css']) {
      t.equal((await stitched.fetch(`/v1/stitch/assets/${part}`)).status, 200, part)
    }
    const wrong = await ask('{ weather(city_name: 1) { nothing } }')
    t.match(wrong, {
      status: 200,
      body: {
        errors: [{}, { message: /nothing/, locations: [{ line: 1 }], extensions: { code: 'validation-failed' } }],
      },
    })
    t.notOk('data' in wrong.body)
    const post = (body: string, accept: string) =>
      stitched.fetch('/v1/stitch', { method: 'POST', body, headers: { ...ADMIN, accept } })
    const newer = await post('{"query": "{ nothing }"}', 'application/graphql-response+json')
    t.match(newer, { status: 400, body: { errors: [{ extensions: { code: 'validation-failed' } }] } })
    t.match(await post('{"query": 1}', 'application/json'), { status: 400, body: { errors: [{}] } })
    t.match(await post('{', 'application/json'), {
      status: 400,
      body: { errors: [{ extensions: { code: 'invalid-json' } }] },
    })
    t.match(await post('{"query": "query ($a: Int!) { person(limit: $a) { id } }"}', 'application/json'), {
      status: 200,
      body: { errors: [{ message: /\$a/ }] },
    })
    t.equal((await post('{}', 'text/css')).status, 406)
  })

  await t.test('the same through the endpoint that has no fragments and no introspection', async (t) => {
    const alpha = {
      url: `${shop.url}/v1alpha1/graphql`,
      schemaUrl: `${shop.url}/v1alpha1/graphql/schema`,
      schemaHeaders: ADMIN,
      forwardHeaders: AS_SHOP,
    }
    const older = await stitchServer(t, { schemas: { ...schemas, shop: alpha }, extensions: [BY_LIST] })

    const query =
      '{ person(order_by: ["+id"], limit: 1) { ...P } pet(limit: 0) { __typename } } fragment P on person { weather { city } __typename }'
    t.same((await older.ask(query, {}, ADMIN)).body, {
      data: { person: [{ weather: { city: 'Lyon' }, __typename: 'person' }], pet: [] },
    })
    const denied = await older.ask(
      '{ person { big } }',
      {},
      { ...ADMIN, 'x-service-role': 'user', 'x-service-user-id': '1' },
    )
    t.match(denied.body, {
      data: { person: null },
      errors: [{ message: /big/, extensions: { code: 'validation-failed' } }],
    })
  })

  await t.test('the other way round: a type of the other schema extended by rows', async (t) => {
    const cities = {
      type: 'Weather',
      field: 'people',
      from: 'shop',
      query: 'person',
      arguments: { where: { city: { _eq: '$city' } }, order_by: [{ id: 'asc' }] },
      many: true,
    }
    const inList = {
      ...cities,
      field: 'all',
      arguments: { where: { city: { _in: '$city' } }, order_by: [{ id: 'asc' }] },
      batch: { argument: 'where.city._in', key: 'city' },
    }
    const both = await stitchServer(t, { schemas, extensions: [BY_LIST, cities, inList] })
    toShop.length = 0

    const { body } = await both.ask(
      '{ weathers(city_names: ["Lyon", "Pune", "Oslo"]) { city people(limit: 2) { name weather { sky } } all { id } } }',
      {},
      ADMIN,
    )
    t.match(body.data.weathers, [
      { city: 'Lyon', people: [{ name: 'p1', weather: { sky: 'CLOUDS' } }, { name: 'p4' }] },
      { city: 'Pune', people: [{ name: 'p2' }, { name: 'p5' }] },
      { city: 'Oslo', people: [], all: [] },
    ])
    t.same(
      body.data.weathers.map(({ all }: { all: object[] }) => all.length),
      [20, 20, 0],
    )
    t.equal(toShop.length, 1, 'both fields of all rows are one request')

    // Rows of the same place that come at different times are not mixed up.
    const one = { ...schemas, shop: { ...schemas.shop, maxFields: 1 } }
    const slow = await stitchServer(t, { schemas: one, extensions: [BY_LIST, cities] })
    delayed = '"Pune"'
    const late = await slow.ask(
      '{ weathers(city_names: ["Lyon", "Pune"]) { people(limit: 1) { weather { city } } } }',
      {},
      ADMIN,
    )
    t.same(late.body, {
      data: {
        weathers: [{ people: [{ weather: { city: 'Lyon' } }] }, { people: [{ weather: { city: 'Pune' } }] }],
      },
    })
  })
})

tap.test('types of two schemas with the same names', async (t) => {
  const sdl = `
    interface Named { name: String! }
    type User implements Named { id: ID!, name: String!, kind: Kind!, friend: Named }
    type Bot implements Named { name: String!, made: Int }
    union Any = User | Bot
    enum Kind { A B }
    input Filter { kind: Kind }
    type Query { user(id: ID, filter: Filter): User, any: [Any], me: Query }`
  const root = (where: string) => ({
    user: ({ id = '1', filter }: { id?: string; filter?: { kind?: string } }) => ({
      id,
      name: `${where} ${filter?.kind ?? ''}`,
      kind: 'A',
      friend: { __typename: 'Bot', name: 'bot', made: 1 },
    }),
    any: () => [
      { __typename: 'User', id: 1, name: 'u' },
      { __typename: 'Bot', name: 'b', made: 2 },
    ],
  })
  const [a, b] = [await schemaRemote(t, sdl, root('a')), await schemaRemote(t, sdl, root('b'))]

  await t.test('are refused, with every name', async (t) => {
    const error = await failure(stitchServer(t, { schemas: { a: { url: a.url }, b: { url: b.url } } }))

    t.match(error, /\.schemas\.b: its type "User" is also one of "a"; give one of them a "prefix"/)
    t.match(error, /its query field "user" is also one of "a"/)
    t.match(error, /its type "Query" is also one of "the merged schema"/)
  })

  await t.test('live together with a prefix', async (t) => {
    const friend = { type: 'a_User', field: 'other', from: 'b', query: 'user', arguments: { id: '$id' } }
    const stitched = await stitchServer(t, {
      schemas: { a: { url: a.url, prefix: 'a_' }, b: { url: b.url, prefix: 'b_' } },
      extensions: [friend],
    })

    const { body } = await stitched.ask(
      `query ($filter: b_Filter, $kind: a_Kind = B) {
        a_user(filter: {kind: $kind}) { __typename name friend { __typename name ... on a_Bot { made } ... on a_User { other { id } } } other(filter: $filter) { __typename id name } }
        b_any { __typename ... on b_User { id } ...B }
      } fragment B on b_Bot { made }`,
      { filter: { kind: 'A' } },
    )
    t.same(body, {
      data: {
        a_user: {
          __typename: 'a_User',
          name: 'a B',
          friend: { __typename: 'a_Bot', name: 'bot', made: 1 },
          other: { __typename: 'b_User', id: '1', name: 'b A' },
        },
        b_any: [
          { __typename: 'b_User', id: '1' },
          { __typename: 'b_Bot', made: 2 },
        ],
      },
    })
  })
})

/** Everything that a schema may say of values beside their types. */
const DETAILED = `
  scalar Stamp @specifiedBy(url: "https://example.com/stamp")
  enum Size { SMALL LARGE HUGE @deprecated(reason: "too big") }
  input Box { size: Size = LARGE, weight: Int @deprecated(reason: "use size"), label: String! = "none", inner: Box }
  input One @oneOf { id: Int name: String @deprecated(reason: "use id") }
  interface Thing { name(upper: Boolean @deprecated): String }
  type Book implements Thing { name(upper: Boolean @deprecated): String, pages: Int @deprecated(reason: "unknown") }
  type Query {
    find(text: String, old: Int @deprecated(reason: "use text"), box: Box = {size: SMALL}, sizes: [Size!] = [SMALL], must: Int! = 5): String
    one(of: One!): String
    thing: Thing
    gone: String @deprecated
    at: Stamp
  }
  type Mutation { put(box: Box, old: [Box!] @deprecated): String }`
const SAID = (args: object) => JSON.stringify(args)
const DETAILS = {
  find: SAID,
  one: SAID,
  put: SAID,
  thing: { __typename: 'Book', name: SAID, pages: 7 },
  gone: 'still here',
  at: 'noon',
}
/** What a service may not know of introspection, and what it then refuses. */
const NEWER = { oneOf: /isOneOf/, specifiedByUrl: /specifiedByURL/, inputValueDeprecation: /(args|inputFields)\(/ }

tap.test('a schema that is introspected is the schema of the service', async (t) => {
  const whole = await schemaRemote(t, DETAILED, DETAILS)
  const documents: readonly (readonly [query: string, variables?: object])[] = [
    ['{ find(old: 5) }'],
    ['query ($n: Int) { find(old: $n, text: "x") }', { n: 5 }],
    ['{ find(box: {weight: 3, size: HUGE}) }'],
    ['query ($box: Box) { find(box: $box, sizes: [HUGE]) }', { box: { weight: 3, inner: { weight: 4, label: 'x' } } }],
    ['query ($size: Size = HUGE) { find(sizes: [$size]) }'],
    ['{ find }'],
    ['{ one(of: {name: "x"}) }'],
    ['query ($of: One!) { one(of: $of) }', { of: { name: 'x' } }],
    ['{ thing { name(upper: true) ... on Book { pages } } }'],
    ['{ gone at }'],
    ['mutation { put(old: [{weight: 1}]) }'],
  ]
  const refused = ['{ one(of: {id: 1, name: "x"}) }', '{ one(of: {}) }', '{ find(must: null) }', '{ find(none: 1) }']
  const direct = async (query: string, variables: object = {}) =>
    (await fetch(whole.url, { method: 'POST', body: JSON.stringify({ query, variables }) })).json()

  await t.test('whatever the service takes, the proxy takes', async (t) => {
    const stitched = await stitchServer(t, { schemas: { whole: { url: whole.url } } })
    for (const [query, variables] of documents)
      t.same((await stitched.ask(query, variables)).body, await direct(query, variables), query)
    for (const query of refused) t.match((await stitched.ask(query)).body, { errors: [{}], data: undefined }, query)
  })

  await t.test('introspection says of it what the service says', async (t) => {
    const stitched = await stitchServer(t, { schemas: { whole: { url: whole.url } } })
    const query = getIntrospectionQuery({ inputValueDeprecation: true, oneOf: true, specifiedByUrl: true })
    const sdlOf = ({ data }: { data: IntrospectionQuery }) => printSchema(buildClientSchema(data))
    t.equal(sdlOf((await stitched.ask(query)).body), sdlOf((await direct(query)) as { data: IntrospectionQuery }))
  })

  for (const unknown of [...Object.keys(NEWER).map((name) => [name]), Object.keys(NEWER)]) {
    await t.test(`a service that does not know ${unknown.join(', ')}`, async (t) => {
      const older = await stubRemote(t, async ({ body }, res) => {
        const { query } = JSON.parse(body) as { query: string }
        const isRefused =
          query.includes('__schema') && unknown.some((name) => NEWER[name as keyof typeof NEWER].test(query))
        if (isRefused) return res.writeHead(400).end('{"errors": [{"message": "Cannot query field"}]}')
        return res.end(await (await fetch(whole.url, { method: 'POST', body })).text())
      })
      const stitched = await stitchServer(t, { schemas: { older: { url: older.url } } })
      const asked = unknown.includes('inputValueDeprecation') ? '{ find gone }' : '{ find(old: 5) gone }'
      t.same((await stitched.ask(asked)).body, await direct(asked))
      t.ok(older.got.length <= 6, 'a few requests are enough')
    })
  }

  await t.test('a default value that JavaScript cannot write keeps its argument optional', async (t) => {
    const sdl = `scalar JSON input Box { data: JSON! = {a: [1, "x", null]} size: Int! = 1 }
      type Query { find(data: JSON! = {a: 1}, box: Box! = {data: {b: 2}}, list: [JSON] = [{}]): String }`
    const service = await schemaRemote(t, sdl, { find: SAID })
    const fetched = await stubRemote(t, (_got, res) => res.end(sdl))
    // As a service in another language describes it.
    const { data } = await graphql({ schema: buildSchema(sdl), source: getIntrospectionQuery() })
    const described = JSON.stringify({ data }).replaceAll('"defaultValue":null', '"defaultValue":"{a: {b: 1}}"')
    const foreign = await stubRemote(t, async ({ body }, res) => {
      if (body.includes('__schema')) return res.end(described)
      return res.end(await (await fetch(service.url, { method: 'POST', body })).text())
    })
    for (const shop of [
      { url: service.url, sdl },
      { url: service.url, schemaUrl: fetched.url },
      { url: foreign.url },
    ]) {
      const stitched = await stitchServer(t, { schemas: { shop } })
      for (const [query, variables] of [
        ['{ find }'],
        ['{ find(box: {}) }'],
        ['{ find(data: {z: [1]}, box: {data: 5}) }'],
        ['query ($data: JSON) { find(data: $data) }', {}],
        ['query ($data: JSON) { find(data: $data) }', { data: { y: 1 } }],
      ] as const) {
        const direct = await fetch(service.url, { method: 'POST', body: JSON.stringify({ query, variables }) })
        t.same((await stitched.ask(query, variables)).body, await direct.json(), query)
      }
      t.notOk((await stitched.ask(getIntrospectionQuery())).body.errors)
    }
  })

  await t.test('a service that refuses every introspection is asked a few times, and says why', async (t) => {
    const closed = await stubRemote(t, (_got, res) => res.end('{"errors": [{"message": "no introspection here"}]}'))
    const stitched = await stitchServer(t, { schemas: { closed: { url: closed.url }, whole: { url: whole.url } } })
    t.match(await stitched.fetch('/readyz', { headers: ADMIN }), { text: /no introspection here/ })
  })
})

tap.test('what a field that cannot be null does to the fields beside it', async (t) => {
  const fails = () => {
    throw new Error('bad luck')
  }
  const service = await schemaRemote(
    t,
    `type Query { boom: String! list: [Int] deep: Deep all: [Deep!] nest: [Deep]! rows(ids: [Int!]!): [Deep!] lost(ids: [Int!]!): [Deep!]! }
     type Deep { id: Int! boom: String! soft: String ok: Int deep: Deep! }`,
    {
      boom: fails,
      list: [1, 2],
      deep: { id: 1, ok: 1, boom: fails, soft: fails },
      all: [
        { id: 1, ok: 1, soft: 'a' },
        { id: 2, ok: 2, soft: fails, boom: fails, deep: { id: 3, ok: 3, soft: fails, boom: fails } },
      ],
      nest: [
        { id: 1, ok: 1, soft: fails },
        { id: 2, ok: 2, boom: fails, deep: { id: 3, soft: fails, boom: fails } },
      ],
      rows: ({ ids }: { ids: number[] }) => ids.map((id) => ({ id, ok: id, soft: fails })),
      lost: fails,
    },
  )
  const owner = await schemaRemote(t, 'type Query { people: [Person!] } type Person { id: Int! }', {
    people: [{ id: 1 }, { id: 2 }],
  })
  const extend = (field: string, query: string, many: boolean) => ({
    type: 'Person',
    field,
    from: 'service',
    query,
    many,
    arguments: { ids: '$id' },
    batch: { argument: 'ids', key: 'id' },
  })
  const stitched = await stitchServer(t, {
    schemas: { service: { url: service.url }, owner: { url: owner.url } },
    extensions: [extend('row', 'rows', false), extend('lost', 'lost', true), extend('lostOne', 'lost', false)],
  })
  const cases: Readonly<Record<string, readonly [data: object, paths: readonly (readonly (string | number)[])[]]>> = {
    '{ boom list }': [{ boom: null, list: null }, [['boom']]],
    '{ list boom deep { ok } }': [{ list: null, boom: null, deep: null }, [['boom']]],
    '{ a: boom b: list }': [{ a: null, b: null }, [['a']]],
    '{ list deep { ok soft } }': [{ list: [1, 2], deep: { ok: 1, soft: null } }, [['deep', 'soft']]],
    '{ list d: deep { ok b: boom } }': [{ list: [1, 2], d: null }, [['d', 'b']]],
    '{ all { ok s: soft } }': [
      {
        all: [
          { ok: 1, s: 'a' },
          { ok: 2, s: null },
        ],
      },
      [['all', 1, 's']],
    ],
    '{ list n: nest { ok s: soft } }': [
      {
        list: [1, 2],
        n: [
          { ok: 1, s: null },
          { ok: 2, s: null },
        ],
      },
      [['n', 0, 's']],
    ],
    '{ n: nest { ok b: boom } }': [
      { n: [null, null] },
      [
        ['n', 0, 'b'],
        ['n', 1, 'b'],
      ],
    ],
    '{ people { id row { ok s: soft } } }': [
      {
        people: [
          { id: 1, row: { ok: 1, s: null } },
          { id: 2, row: { ok: 2, s: null } },
        ],
      },
      [
        ['people', 0, 'row', 's'],
        ['people', 1, 'row', 's'],
      ],
    ],
    '{ people { id lost { ok } } }': [
      {
        people: [
          { id: 1, lost: null },
          { id: 2, lost: null },
        ],
      },
      [
        ['people', 0, 'lost'],
        ['people', 1, 'lost'],
      ],
    ],
    '{ people { id row { ok } lost { ok } lostOne { ok } } }': [
      { people: [1, 2].map((id) => ({ id, row: null, lost: null, lostOne: null })) },
      [
        ['people', 0, 'lost'],
        ['people', 1, 'lost'],
      ],
    ],
  }
  for (const [query, [data, paths]] of Object.entries(cases)) {
    const { body } = await stitched.ask(query)
    t.same(body.data, data, query)
    t.same(
      body.errors.map(({ path }: { path: unknown }) => path),
      paths,
      query,
    )
    for (const error of body.errors)
      t.match(error, {
        message: /^bad luck|^Cannot return null/,
        extensions: { code: 'remote-error', schema: 'service' },
      })
  }
})

tap.test('the example starts without a database', async (t) => {
  const config = fileURLToPath(new URL('../../plugins/stitch/example/rowhouse.config.js', import.meta.url))

  t.equal(
    await wantsDatabase({ flags: { config }, env: { ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET }, cwd: tmpdir() }),
    false,
  )
})

async function failure(promise: Promise<unknown>): Promise<string> {
  try {
    await promise
    return 'nothing failed'
  } catch (error) {
    return (error as Error).message
  }
}
