import type { ServerResponse } from 'node:http'
import tap, { type Test } from 'tap'
import { addressProblem, guardedLookup, isRefused } from '../../core/http/outbound.js'
import { patience } from '../kit/patience.js'
import { type Got, stitchServer, stubRemote, weatherRemote } from '../kit/stitch.js'
import { ADMIN_SECRET } from '../kit/server.js'
import { until } from '../kit/until.js'

const AS_ADMIN = { headers: { 'x-service-admin-secret': ADMIN_SECRET } }
const SHOP = `
  type Query { people(limit: Int): [Person!]! person(id: Int): Person }
  type Mutation { rename(id: Int!): Person }
  type Person { id: Int! name: String! city: String age: Int friends: [Person!]! }`
const EXTENSION = {
  type: 'Person',
  field: 'weather',
  from: 'weather',
  query: 'weather',
  arguments: { city_name: '$city' },
}
const QUERY = '{ weather(city_name: "X") { city } people { name } }'
const FINE = { weather: { city: 'X' } }

/** What a query for people asks for, answered as the schema has it. */
const people = (got: Got, list: readonly object[]) => {
  const alias = /(f\d+): people/.exec((JSON.parse(got.body) as { query: string }).query)?.[1] ?? 'f0'
  return { [alias]: list }
}

