import { connect } from 'node:net'
import { once } from 'node:events'
import type { Test } from 'tap'
import { area, type Case, refused } from '../kit/promises.js'
import { ADMIN_SECRET, type Answered, type As, GATEWAY_SECRET, testServer, type TestServer } from '../kit/server.js'
import { PROCESSES } from '../kit/several-processes.js'
import { until } from '../kit/until.js'

/** How large and how expensive one request may be. */
const PROMISES = {
  'body.bytes': 'a body has at most http.maxJsonBytes, or http.maxAdminJsonBytes if admin sends it to /v1/query',
  'body.anonymous': 'a body of anonymous has at most http.maxAnonymousJsonBytes, and 10,000 values besides rows',
  'body.values': 'a body of a role has at most http.maxJsonValues values besides rows; admin may send more',
  'body.turn':
    'a caller may send one body of more than 1 MiB at a time; the next one waits until the first is answered',
  'body.containers': 'a body of a role has at most 250,000 objects and arrays; admin may send more',
  'body.depth': 'a body nests at most 64 levels',
  'body.keys': 'an object has at most 1,000 keys',
  'body.unfinished': 'unfinished bodies of one caller are limited together by database.maxAnswerBytes',
  'condition.levels': 'a condition nests at most 50 levels',
  'condition.parts': 'a condition has at most 2,000 parts',
  'bulk.members': 'a bulk has at most 1,000 members, those of nested bulks included',
  'nested.statements': 'a request writes related rows with at most 2,000 statements',
  'name.bytes': 'the name of a relationship or of a computed field has at most 255 bytes',
  'columns.count': 'a list has at most 1,600 columns, and a wildcard 5 levels',
  'order.columns': 'a role sorts by at most 100 columns',
  'sql.characters': 'a request whose SQL is longer than 1,048,576 characters is a 400',
  'answer.bytes': 'a response that is held in memory has at most database.maxAnswerBytes; a stream has no limit',
  'answer.row': 'one row of a stream has at most database.maxAnswerBytes',
  'answer.together': 'the responses of a bulk, of a mutation and of a batch are limited together',
  'answer.anonymous': 'the responses of anonymous have at most database.maxAnonymousAnswerBytes',
  'patterns.operators':
    'a request of a role has at most limits.patterns.operators pattern operators, in whatever way it comes',
  'patterns.characters': 'regular expressions of a role have few characters, and no back-reference',
  'patterns.wildcards': 'a $like pattern of a role has few wildcards, and at most 1,000 characters',
  'array.elements': 'an array to compare with has at most 10,000 elements for roles',
  'price.request':
    'a request of a role costs at most limits.price points, by the rows that its lists are likely to have',
  'price.bulk': 'the members of a bulk cost limits.price points together',
  'queries.new': 'a caller who floods the server with new query shapes gets 429; known shapes and other callers do not',
  'queries.size': 'a new query shape of more than 4,096 characters counts several times',
  'queries.turns': 'new query shapes of one caller wait for their turn, so that they do not hold up those of others',
  'queries.admin': 'new query shapes of admin are not limited',
} as const

const MAX_JSON = 1_000_000
const MAX_ADMIN_JSON = 1_500_000
const SHAPES = 10
const user = (id: number): As => ({ role: 'user', variables: { 'x-service-user-id': String(id) } })
const USER = user(1)

const select = (server: TestServer, args: object, as?: As) =>
  server.query('select', { table: 'item', columns: ['id'], limit: 1, ...args }, as)
const graphql = (server: TestServer, query: string, as?: As) =>
  server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }) }, as)