tap.test('a schema that does not answer as it should spoils only its own fields', async (t) => {
  let answer: (got: Got, res: ServerResponse) => unknown = () => undefined
  const shop = await stubRemote(t, (got, res) => answer(got, res))
  const elsewhere = await stubRemote(t, (_got, res) => res.end('{"data": {"f0": [{"name": "stolen"}]}}'))
  const weather = await weatherRemote(t)
  const limits = { timeoutMs: patience(1_000), maxBytes: 2_000 }
  const stitched = await stitchServer(t, {
    schemas: { shop: { url: shop.url, sdl: SHOP, ...limits }, weather: { url: weather.url } },
    extensions: [EXTENSION],
  })
  const text = (body: string, status = 200, headers = {}) => {
    answer = (_got, res) => res.writeHead(status, headers).end(body)
  }
  const json = (body: (got: Got) => unknown, status = 200) => {
    answer = (got, res) => res.writeHead(status).end(JSON.stringify(body(got)))
  }
  const spoiled = async (t: Test, code: string, message: RegExp, query = QUERY) => {
    const found = await stitched.ask(query)
    t.match(found, {
      status: 200,
      body: {
        data: { ...FINE, people: null },
        errors: [{ message, path: ['people'], extensions: { code, schema: 'shop' } }],
      },
    })
    t.equal(found.body.errors.length, 1)
  }

  const cases: Record<string, [() => void, string, RegExp]> = {
    'answers 500': [() => text('{"stack": "secret"}', 500), 'remote-unavailable', /^the schema "shop" returned 500$/],
    'answers a page': [() => text('<html>', 502), 'remote-unavailable', /returned 502/],
    'answers garbage': [() => text('{"data": {'), 'remote-invalid', /not GraphQL/],
    'answers nothing': [() => text(''), 'remote-invalid', /not GraphQL/],
    'answers a list': [() => text('[{"data": 1}]'), 'remote-invalid', /not GraphQL/],
    'answers data that is no object': [() => text('{"data": 5}'), 'remote-invalid', /not GraphQL/],
    'answers null': [() => text('{"data": null}'), 'remote-invalid', /not GraphQL/],
    'answers null with no errors': [() => text('{"data": null, "errors": []}'), 'remote-invalid', /not GraphQL/],
    'answers null for all, without saying why': [
      () => text('{"data": null, "errors": [{"message": "bad luck", "path": null}]}'),
      'remote-error',
      /^bad luck$/,
    ],
    'refuses the document as GraphQL over HTTP says': [
      () => text('{"errors": [{"message": "bad luck"}]}', 400, { 'content-type': 'application/graphql-response+json' }),
      'remote-error',
      /^bad luck$/,
    ],
    'answers two keys of one name': [() => text('{"data": {}, "data": {}}'), 'remote-invalid', /not GraphQL/],
    'leaves a field out': [() => text('{"data": {}}'), 'remote-invalid', /did not return a requested field/],
    refuses: [
      () => text('{"path": "$", "error": "no such role", "code": "access-denied", "internal": "secret"}', 403),
      'access-denied',
      /^the schema "shop" refused the request: no such role$/,
    ],
    'answers too much': [
      () => text(`{"data": {"x": "${'x'.repeat(2_000)}"}}`),
      'remote-too-large',
      /more than 2000 bytes/,
    ],
    redirects: [() => text('', 307, { location: elsewhere.url }), 'remote-invalid', /redirect/],
    'never answers': [() => (answer = () => undefined), 'remote-timeout', new RegExp(`within ${limits.timeoutMs} ms`)],
    'never ends': [
      () => (answer = (_got, res) => res.writeHead(200).write('{"data"')),
      'remote-timeout',
      new RegExp(`within ${limits.timeoutMs} ms`),
    ],
    'breaks off': [
      () => (answer = (_got, res) => res.writeHead(200, { 'content-length': 50 }).write('{', () => res.destroy())),
      'remote-unavailable',
      /cannot be reached/,
    ],
    'errors without data': [
      () =>
        text(
          '{"errors": [{"message": "bad luck", "stack": "secret", "extensions": {"code": "x-y", "stack": "secret"}}]}',
        ),
      'x-y',
      /^bad luck$/,
    ],
  }
  for (const [what, [arrange, code, message]] of Object.entries(cases)) {
    await t.test(what, async (t) => {
      arrange()
      await spoiled(t, code, message)
      t.notMatch((await stitched.ask(QUERY)).text, /secret|stolen/)
    })
  }
  t.equal(elsewhere.got.length, 0, 'the redirect was not followed')

  await t.test('and the metrics count it by code, those of other schemas as one', async (t) => {
    const { text } = await stitched.fetch('/metrics', AS_ADMIN)
    const found = [...text.matchAll(/^rowhouse_errors_total\{route="\/v1\/stitch",code="([^"]*)"\} (\d+)$/gm)]
    const wanted = Object.values(cases).map(([, code]) => (code.startsWith('remote-') ? code : 'remote-error'))
    t.same(new Set(found.map(([, code]) => code)), new Set(wanted))
    t.match(
      found.find(([, code]) => code === 'remote-error'),
      // Each case asks twice.
      { 2: String(2 * wanted.filter((code) => code === 'remote-error').length) },
    )
  })

  await t.test('an error inside gets the place that it has in the merged answer', async (t) => {
    json((got) => ({
      data: people(got, [
        { name: 'Ann', years: null },
        { name: 'Bob', years: 3 },
      ]),
      errors: [
        { message: 'forgotten', path: ['f0', 0, 'years'], locations: [{ line: 9, column: 9 }], stack: 'secret' },
        { message: 'by the way' },
      ],
    }))

    const { body } = await stitched.ask('{ all: people { name years: age } }')

    t.same(body, {
      data: {
        all: [
          { name: 'Ann', years: null },
          { name: 'Bob', years: 3 },
        ],
      },
      errors: [
        {
          message: 'forgotten',
          locations: [{ line: 1, column: 22 }],
          path: ['all', 0, 'years'],
          extensions: { path: '$.all[0].years', code: 'remote-error', schema: 'shop' },
        },
        { message: 'by the way', extensions: { code: 'remote-error', schema: 'shop' } },
      ],
    })
  })

  await t.test('no error is lost, whatever its path is', async (t) => {
    const paths = [['f0', 0, 'age'], ['f0', 7, 'years'], ['f0', 0, 'name', 'x'], ['f0', { a: 1 }], ['f0']]
    for (const path of paths) {
      json((got) => ({ data: people(got, [{ name: 'Ann', years: null }]), errors: [{ message: 'forgotten', path }] }))
      const { body } = await stitched.ask('{ people { name years: age } }')
      t.match(body, { data: { people: [{ name: 'Ann' }] }, errors: [{ message: 'forgotten' }] }, JSON.stringify(path))
      t.equal(body.errors.length, 1)
    }
    // The schema has made the person null for a column that only the extension needs.
    json((got) => ({
      data: people(got, [null] as never),
      errors: [{ message: 'no city', path: ['f0', 0, 'st_city'] }],
    }))
    const { body } = await stitched.ask('{ people { name weather { sky } } }')
    t.match(body, { data: { people: null }, errors: [{ message: 'no city', path: ['people', 0] }] })
    t.equal(body.errors[0].path.length, 2)
  })

  await t.test('values of other types than the schema says are errors at their place', async (t) => {
    json((got) => ({
      data: people(got, [
        { name: 'Ann', age: 'old' },
        { name: 'Bob', age: 4 },
      ]),
    }))
    const int = await stitched.ask('{ people { name age } }')
    t.match(int.body, {
      data: {
        people: [
          { name: 'Ann', age: null },
          { name: 'Bob', age: 4 },
        ],
      },
      errors: [{ path: ['people', 0, 'age'], extensions: { code: 'remote-invalid' } }],
    })
    for (const list of [5, 'x', { name: 'y' }]) {
      json((got) => ({ data: people(got, list as never) }))
      const { body } = await stitched.ask('{ people { name } }')
      t.match(body, { data: { people: null }, errors: [{ extensions: { code: 'remote-invalid' } }] })
    }
    for (const row of [5, 'x', []]) {
      json((got) => ({ data: people(got, [row as never]) }))
      const { body } = await stitched.ask('{ people { name } }')
      t.match(body, { data: { people: null }, errors: [{ extensions: { code: 'remote-invalid' } }] })
    }
  })

  await t.test('is down', async (t) => {
    json((got) => ({
      data: people(got, [
        { name: 'Ann', st_city: 'Lyon' },
        { name: 'Bob', st_city: null },
      ]),
    }))
    await weather.close()
    const { body } = await stitched.ask('{ people { name weather { sky } } }')
    t.match(body, {
      data: {
        people: [
          { name: 'Ann', weather: null },
          { name: 'Bob', weather: null },
        ],
      },
      errors: [
        {
          message: 'the schema "weather" cannot be reached',
          path: ['people', 0, 'weather'],
          extensions: { code: 'remote-unavailable', schema: 'weather' },
        },
      ],
    })
    t.equal(body.errors.length, 1)
  })

  await t.test('a client that has gone takes its requests to schemas with it', async (t) => {
    let gone = false
    answer = (_got, res) => void res.on('close', () => (gone = true))
    const slow = await stubRemote(t, (got, res) => answer(got, res))
    const patient = await stitchServer(t, { schemas: { shop: { url: slow.url, sdl: SHOP, timeoutMs: 600_000 } } })
    const leaving = new AbortController()
    const asked = fetch(`${patient.url}/v1/stitch`, {
      method: 'POST',
      body: '{"query": "{ people { name } }"}',
      signal: leaving.signal,
    }).catch(() => undefined)
    await until('the request is there', () => slow.got.length > 0)
    leaving.abort()
    await asked
    await until('the request is gone', () => gone)
    t.ok(gone)
  })
})

tap.test('a schema that cannot be loaded at the start is loaded later', async (t) => {
  let working = false
  const late = await weatherRemote(t)
  const flaky = await stubRemote(t, async (got, res) => {
    if (!working) return res.writeHead(503).end('not yet')
    const answer = await fetch(late.url, { method: 'POST', body: got.body })
    return res.end(await answer.text())
  })
  const shop = await stubRemote(t, (got, res) =>
    res.end(JSON.stringify({ data: people(got, [{ name: 'Ann', st_city: 'Lyon' }]) })),
  )
  const stitched = await stitchServer(t, {
    schemas: { weather: { url: flaky.url }, shop: { url: shop.url, sdl: SHOP } },
    extensions: [EXTENSION],
  })

  t.match((await stitched.ask('{ people { name } }')).body, { data: { people: [{ name: 'Ann' }] } })
  t.match((await stitched.ask('{ people { weather { sky } } }')).body, { errors: [{ message: /weather/ }] })
  t.match(await stitched.fetch('/readyz', AS_ADMIN), {
    status: 200,
    body: { probes: [{ name: 'stitch.schemas', ok: true, detail: /degraded: schema "weather": .*503/ }] },
  })

  working = true
  await until(
    'the schema is loaded',
    async () => (await stitched.ask('{ people { weather { sky } } }')).body.data !== undefined,
  )
  t.match((await stitched.ask('{ people { weather { sky } } }')).body, {
    data: { people: [{ weather: { sky: 'CLOUDS' } }] },
  })
  t.notOk('detail' in (await stitched.fetch('/readyz', AS_ADMIN)).body.probes[0])
})

tap.test('without any schema the server is not ready and says so', async (t) => {
  const down = await stubRemote(t, (_got, res) => res.writeHead(500).end())
  const stitched = await stitchServer(t, { schemas: { shop: { url: down.url } } })

  t.match(await stitched.fetch('/readyz', AS_ADMIN), {
    status: 503,
    body: { probes: [{ ok: false, detail: /"shop"/ }] },
  })
  t.match(await stitched.ask('{ people { name } }'), { status: 503, body: { code: 'unavailable' } })
})

tap.test('every mistake of the configuration is told at once', async (t) => {
  const sdl = `type Query { weathers(cities: [String!], unit: Unit, at: At): [Weather!] sky: String one(city: String): Weather }
    enum Unit { C F } input At { day: Int! city: String } type Weather { city: String place: At2 } type At2 { x: Int }`
  const schemas = { shop: { url: 'http://127.0.0.1:1', sdl: SHOP }, weather: { url: 'http://127.0.0.1:1', sdl } }
  const base = { type: 'Person', field: 'w', from: 'weather', query: 'weathers', arguments: { cities: '$city' } }
  const wrong: [object, RegExp][] = [
    [{ from: 'wether' }, /\.extensions\[\d+\]\.from: there is no schema "wether"/],
    [{ type: 'Persn' }, /\.type: no schema has a type "Persn"/],
    [{ type: 'Unit' }, /\.type: "Unit" is not an object type/],
    [{ field: 'age' }, /\.field: "Person" has a field "age" already/],
    [{ field: '9a' }, /\.field: "9a" is not a valid GraphQL name/],
    [{ query: 'wethers' }, /\.query: the schema "weather" has no query "wethers"/],
    [{ arguments: { citis: '$city' } }, /\.arguments\.citis: the query "weathers" has no argument "citis"/],
    [{ arguments: { cities: '$town' } }, /\.arguments\.cities: "Person" has no column "town"/],
    [{ arguments: { cities: '$friends' } }, /"friends" of "Person" is not a single value/],
    [{ arguments: { cities: 'Lyon' } }, /\.arguments: no argument is a column, such as "\$id"/],
    [{ arguments: { cities: '$city', unit: 'K' } }, /\.arguments\.unit: Value "K" does not exist in "Unit" enum/],
    [{ arguments: { at: { city: '$city' } } }, /\.arguments\.at: "day" is missing/],
    [{ arguments: { at: { day: 1, town: '$city' } } }, /\.arguments\.at\.town: "At" has no field "town"/],
    [{ arguments: { at: '$city' } }, /\.arguments\.at: takes an object, not a column/],
    [{ query: 'sky', arguments: {}, many: true }, /\.many: "sky" does not return a list/],
    [{ batch: { argument: 'unit', key: 'city' } }, /\.batch\.argument: "unit" does not take a list/],
    [{ batch: { argument: 'cites', key: 'city' } }, /\.batch\.argument: "weathers" has no argument "cites"/],
    [{ batch: { argument: 'cities', key: 'town' } }, /\.batch\.key: "Weather" has no column "town"/],
    [{ batch: { argument: 'cities', key: 'place' } }, /\.batch\.key: "place" of "Weather" is not a single value/],
    [
      { query: 'one', arguments: { city: '$city' }, batch: { argument: 'city', key: 'city' } },
      /\.batch: "one" does not return a list/,
    ],
  ]

  const extensions = wrong.map(([more], i) => ({ ...base, field: `w${i}`, ...more }))
  const all = await failure(stitchServer(t, { schemas, extensions }))
  for (const [more, message] of wrong) t.match(all, message, JSON.stringify(more))
  t.match(await failure(stitchServer(t, { schemas, extensions: [base, base] })), /"Person\.w" is added twice/)

  const urls = await failure(
    stitchServer(t, {
      schemas: {
        a: { url: 'ftp://x' },
        b: { url: 'http://u:p@x/' },
        c: { url: 'http://169.254.169.254/latest' },
        d: { url: 'no' },
        e: { url: 'http://x', sdl: 'type Query { a: Int }', schemaUrl: 'http://x' },
        f: { url: 'http://x', introspect: false },
        g: { url: 'http://x', forwardHeaders: ['Host'] },
        h: { url: 'http://x', headers: { 'a b': 'c' } },
      },
    }),
  )
  for (const message of [
    /8 mistakes/,
    /\.a\.url: must begin with http/,
    /\.b\.url: must not contain credentials/,
    /\.c\.url: is a link-local address/,
    /\.d\.url: is not a URL/,
    /\.e: has both "sdl" and "schemaUrl"/,
    /\.f: has no "sdl" and no "schemaUrl"/,
    /\.g\.forwardHeaders: "Host"/,
    /\.h\.headers: "a b"/,
  ])
    t.match(urls, message)
  t.notMatch(urls, /u:p/)
  t.match(
    await failure(stitchServer(t, { schemas: { a: { url: 'http://x', sdl: 'type Query {' } } })),
    /\.a\.sdl: Syntax Error/,
  )
  t.match(await failure(stitchServer(t, { schemas: {} })), /schemas/)
})

tap.test('addresses at which clouds keep credentials are refused in every spelling', async (t) => {
  for (const address of [
    '169.254.169.254',
    '169.254.0.1',
    '::ffff:169.254.169.254',
    '[fe80::1]',
    'fe80::1%eth0',
    'fd00:ec2::254',
    '100.100.100.200',
  ]) {
    t.ok(isRefused(address), address)
  }
  for (const url of [
    'http://0xA9FEA9FE/',
    'http://2852039166/',
    'http://[::ffff:a9fe:a9fe]/',
    'http://169.254.43518/',
  ]) {
    t.match(addressProblem(url), /link-local/, url)
  }
  for (const address of ['127.0.0.1', '10.0.0.1', '::1', '192.168.1.1', 'example.com'])
    t.notOk(isRefused(address), address)
  // Names are looked up by the system, which takes an address for a name of itself.
  for (const all of [true, false]) {
    const found = await new Promise((resolve) => {
      guardedLookup('169.254.169.254', { all }, (error, address) => resolve(error?.message ?? address))
    })
    t.match(found, /resolves to a link-local address/)
    const local = await new Promise((resolve) => {
      guardedLookup('127.0.0.1', { all }, (error, address) => resolve(error ?? address))
    })
    t.same(local, all ? [{ address: '127.0.0.1', family: 4 }] : '127.0.0.1')
  }
})

tap.test('what a document may ask for is limited', async (t) => {
  const weather = await weatherRemote(t)
  const rows = Array.from({ length: 30 }, (_, i) => ({ st_city: `city ${i}`, name: `n${i}` }))
  const shop = await stubRemote(t, (got, res) => res.end(JSON.stringify({ data: people(got, rows) })))
  const schemas = {
    shop: { url: shop.url, sdl: SHOP },
    weather: { url: weather.url, maxFields: 10 },
  }
  const stitched = await stitchServer(t, {
    schemas,
    extensions: [EXTENSION],
    limits: { maxRequests: 3 },
    introspection: false,
  })
  const asked = async (query: string) => (await stitched.ask(query)).body as { errors: [{ message: string }] }

  const deep = `{ person ${'{ friends '.repeat(20)} { name } ${'}'.repeat(20)} }`
  t.match(await asked(deep), { errors: [{ message: /more than 20 levels \(plugins\.stitch\.limits\.maxDepth\)/ }] })
  t.match(await asked(`{ person { ${'name '.repeat(300)} } }`), { errors: [{ message: /more than 200 aliases/ }] })
  t.match(await asked(`{ ${Array.from({ length: 51 }, (_, i) => `a${i}: person { name }`).join(' ')} }`), {
    errors: [{ message: /more than 50 root fields/ }],
  })
  const bomb = Array.from({ length: 30 }, (_, i) => `fragment F${i} on Person { ...F${i + 1} ...F${i + 1} }`).join(' ')
  t.match(await asked(`{ person { ...F0 } } ${bomb} fragment F30 on Person { name }`), {
    errors: [{ message: /more than/ }],
  })
  t.match(await asked(`{ person { ...F } } fragment F on Person { friends { ...F } }`), {
    errors: [{ message: /spreads itself/ }],
  })
  t.match(await asked(`{ person { name } } fragment F on Person { ${'name '.repeat(2000)} }`), {
    errors: [{ message: /never used/ }],
  })
  t.match(await asked(`{ person { name } } # ${'x'.repeat(262_144)}`), {
    errors: [{ message: /longer than 262144 bytes/ }],
  })
  t.match(await asked('{ __schema { types { name } } }'), { errors: [{ message: /introspection/ }] })
  shop.got.length = 0

  const { body } = await stitched.ask('{ people { weather { sky } } }')
  t.equal(weather.got.filter(({ body: sent }) => sent.includes('st0')).length, 2, 'of 30 places ten at a time')
  t.match(body, { errors: [{ message: /more than 3 requests/, extensions: { code: 'limit-exceeded' } }] })
  t.equal(body.data.people.filter((row: { weather: unknown }) => row.weather !== null).length, 20)
})

tap.test('credentials', async (t) => {
  const shop = await stubRemote(t, (got, res) => res.end(JSON.stringify({ data: people(got, []) })))
  const schema = { url: shop.url, sdl: SHOP }
  const bearer = { authorization: 'Bearer x.y.z' }

  await t.test('a bearer token that nobody checks here is refused, unless it is passed on', async (t) => {
    const checking = await stitchServer(t, { schemas: { shop: schema } })
    t.match(await checking.ask('{ people { name } }', {}, bearer), { status: 401 })
    t.equal(shop.got.length, 0)
    const passing = await stitchServer(t, { schemas: { shop: schema }, credentials: 'pass' })
    t.match(await passing.ask('{ people { name } }', {}, bearer), { status: 200, body: { data: { people: [] } } })
    t.equal(shop.got.at(-1)?.headers.authorization, 'Bearer x.y.z')
    t.match(await passing.ask('{ people { name } }', {}, { ...bearer, 'x-service-role': 'admin' }), { status: 403 })
  })

  await t.test('fixed headers are sent, win, and X-Service headers need to be listed', async (t) => {
    const fixed = { ...schema, headers: { 'X-Api-Key': 'k', Authorization: 'Basic fixed' } }
    const stitched = await stitchServer(t, { schemas: { shop: fixed }, credentials: 'pass' })
    await stitched.ask(
      '{ people { name } }',
      {},
      { ...bearer, 'x-service-admin-secret': ADMIN_SECRET, 'x-api-key': 'mine' },
    )
    const { headers } = shop.got.at(-1)!
    t.equal(headers['x-api-key'], 'k')
    t.equal(headers.authorization, 'Basic fixed')
    t.notOk(Object.keys(headers).some((name) => name.startsWith('x-service')))
  })

  await t.test('where cookies are passed on, a page of another origin cannot use them', async (t) => {
    const stitched = await stitchServer(t, { schemas: { shop: { ...schema, forwardHeaders: ['cookie'] } } })
    const cookie = { cookie: 'session=1' }
    const json = { 'content-type': 'application/json' }
    t.match(await stitched.ask('{ people { name } }', {}, { ...cookie, ...json }), { status: 403 })
    t.match(await stitched.ask('{ people { name } }', {}, { ...cookie, 'sec-fetch-site': 'same-origin' }), {
      status: 415,
    })
    const own = await stitched.ask('{ people { name } }', {}, { ...cookie, ...json, 'sec-fetch-site': 'same-origin' })
    t.match(own, { status: 200, body: { data: { people: [] } } })
    t.equal(shop.got.at(-1)?.headers.cookie, 'session=1')
  })

  await t.test('a query is sent again when a kept connection was closed under it, a mutation never', async (t) => {
    const closing = await stubRemote(t, (got, res) => {
      if (closing.got.length % 2 === 0) return res.socket?.destroy()
      const data = got.body.includes('mutation') ? { f0: { name: 'Ann' } } : people(got, [])
      return res.end(JSON.stringify({ data }))
    })
    const stitched = await stitchServer(t, { schemas: { shop: { url: closing.url, sdl: SHOP } } })

    t.match((await stitched.ask('{ people { name } }')).body, { data: { people: [] } })
    t.match((await stitched.ask('{ people { name } }')).body, { data: { people: [] } })
    t.equal(closing.got.length, 3)
    const mutation = await stitched.ask('mutation { rename(id: 1) { name } }')
    t.match(mutation.body, { data: { rename: null }, errors: [{ extensions: { code: 'remote-unavailable' } }] })
    t.equal(closing.got.length, 4)
  })
})

async function failure(promise: Promise<unknown>): Promise<string> {
  try {
    await promise
    return 'nothing failed'
  } catch (error) {
    return (error as Error).message
  }
}