/** A list of the same thing. */
const times = <T>(count: number, each: (index: number) => T): T[] => Array.from({ length: count }, (_, i) => each(i))
const ids = (count: number) => times(count, () => 'id')
const nested = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`
const patterns = (count: number, op = '$like') => ({ $or: times(count, (i) => ({ name: { [op]: `a${i}` } })) })
const padded = (bytes: number) => {
  const start = '{"type":"bulk","args":[]'
  return `${start}${' '.repeat(bytes - start.length - 1)}}`
}
const payload = (error: RegExp, path?: string) => refused('unexpected-payload', error, path).like as object
const sixteenHundred = (path: string) => ({ status: 400, body: payload(/at most 1600 columns/, path) })

/** Number of requests in progress, with the one that asks. */
async function requestsIn(server: TestServer): Promise<number> {
  const { text } = await server.fetch('/metrics')
  return Number(/^rowhouse_http_requests_in_flight (\d+)$/m.exec(text)?.[1])
}

const CASES: Readonly<Record<keyof typeof PROMISES, Case<Limited>>> = {
  'body.bytes': async (t, server) => {
    const acting = { role: 'user', acting: true } as const
    t.equal((await server.raw(padded(MAX_ADMIN_JSON))).status, 200)
    t.match(await server.raw(padded(MAX_ADMIN_JSON + 1)), {
      status: 413,
      body: { code: 'payload-too-large', error: /1500000 bytes \(http.maxAdminJsonBytes\)/ },
    })
    t.equal((await server.raw(padded(MAX_JSON), USER)).status, 200)
    for (const as of [USER, acting])
      t.match(await server.raw(padded(MAX_JSON + 1), as), {
        status: 413,
        body: { code: 'payload-too-large', message: /1000000 bytes \(http.maxJsonBytes\)/ },
      })
    const explain = await server.fetch('/v1/query/explain', { method: 'POST', body: padded(MAX_JSON + 1) })
    t.match(explain, { status: 413, text: /\(http.maxJsonBytes\)/ })
  },
  'body.anonymous': async (t, { roomy }) => {
    const anonymous = { role: 'anonymous' }
    t.equal((await roomy.raw(padded(2 ** 20), anonymous)).status, 200)
    t.match(await roomy.raw(padded(2 ** 20 + 1), anonymous), {
      status: 413,
      body: { code: 'payload-too-large', error: /1048576 bytes \(http\.maxAnonymousJsonBytes\)/ },
    })
    t.equal((await roomy.raw(padded(2 ** 20 + 1), USER)).status, 200)
    const list = (count: number, as: As) => select(roomy, { where: { id: { $in: times(count, (i) => i) } } }, as)
    t.equal((await list(9_900, anonymous)).status, 200)
    t.match(await list(10_000, anonymous), {
      status: 413,
      body: { error: /10000 values \(http\.maxAnonymousJsonValues\)/ },
    })
    t.equal((await list(10_000, USER)).status, 200)
    const objects = times(6_000, (i) => ({ id: 1000 + i, name: 'x' }))
    const rows = { table: 'item', objects, on_conflict: { action: 'ignore' } }
    t.match(await roomy.query('insert', rows, anonymous), { status: 400, body: { code: 'permission-denied' } })
  },
  'body.values': async (t, { roomy }) => {
    const list = (count: number) => `[${'1,'.repeat(count - 2)}1]`
    t.match(await roomy.raw(list(100_001), USER), { status: 413, text: /100000 values \(http\.maxJsonValues\)/ })
    for (const [count, as] of [
      [100_000, USER],
      [100_001, undefined],
    ] as const)
      t.match(await roomy.raw(list(count), as), {
        status: 400,
        text: /expecting an object with the keys type and args/,
      })
  },
  'body.turn': async (t, { roomy }) => {
    const large = 1_500_000
    const head = (id: number) =>
      [
        'POST /v1/query HTTP/1.1',
        'host: x',
        `x-service-gateway-secret: ${GATEWAY_SECRET}`,
        'x-service-role: user',
        `x-service-user-id: ${id}`,
        `content-length: ${large}`,
      ].join('\r\n')
    const socket = connect(Number(new URL(roomy.url).port), '127.0.0.1')
    t.teardown(() => socket.destroy())
    socket.write(`${head(7)}\r\n\r\n${padded(large).slice(0, -9)}`)
    await until('the first is in progress', async () => (await requestsIn(roomy)) > 1)
    let isDone = false
    const second = roomy.raw(padded(large), user(7)).finally(() => (isDone = true))
    t.equal((await roomy.raw(padded(large), user(8))).status, 200, 'another caller')
    t.equal((await select(roomy, {}, user(7))).status, 200, 'a small body')
    t.equal(isDone, false, 'the second waits')
    const answered = once(socket, 'data')
    socket.write(padded(large).slice(-9))
    t.match(String(await answered), /^HTTP\/1\.1 200/)
    t.equal((await second).status, 200)
  },
  'body.containers': async (t, server) => {
    const many = (count: number) => `[${'[],'.repeat(count - 2)}[]]`
    t.match(await server.raw(many(250_001), USER), { status: 400, text: /more than 250000 objects and arrays/ })
    const expected = /expecting an object with the keys type and args/
    t.match(await server.raw(many(250_000), USER), { status: 400, text: expected })
    t.match(await server.raw(many(250_001)), { status: 400, text: expected })
  },
  'body.depth': async (t, server) => {
    const contains = (levels: number) =>
      server.raw(`{"type":"count","args":{"table":"item","where":{"tags":{"$contains":${nested(levels)}}}}}`, USER)
    t.equal((await contains(60)).status, 200)
    t.match(await contains(61), {
      status: 400,
      body: { code: 'parse-failed', error: /more than 64 levels of nesting/ },
    })
    const insert = (levels: number) =>
      server.raw(`{"type":"insert","args":{"table":"item","objects":[{"tags":${nested(levels)}}]}}`)
    t.equal((await insert(60)).status, 200)
    t.match(await insert(61), { status: 400, body: { error: /more than 64 levels of nesting/ } })
  },
  'body.keys': async (t, server) => {
    const contains = (count: number) => {
      const object = Object.fromEntries(times(count, (i) => [`k${i}`, i]))
      return server.query('count', { table: 'item', where: { tags: { $contains: object } } }, USER)
    }
    t.equal((await contains(1000)).status, 200)
    t.match(await contains(1001), { status: 400, body: { code: 'parse-failed', error: /more than 1000 keys/ } })
  },
  'body.unfinished': async (t, server) => {
    const begin = (id: number): Promise<unknown[]> => {
      const socket = connect(Number(new URL(server.url).port), '127.0.0.1').on('error', () => {})
      const head = [
        'POST /v1/query HTTP/1.1',
        'host: x',
        `x-service-admin-secret: ${ADMIN_SECRET}`,
        'x-service-role: user',
      ]
      const body = `{"type": "select", "args": ${' '.repeat(600_000)}`
      socket.write([...head, `x-service-user-id: ${id}`, 'content-length: 900000', '', body].join('\r\n'))
      t.teardown(() => socket.destroy())
      return once(socket, 'data')
    }
    const [answer] = await Promise.race(times(4, () => begin(7)))
    t.match(String(answer), /^HTTP\/1\.1 429 [^]*unfinished bodies of this caller/)
    t.equal((await select(server, {}, USER)).status, 200, 'another caller')
  },
  'condition.levels': async (t, server) => {
    const where = (levels: number) => times(levels, () => 0).reduce((exp: object) => ({ $not: exp }), { id: 1 })
    t.equal((await select(server, { where: where(49) }, USER)).status, 200)
    t.match(await select(server, { where: where(50) }, USER), {
      status: 400,
      body: payload(/a condition may nest at most 50 levels/),
    })
  },
  'condition.parts': async (t, server) => {
    const where = (count: number) => ({ $or: times(count, (i) => ({ id: i })) })
    t.equal((await select(server, { where: where(1998) }, USER)).status, 200, 'the list and $or are parts, too')
    t.match(await select(server, { where: where(1999) }, USER), {
      status: 400,
      body: payload(/a condition may have at most 2000 parts/),
    })
  },
  'bulk.members': async (t, server) => {
    const members = (count: number) => times(count, () => ({ type: 'bulk', args: [] }))
    t.equal((await server.query('bulk', members(1000), USER)).status, 200)
    t.match(await server.query('bulk', members(1001), USER), {
      status: 400,
      body: { code: 'parse-failed', error: 'a bulk can have at most 1000 members' },
    })
    const inner = { type: 'bulk', args: members(600) }
    t.match((await server.query('bulk', [inner, inner])).body, {
      code: 'parse-failed',
      error: /at most 1000 members in total/,
    })
  },
  'nested.statements': async (t, server) => {
    const remove = (count: number) =>
      server.query('update', {
        table: 'item',
        where: { id: 1 },
        $set: { owned: { delete: times(count, () => ({ where: { id: -1 } })) } },
      })
    t.match(await remove(2001), { status: 400, body: { error: /more than 2000 statements/ } })
    t.equal((await remove(3)).status, 200)
  },
  'name.bytes': async (t, server) => {
    const names = ['é'.repeat(127), 'é'.repeat(128)]
    const relate = (name: string) => {
      const using = { manual_configuration: { remote_table: 'item', column_mapping: { id: 'id' } } }
      return server.query('create_object_relationship', { table: 'item', name, using })
    }
    const [longest, longer] = [await relate(names[0] as string), await relate(names[1] as string)]
    t.equal(longest.status, 200, longest.text)
    t.match(longer, { status: 400, body: { error: 'a relationship name has at most 255 bytes', path: '$.args.name' } })
  },
  'columns.count': async (t, server) => {
    t.equal((await select(server, { order_by: ids(1600) })).status, 200, 'an admin')
    for (const key of ['columns', 'order_by'])
      t.match(await select(server, { [key]: ids(1601) }, USER), sixteenHundred(`$.args.${key}`))
    const distinct = await server.query('count', { table: 'item', distinct: ids(1601) }, USER)
    t.match(distinct, sixteenHundred('$.args.distinct'))
    const wildcard = (levels: number) => select(server, { columns: ['*.'.repeat(levels - 1) + '*'] }, USER)
    t.equal((await wildcard(5)).status, 200)
    for (const levels of [6, 400_000])
      t.match(await wildcard(levels), { status: 400, body: payload(/at most 5 levels/, '$.args.columns') })
  },
  'order.columns': async (t, server) => {
    t.equal((await select(server, { order_by: ids(100) }, USER)).status, 200)
    t.match(await select(server, { order_by: ids(101) }, USER), {
      status: 400,
      body: payload(/sorted by at most 100 columns/, '$.args'),
    })
    t.equal((await select(server, { order_by: ids(101) })).status, 200, 'an admin')
    const keys = ids(101).map((id) => `{${id}: asc}`)
    t.match((await graphql(server, `{ item(order_by: [${keys.join()}]) { id } }`, USER)).body, {
      errors: [{ message: /sorted by at most 100 columns/ }],
    })
  },
  'sql.characters': async (t, server) => {
    const lists = times(95, (n) => ({ name: 'others', alias: `o${n}`, columns: ['*'] }))
    t.match(await server.query('select', { table: 'wide', columns: lists }, USER), {
      status: 400,
      body: payload(/SQL has \d+ characters, and at most 1048576/, '$'),
    })
    t.equal((await server.query('select', { table: 'wide', columns: lists.slice(0, 5) }, USER)).status, 200)
  },
  'answer.bytes': async (t, server) => {
    const big = (args: object) => server.query('select', { table: 'big', columns: ['id', 't'], ...args }, USER)
    t.equal((await big({ limit: 3 })).body.length, 3)
    t.match(await big({ limit: 5 }), {
      status: 400,
      body: { code: 'answer-too-large', error: /1 MiB \(database.maxAnswerBytes\)/ },
    })
    t.equal((await big({})).body.length, 5)
  },
  'answer.row': async (t, server) => {
    const select = (id: number) =>
      server.query('select', { table: 'big_rows', columns: ['id', 't'], where: { id: { $gte: id } } }, USER)
    t.equal((await select(2)).status, 200)
    t.match(await select(1), { status: 400, body: { code: 'answer-too-large' } })
  },
  'answer.anonymous': async (t, { databaseUrl }) => {
    const database = { maxAnonymousAnswerBytes: 500_000 }
    const server = await testServer(t, { databaseUrl, config: { database } })
    const read = (limit: number) => ({ type: 'select', args: { table: 'big', columns: ['t'], limit } })
    const anonymous = { role: 'anonymous' }
    const tooLarge = { status: 400, body: { code: 'answer-too-large' } }
    t.equal((await server.query('select', read(1).args, anonymous)).status, 200)
    t.match(await server.query('select', read(2).args, anonymous), tooLarge)
    t.match(await server.query('bulk', [read(1), read(1)], anonymous), tooLarge)
    t.equal((await server.query('bulk', [read(2), read(2)], USER)).status, 200)
  },
  'answer.together': async (t, server) => {
    const tooLarge = { errors: [{ extensions: { code: 'answer-too-large' } }] }
    const three = { type: 'select', args: { table: 'big', columns: ['id', 't'], limit: 3 } }
    t.equal((await server.query('bulk', [three], USER)).status, 200)
    t.match(await server.query('bulk', [three, three], USER), { status: 400, body: { code: 'answer-too-large' } })
    const query = { query: '{ big(limit: 3) { id t } }' }
    const remove = { query: 'mutation { delete_big(where: {}) { affected_rows } }' }
    const body = JSON.stringify([query, query, remove])
    const { body: batch } = await server.fetch('/v1/graphql', { method: 'POST', body })
    t.match(batch, [{ data: { big: Array } }, tooLarge, tooLarge], 'what follows does not run')
    t.match(await server.must('count', { table: 'big' }), { count: 5 })
    const update = (alias: string) => `${alias}: update_big(where: {id: {_lt: 3}}, _inc: {id: 0}) { returning { t } }`
    t.equal((await graphql(server, `mutation { ${update('a')} }`)).body.errors, undefined)
    t.match((await graphql(server, `mutation { ${update('a')} ${update('b')} }`)).body, tooLarge)
  },
  'patterns.operators': async (t, server) => {
    const error = /has 11 pattern operators, and at most 10 .*limits\.patterns\.operators/
    const many = { status: 400, body: payload(error) }
    t.equal((await select(server, { where: patterns(10) }, USER)).status, 200)
    t.match(await select(server, { where: patterns(11) }, USER), many)
    t.match(await select(server, { where: patterns(11), limit: undefined }, { role: 'anonymous' }), many)
    t.match(await server.query('count', { table: 'item', where: { owned: patterns(11, '$iregex') } }, USER), many)
    const member = (count: number) => ({ type: 'count', args: { table: 'item', where: patterns(count) } })
    t.match(await server.query('bulk', [member(6), member(5)], USER), many)
    const or = times(11, (i) => `{name: {_like: "a${i}"}}`).join()
    t.match((await graphql(server, `{item(where: {_or: [${or}]}) {id}}`, USER)).body, { errors: [{ message: error }] })
    await server.must('create_query_template', { name: 'many', template: member(11) })
    t.match(await server.fetch('/v1/template/many', {}, USER), many)
    t.equal((await select(server, { where: patterns(100) })).status, 200, 'an admin')
  },
  'patterns.characters': async (t, server) => {
    const ask = (name: object, as?: As) => select(server, { where: { name } }, as)
    for (const op of ['$regex', '$niregex', '$similar']) {
      t.equal((await ask({ [op]: 'x'.repeat(100) }, USER)).status, 200)
      t.match(await ask({ [op]: 'x'.repeat(101) }, USER), {
        status: 400,
        body: payload(/101 characters of regular expressions, and at most 100/, `$.args.where.name.${op}`),
      })
    }
    t.match(await ask({ $regex: 'x'.repeat(60), $iregex: 'x'.repeat(60) }, USER), { status: 400 }, 'together')
    t.match(await ask({ $regex: String.raw`(.+)\1` }, USER), { status: 400, body: { error: /back-reference/ } })
    t.equal((await ask({ $regex: String.raw`^a\d+` }, USER)).status, 200)
    t.equal((await ask({ $regex: `${'x'.repeat(101)}(.+)\\1` })).status, 200, 'an admin')
  },
  'patterns.wildcards': async (t, server) => {
    const ask = (name: object, as?: As) => select(server, { where: { name } }, as)
    t.equal((await ask({ $like: 'x'.repeat(1000) }, USER)).status, 200)
    t.match(await ask({ $nilike: 'x'.repeat(1001) }, USER), { status: 400, body: { error: /at most 1000 characters/ } })
    t.equal((await ask({ $ilike: '_%'.repeat(10) }, USER)).status, 200)
    t.match(await ask({ $ilike: '_'.repeat(21) }, USER), {
      status: 400,
      body: { error: /21 wildcards, and at most 20/ },
    })
    const escaped = String.raw`\_\%`.repeat(20)
    t.equal((await ask({ $like: `${escaped}${'%'.repeat(20)}` }, USER)).status, 200, 'what is escaped')
    t.match(await ask({ $like: String.raw`\\%`.repeat(21) }, USER), { status: 400, body: { error: /21 wildcards/ } })
    t.equal((await ask({ $ilike: '_'.repeat(1001) })).status, 200, 'an admin')
  },
  'array.elements': async (t, server) => {
    const contains = (count: number, as?: As) =>
      server.query('count', { table: 'item', where: { marks: { $contains: times(count, () => 1) } } }, as)
    t.equal((await contains(10_000, USER)).status, 200)
    t.match(await contains(10_001, USER), {
      status: 400,
      body: payload(/the array has 10001 elements, and at most 10000/, '$.args.where.marks.$contains'),
    })
    t.equal((await contains(10_001)).status, 200, 'an admin')
  },
  'price.request': async (t, { strict }) => {
    const ask = (args: object, as: As = USER) => strict.query('select', args, as)
    const towns = (limit?: number) => ({
      table: 'region',
      columns: ['id', { name: 'towns', columns: ['id', 'name'], limit }],
    })
    const all = { table: 'town', columns: ['*'] }
    t.match(await ask(towns()), {
      status: 400,
      body: payload(
        /^the request may cost about 20100 points, and at most 5000 are allowed \(limits\.price\); limit its lists$/,
      ),
    })
    t.match((await ask(all)).body, { error: /about 30000 points/ })
    t.match((await ask({ ...all, where: { id: { $gt: 1 } } })).body, { error: /about 11000 points/ })
    t.equal((await ask(towns(10))).status, 200, 'a limit makes a list short')
    t.equal((await ask({ ...all, where: { id: 1 } })).status, 200, 'a key gives one row')
    const mayor = { role: 'mayor', variables: { 'x-service-user-id': '1' } }
    t.equal((await ask(all, mayor)).status, 200, 'the filter of a role leaves few rows')
    t.equal((await strict.query('select', towns())).status, 200, 'an admin')
    const caller = user(5)
    t.match((await graphql(strict, '{ region { id towns { id name } } }', caller)).body, {
      errors: [{ message: /may cost about \d+ points, and at most 5000 are allowed \(limits\.price\)/ }],
    })
    t.same((await graphql(strict, '{ town(where: {id: {_eq: 1}}) { id } }', caller)).body, {
      data: { town: [{ id: 1 }] },
    })
    t.match((await graphql(strict, '{ region { towns(limit: 5) { id } } }', caller)).body, {
      data: { region: { length: 10 } },
    })
    t.equal((await graphql(strict, '{ region { id towns { id name } } }')).body.errors, undefined, 'an admin')
    await strict.sql('create table new_town as select * from town; analyze new_town')
    await strict.must('bulk', [{ type: 'track_table', args: 'new_town' }, permit('new_town', 'user')])
    t.equal((await ask({ table: 'new_town', columns: ['*'] })).status, 200, 'its statistics have not been read yet')
  },
  'price.bulk': async (t, { strict }) => {
    const members = (count: number) =>
      times(count, () => ({ type: 'select', args: { table: 'town', columns: ['*'], limit: 100 } }))
    t.equal((await strict.query('bulk', members(16), USER)).status, 200)
    t.match((await strict.query('bulk', members(17), USER)).body, { error: /points/ })
    t.equal((await strict.query('bulk', members(17))).status, 200, 'an admin')
  },
  'queries.new': async (t, { strict }) => {
    if (PROCESSES > 1) return
    const flooder = user(3)
    const known = (id: number, as: As) => select(strict, { where: { id } }, as)
    t.equal((await known(1, flooder)).status, 200)
    const flood = await Promise.all(times(4 * SHAPES, (i) => novel(strict, i, flooder)))
    const answered = flood.filter(({ status }) => status === 200).length
    t.ok(answered >= SHAPES - 1 && answered < 3 * SHAPES, `${answered} of ${flood.length} are answered`)
    const late = flood.find(({ status }) => status !== 200)
    t.match(late, {
      status: 429,
      body: { path: '$', error: /limits\.newQueries/, code: 'too-many-requests', message: /limits\.newQueries/ },
    })
    t.equal(late?.headers.get('retry-after'), '1')
    const hits = await Promise.all(times(60, (id) => known(id, flooder)))
    t.same(new Set(hits.map(({ status }) => status)), new Set([200]), 'what is known')
    t.equal((await novel(strict, 100, user(4))).status, 200, 'another user')
    t.equal((await novel(strict, 100, { ...flooder, role: 'guest' })).status, 200, 'the same id in another role')
    t.equal((await novel(strict, 100, { role: 'user' })).status, 200, 'the role without an id')
    const secret = times(3 * SHAPES, (i) => select(strict, { columns: [`secret${i}`] }, user(5)))
    const statuses = (await Promise.all(secret)).map(({ status }) => status)
    t.same(new Set(statuses), new Set([400, 429]), 'what is refused for its content counts as well')
    const bare = (shape: number) => {
      const args = { table: 'item', columns: ['id'], limit: 1, where: { $or: times(shape + 2, () => ({ id: 1 })) } }
      return strict.bare('/v1/query', { method: 'POST', body: JSON.stringify({ type: 'select', args }) })
    }
    const anonymous = await Promise.all(times(3 * SHAPES, bare))
    t.ok(
      anonymous.some(({ status }) => status === 429),
      'an address without credentials',
    )
    let shape = 200
    await until('there is room again', async () => (await novel(strict, shape++, flooder)).status === 200)
    t.match((await strict.fetch('/metrics')).text, /rowhouse_compilations_refused_total [1-9]/)
  },
  'queries.size': async (t, { strict }) => {
    // Of about 6,000 characters, each of which counts twice.
    const long = (i: number) => select(strict, { where: { $or: times(300 + i, () => ({ id: 1 })) } }, user(21))
    const statuses = (await Promise.all(times(SHAPES, long))).map(({ status }) => status)
    const answered = statuses.filter((status) => status === 200).length
    t.ok(answered < SHAPES && answered >= SHAPES / 4, `${answered} of ${SHAPES} are answered`)
    const limits = { price: 0, newQueries: { perSecond: 1, burst: 3 } }
    const { databaseUrl } = strict
    const few = await testServer(t, { databaseUrl, config: { limits } })
    t.equal(
      (await select(few, { where: { $or: times(1990, () => ({ id: 1 })) } }, USER)).status,
      200,
      'none is too long',
    )
  },
  'queries.turns': async (t, { databaseUrl }) => {
    const server = await testServer(t, { databaseUrl, threads: 1 })
    t.equal((await novel(server, 1, user(30))).status, 200)
    let done = 0
    // Reading such a request takes a tenth of the time of compiling it.
    const long = (i: number) => graphql(server, `query a${i} { item(limit: 1) { ${'id '.repeat(4900)} } }`, user(31))
    const crowd = times(24, (i) => long(i).finally(() => done++))
    await until('the crowd waits', async () => (await requestsIn(server)) > 16)
    const before = done
    t.equal((await novel(server, 2, user(32))).status, 200)
    t.ok(done - before < 6, `another caller is answered before most of the crowd, after ${done - before}`)
    t.same(new Set((await Promise.all(crowd)).map(({ status }) => status)), new Set([200]), 'and all of the crowd')
  },
  'queries.admin': async (t, { strict }) => {
    const all = await Promise.all(times(3 * SHAPES, (i) => novel(strict, i)))
    t.same(new Set(all.map(({ status }) => status)), new Set([200]))
  },
}

const permit = (table: string, role: string, filter = {}) => ({
  type: 'create_select_permission',
  args: { table, role, permission: { columns: '*', filter } },
})

/** A query of a shape of its own. */
const novel = (server: TestServer, shape: number, as?: As): Promise<Answered> =>
  select(server, { where: { $or: times(shape + 2, () => ({ id: 1 })) } }, as)

const PAGES = {
  'core/http/README.md': {
    'Limits of callers': {
      'Bytes of a JSON body (`http.maxJsonBytes`, `maxAnonymousJsonBytes`, `maxAdminJsonBytes`)': [
        'body.bytes',
        'body.anonymous',
      ],
      'Values in a body, besides the rows in `objects` (`http.maxJsonValues`, `maxAnonymousJsonValues`)': [
        'body.values',
        'body.anonymous',
      ],
      'Bytes of bodies of more than 64 KiB in progress': 'body.turn',
      'Bytes of unfinished bodies and unread answers (`database.maxAnswerBytes`, `maxAnonymousAnswerBytes`)':
        'body.unfinished',
      'Bytes of an answer that is held in memory (the same settings)': ['answer.bytes', 'answer.anonymous'],
      'Estimated cost (`limits.price`)': 'price.request',
      'New query shapes (`limits.newQueries`), each 4,096 characters of one': ['queries.new', 'queries.size'],
      'New query shapes that are compiled at a time': 'queries.turns',
    },
  },
  'plugins/query/rows.md': {
    Limits: {
      'Depth of a body': 'body.depth',
      'Keys in an object': 'body.keys',
      'Levels of a condition': 'condition.levels',
      'Parts of a condition': 'condition.parts',
      'Members of a bulk': 'bulk.members',
      'Statements for related rows in a transaction': 'nested.statements',
      'Bytes of the name of a relationship or computed field': 'name.bytes',
      'Names in a list of columns': 'columns.count',
      'Columns that a role sorts by': 'order.columns',
      'Characters of the generated SQL': 'sql.characters',
    },
  },
} as const

export const limits = area('limits', { promises: PROMISES, pages: PAGES, cases: CASES, start })

interface Limited extends TestServer {
  /** With a low price and few new query shapes. */
  readonly strict: TestServer
  /** With the default limits. */
  readonly roomy: TestServer
}

async function start(t: Test): Promise<Limited> {
  const server = await testServer(t, {
    config: {
      http: { maxJsonBytes: MAX_JSON, maxAdminJsonBytes: MAX_ADMIN_JSON, maxJsonValues: 1_000_000 },
      database: { maxAnswerBytes: 1024 * 1024 },
    },
  })
  const columns = times(100, (n) => `${'a'.repeat(57)}${1000 + n} int`)
  await server.sql(`create table item (id serial primary key, name text, owner int references item, tags jsonb, marks int[]);
      insert into item (name, owner) select 'item ' || n, 1 from generate_series(1, 20) n;
      create table wide (id int primary key, other int references wide, ${columns.join()});
      create table big (id int primary key, t text);
      insert into big select n, repeat('x', 300000) from generate_series(1, 5) n;
      create table big_rows (id int primary key, t text);
      insert into big_rows values (1, repeat('x', 2000000)), (2, repeat('x', 900000));
      create table region (id int primary key);
      insert into region select generate_series(1, 10);
      create table town (id int primary key, region int references region, name text);
      insert into town select n, 1 + n % 10, 'town ' || n from generate_series(1, 2000) n;
      analyze region, town`)
  const tables = ['item', 'wide', 'big', 'big_rows', 'region', 'town']
  const relate = (table: string, name: string, remote: string, column: string) => ({
    type: 'create_array_relationship',
    args: { table, name, using: { foreign_key_constraint_on: { table: remote, column } } },
  })
  await server.must('bulk', [
    ...tables.map((table) => ({ type: 'track_table', args: table })),
    ...tables.map((table) => permit(table, 'user')),
    permit('item', 'anonymous'),
    permit('big', 'anonymous'),
    permit('item', 'guest'),
    permit('town', 'mayor', { region: 'X-Service-User-Id' }),
    relate('item', 'owned', 'item', 'owner'),
    relate('wide', 'others', 'wide', 'other'),
    relate('region', 'towns', 'town', 'region'),
  ])
  const limits = { price: 5000, newQueries: { perSecond: 1, burst: SHAPES } }
  const roomy = await testServer(t, { databaseUrl: server.databaseUrl })
  const strict = await testServer(t, { databaseUrl: server.databaseUrl, config: { limits } })
  return { ...server, roomy, strict }
}
