import { pathToFileURL } from 'node:url'
import { runInNewContext } from 'node:vm'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import type { Test } from 'tap'
import { permit, setUpLibrary } from '../kit/library.js'
import { area, type Case, type Expected, is, like, query, refused, type Step, text } from '../kit/promises.js'
import { type As, type TestServer, testServer } from '../kit/server.js'
import { until } from '../kit/until.js'

/** What can be a template beside plain queries, and how templates are described, measured and versioned. */
const PROMISES = {
  'select.having': 'having and after take parameters',
  'select.rank': 'query and language of a rank take parameters',
  'call.arguments': 'a template calls a function, with parameters in its arguments and those of a select',
  'insert.related': 'the data of related rows is a parameter, or has parameters in its values',
  'returning.where': 'relationships in returning take the parameters of a select',
  'message.fields': 'any field of an email or SMS is a parameter',
  'file.attach': 'file_id and uploader of attach_file are parameters',
  'plugin.lifted': 'an operation of a plugin that is a query is a template with the permissions of the caller',
  'plugin.schema': 'other operations take parameters where their plugin says so, checked by their schema',
  'plugin.fixed': 'what is fixed is checked when the template is created',
  'plugin.bulk': 'a bulk of such operations is a template',
  'plugin.admin': 'an operation for admin is refused to roles, and not listed',
  'plugin.not-templatable': 'an operation that does not say so cannot be a template',
  'step.reference': 'an argument is never a reference, and steps of the caller use references as arguments',
  'dry.header': 'Prefer: tx=rollback runs a template and rolls it back',
  'dry.argument': 'dry_run as an argument is refused',
  'format.select': 'a select answers as CSV and NDJSON, too',
  'format.others': 'other templates do not',
  'list.parameters': 'GET /v1/template lists templates with the JSON Schema of each parameter',
  'openapi.valid': 'GET /v1/openapi.json is a valid OpenAPI 3.1 document, with an id for each operation',
  'openapi.parameters': 'it describes parameters, with types and defaults',
  'openapi.body': 'it describes bodies, with the columns that are required',
  'openapi.response': 'it describes responses',
  'openapi.methods': 'it offers GET for templates that read only',
  'openapi.role': 'it describes what the role may run, with the columns that the role may give',
  'openapi.page': 'GET /v1/openapi is a page for browsers',
  'openapi.page-caller': 'the page sends requests as the caller whom its form names',
  'version.etag': 'a select by primary key answers with the version as ETag',
  'version.not-modified': 'a GET with that ETag in If-None-Match gets 304 without a body, until the row changes',
  'version.related': 'or a related row of the answer changes',
  'version.hidden': 'If-None-Match tells nothing about a row that the role does not see',
  'version.if-match': 'an update with another version in If-Match is 412, and changes nothing',
  'version.elsewhere': 'If-Match with a template that is not one update or delete is refused',
  'version.openapi': 'the OpenAPI document has the headers and their responses',
  'version.parameter': 'expect takes the version as a parameter',
  'usage.calls': 'template_usage lists templates with roles, calls and arguments to plan them',
  'usage.admin': 'template_usage is for admin',
  'metric.calls': '/metrics counts the calls of each template by outcome',
  'metric.names': 'with any name, of templates that exist only',
} as const

/** A plugin of somebody else. */
const PLUGIN = `
export default {
  name: 'notebook',
  setup(host) {
    const data = host.use('data')
    const operations = host.use('operations')
    const lift = ({ where, most }) => operations.lift({ type: 'select', args: { table: 'article', columns: ['id'], order_by: 'id', where, limit: most } })
    host.operation('find_articles', {
      formats: true,
      args: {
        type: 'object',
        properties: { where: { type: 'object' }, most: { type: 'integer', minimum: 2 } },
        required: ['where'],
        additionalProperties: false,
      },
      templatable: { where: 'condition', most: 'count' },
      lift,
      run: (args, call) => data.read(lift(args), call),
    })
    const echo = async (args) => ({ kind: 'text', text: JSON.stringify(args) })
    host.operation('shout', {
      args: {
        type: 'object',
        properties: {
          to: { type: 'string', pattern: '^[a-z]+$' },
          times: { anyOf: [{ type: 'integer', minimum: 1 }, { type: 'null' }] },
          loud: { type: 'boolean' },
          more: { type: 'object', properties: { tags: { type: 'array', items: { type: 'integer' } } }, additionalProperties: false },
        },
        required: ['to'],
        additionalProperties: false,
      },
      templatable: { to: 'value', times: 'value', loud: 'value', more: { tags: 'value' } },
      answer: { type: 'object', properties: { to: { type: 'string' } } },
      run: echo,
    })
    host.operation('whisper', { admin: true, templatable: { '*': 'text' }, run: echo })
    host.operation('mumble', { run: echo })
  },
}`

const SQL = `
create function titled(word text, low int default 0) returns setof article language sql stable as
  $$ select * from article where title like word || '%' and rating >= low $$;
create table versioned (id int primary key, body text, version int not null default 1);
insert into versioned values (1, 'one', 1);
create function next_version() returns trigger language plpgsql as $$ begin new.version = old.version + 1; return new; end $$;
create trigger next_version before update on versioned for each row execute function next_version();
create table product (id serial primary key, label text not null, note text, tags int[], made date, double int generated always as (1) stored);`

const ANN: As = { role: 'user', variables: { 'x-service-user-id': '1' } }
const NOBODY: As = { role: 'nobody' }
const done = text('{"message":"success"}')
const param = (name: string, ...fallback: readonly unknown[]) => ({
  param: name,
  ...(fallback.length > 0 ? { default: fallback[0] } : {}),
})
const make = (name: string, type: string, args: unknown, expected: Expected = done): Step =>
  query('create_query_template', { name, template: { type, args } }, expected)
const run = (name: string, args: object, expected: Expected, as?: As): Step =>
  query('execute_query_template', { name, args }, expected, as)
const rest = (
  method: string,
  call: string,
  expected: Expected,
  more: { body?: string; headers?: Record<string, string>; as?: As } = {},
): Step => ({ method, path: `/v1/template/${call}`, expected, ...more })
const ids = (...all: readonly number[]) => all.map((id) => ({ id }))
const VERSIONED = { table: 'versioned', where: { id: param('id') } }
const documentOf = async (server: TestServer, as?: As) => (await server.fetch('/v1/openapi.json', {}, as)).body

const IF_MATCH = { 'if-match': '"1"' }
const validatorOf = (schema: object) =>
  new Ajv2020({
    strict: false,
    formats: { int32: true, int64: true, uuid: true, 'date-time': true, date: true },
  }).compile(schema)

/** In order: later ones see what earlier ones left. */
const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'select.having': [
    make('groups', 'select', {
      table: 'article',
      columns: ['author_id', { max: 'rating', as: 'best' }],
      group_by: ['author_id'],
      having: { best: { $gt: param('above') } },
    }),
    run('groups', { above: 50 }, is([{ author_id: 2, best: 60 }])),
    make('behind', 'select', {
      table: 'article',
      columns: ['id'],
      order_by: ['-rating'],
      limit: 2,
      after: { rating: param('rating'), id: param('id') },
    }),
    run('behind', { rating: 40, id: 4 }, is(ids(3, 2))),
  ],
  'select.rank': [
    make('ranked', 'select', {
      table: 'article',
      columns: ['id'],
      order_by: [{ rank: { column: 'title', query: param('words'), language: param('language', 'simple') } }, 'id'],
      limit: 1,
    }),
    run('ranked', { words: 'a4' }, is(ids(4))),
    run('ranked', { words: 5 }, refused('parse-failed', /^parameter "words"/, '$.args.args.words')),
    run('ranked', { words: 'x', language: 'klingon' }, refused('postgres-error', /"klingon" does not exist/)),
    run('ranked', {}, refused('invalid-params', 'parameter "words" is missing')),
  ],
  'call.arguments': [
    make('found', 'call', {
      function: 'titled',
      arguments: { word: param('word'), low: param('low', 50) },
      columns: ['id'],
      order_by: ['id'],
      limit: param('limit', null),
    }),
    run('found', { word: 'a' }, is(ids(5, 6))),
    rest('GET', 'found?word=a&low=20&limit=1', is(ids(2))),
    run('found', { word: 'a' }, refused('permission-denied', /titled/), ANN),
  ],
  'insert.related': [
    make('whole', 'insert', { table: 'author', objects: [{ id: param('id'), articles: { data: param('articles') } }] }),
    run('whole', { id: 10, articles: [{ id: 100 }, { id: 101 }] }, is({ affected_rows: 3 })),
    make('values', 'insert', {
      table: 'author',
      objects: [{ id: param('id'), articles: { data: [{ id: param('article'), title: 'fixed' }] } }],
    }),
    run('values', { id: 11, article: 110 }, is({ affected_rows: 2 })),
    query('count', { table: 'article', where: { author_id: { $in: [10, 11] } } }, is({ count: 3 })),
  ],
  'returning.where': [
    make('renamed', 'update', {
      table: 'author',
      where: { id: param('id') },
      $set: { name: param('name') },
      returning: [
        'name',
        {
          name: 'articles',
          columns: ['id'],
          where: { id: { $gt: param('above') } },
          order_by: ['id'],
          limit: param('most', 1),
        },
      ],
    }),
    run(
      'renamed',
      { id: 10, name: 'Ten', above: 99 },
      is({ affected_rows: 1, returning: [{ name: 'Ten', articles: ids(100) }] }),
    ),
  ],
  'message.fields': [
    make('mail', 'send_email', { to: param('to'), from: 'shop@example.com', sub: param('sub'), text: 'Hi' }),
    run('mail', { to: 'reader@example.com', sub: 'Hello' }, { status: 200 }),
    make('text', 'send_sms', { to: param('to'), countryCode: 1, message: param('message') }),
    run('text', { to: 5550100, message: 'Hello' }, { status: 200 }),
    run('mail', { to: 'reader@example.com' }, refused('invalid-params', 'parameter "sub" is missing')),
  ],
  'file.attach': [
    {
      path: '/v1/file/cover?pending=true',
      method: 'POST',
      body: 'bytes',
      headers: { 'content-type': 'text/plain', 'x-service-user-id': '1' },
      expected: { status: 200 },
    },
    make('attach', 'attach_file', { file_id: param('id'), uploader: { user_id: param('user'), user_role: 'admin' } }),
    run(
      'attach',
      { id: 'cover', user: 1 },
      like({ file_id: 'cover', file_status: 'uploaded', file_size: 5, user_id: 1 }),
      { variables: { 'x-service-user-id': '1' } },
    ),
  ],
  'plugin.lifted': [
    make('picked', 'find_articles', { where: { id: { $in: param('ids') } }, most: param('most', 5) }),
    run('picked', { ids: [1, 2, 3] }, is(ids(1, 2, 3))),
    rest('GET', 'picked?ids=3&ids=2', is(ids(3)), { as: ANN }),
    rest('GET', 'picked?ids=3', text('id\r\n3\r\n'), { headers: { accept: 'text/csv' } }),
    run('picked', { ids: [true] }, { status: 400, like: { path: '$.args.args.ids[0]' } }),
    run(
      'picked',
      { ids: [1], most: 1 },
      refused('parse-failed', /^parameter "most": must be >= 2/, '$.args.args.most'),
    ),
    run('picked', { ids: [1] }, refused('permission-denied', /article/), NOBODY),
    { path: '/v1/template', method: 'GET', as: NOBODY, expected: like({ length: 1, 0: { name: 'attach' } }) },
    make('weighed', 'find_articles', { where: { weight: param('weight') } }),
    query(
      'run_sql',
      { sql: 'alter table article drop column weight' },
      refused('dependency-error', /query-template weighed/),
    ),
  ],
  'plugin.schema': [
    make('shouted', 'shout', {
      to: param('to'),
      times: param('times', 1),
      loud: param('loud', true),
      more: { tags: param('tags') },
    }),
    run('shouted', { to: 'ann', tags: [1] }, is({ to: 'ann', times: 1, loud: true, more: { tags: [1] } })),
    rest(
      'GET',
      'shouted?to=ann&loud=false&tags=1&tags=2',
      is({ to: 'ann', times: 1, loud: false, more: { tags: [1, 2] } }),
    ),
    rest('GET', 'shouted?to=ann&loud=maybe&tags=1', { status: 400, like: { path: '$.loud' } }),
    rest('GET', 'shouted?to=ANN&tags=1', { status: 400, like: { path: '$.to' } }),
    rest('GET', 'shouted?to=ann&tags=1', refused('csrf', /./, '$', 403), { headers: { 'sec-purpose': 'prefetch' } }),
  ],
  'plugin.fixed': (
    [
      [{ to: 'ANN' }, '.to'],
      [{ times: 1 }, ''],
      [{ to: param('to'), nope: 1 }, '.nope'],
      [{ to: param('to'), times: 0 }, '.times'],
      [{ to: param('to', 'ANN') }, '.to.default'],
      [{ to: param('to'), more: param('more') }, '.more.param'],
    ] as const
  ).map(([args, path]) => make('bad', 'shout', args, { status: 400, like: { path: `$.args.template.args${path}` } })),
  'plugin.bulk': [
    make('both', 'bulk', [
      { type: 'shout', args: { to: param('to') } },
      { type: 'find_articles', args: { where: { id: param('id') } } },
    ]),
    run('both', { to: 'ann', id: 1 }, is([{ to: 'ann' }, ids(1)])),
    rest('GET', 'both?to=ANN&id=1', refused('parse-failed', /./, '$.to')),
  ],
  'plugin.admin': [
    make('whispered', 'whisper', { a: param('a'), b: ['x', param('b')] }),
    rest('GET', 'whispered?a=1&b=2', is({ a: '1', b: ['x', '2'] })),
    run('whispered', { a: 'x', b: 'y' }, refused('access-denied', /./), ANN),
  ],
  'plugin.not-templatable': [
    make(
      'mumbled',
      'mumble',
      {},
      {
        status: 400,
        like: { error: /must be one of .*find_articles, .*shout, whisper/, path: '$.args.template.type' },
      },
    ),
  ],
  'step.reference': [
    make('by_title', 'select', { table: 'article', columns: ['id'], where: { title: param('title') } }),
    run('by_title', { title: { $ref: 'x.title' } }, refused('parse-failed', /^parameter "title"/)),
    query(
      'bulk',
      [
        { as: 'one', type: 'select', args: { table: 'article', columns: ['title'], where: { id: 3 } } },
        { type: 'execute_query_template', args: { name: 'by_title', args: { title: { $ref: 'one[0].title' } } } },
      ],
      is([[{ title: 'a3' }], ids(3)]),
    ),
  ],
  'dry.header': [
    make('drop_all', 'delete', { table: 'versioned', where: { id: { $gte: param('from') } } }),
    rest(
      'POST',
      'drop_all?from=0',
      { status: 200, body: { affected_rows: 1 }, headers: { 'preference-applied': 'tx=rollback' } },
      {
        headers: { prefer: 'tx=rollback' },
      },
    ),
    query('count', { table: 'versioned' }, is({ count: 1 })),
  ],
  'dry.argument': [
    run('drop_all', { from: 0, dry_run: true }, { status: 400, like: { error: /dry_run|dry run/ } }),
    query('count', { table: 'versioned' }, is({ count: 1 })),
  ],
  'format.select': [
    rest(
      'GET',
      'by_title?title=a3',
      { status: 200, text: 'id\r\n3\r\n', headers: { 'content-type': /^text\/csv/ } },
      {
        headers: { accept: 'text/csv' },
      },
    ),
    rest(
      'GET',
      'by_title?title=a3',
      { status: 200, text: '{"id":3}\n', headers: { 'content-type': /ndjson/ } },
      {
        headers: { accept: 'application/x-ndjson' },
      },
    ),
    { ...run('found', { word: 'a' }, text('id\r\n5\r\n6\r\n')), headers: { accept: 'text/csv' } },
  ],
  'format.others': [rest('POST', 'drop_all?from=9', { status: 406 }, { headers: { accept: 'text/csv' } })],
  'list.parameters': async (t, server) => {
    const listed = (await server.fetch('/v1/template')).body as { name: string; parameters: object }[]
    t.match(
      listed.find(({ name }) => name === 'found'),
      {
        name: 'found',
        type: 'call',
        parameters: [
          { name: 'limit', required: false, schema: { type: ['integer', 'null'] } },
          { name: 'low', required: false, schema: { type: ['integer', 'null'], default: 50 } },
          { name: 'word', required: true, schema: { type: ['string', 'null'] } },
        ],
      },
    )
    t.ok(listed.some(({ name }) => name === 'whispered'))
    const names = (await server.fetch('/v1/template', {}, ANN)).body.map(({ name }: { name: string }) => name)
    t.notOk(names.includes('whispered'))
    t.ok(names.includes('shouted'))
  },
  'openapi.valid': async (t, server) => {
    const odd = ['a name / with signs', 'get_found']
    const count = { type: 'count', args: { table: 'article', where: { id: param('id') } } }
    for (const name of odd) await server.must('create_query_template', { name, template: count })
    const document = await documentOf(server)
    const validator = new Validator()
    t.same(await validator.validate(structuredClone(document)), { valid: true })
    t.equal(validator.version, '3.1')
    const operations = Object.values<object>(document.paths).flatMap((path) => Object.values(path))
    const all = operations.map(({ operationId }: { operationId?: string }) => operationId)
    t.equal(new Set(all).size, all.length)
    t.equal(Object.keys(document.paths).length, (await server.fetch('/v1/template')).body.length)
    t.ok(document.paths['/v1/template/a%20name%20%2F%20with%20signs'])
    t.match((await server.fetch('/v1/template/a%20name%20%2F%20with%20signs?id=1', {}, ANN)).body, { count: 1 })
    for (const name of odd) await server.must('drop_query_template', { name })
  },
  'openapi.parameters': async (t, server) => {
    await server.must('create_query_template', {
      name: 'authors',
      template: {
        type: 'select',
        args: {
          table: 'author',
          columns: ['*', { name: 'articles', columns: ['*', { name: 'author', columns: ['id'] }] }],
          where: { id: { $in: param('ids') }, data: { $contains: param('info', {}) } },
          limit: param('n', 5),
        },
      },
    })
    const { paths } = await documentOf(server)
    const { get } = paths['/v1/template/picked']
    t.match(paths['/v1/template/authors'].get.parameters.slice(1), [
      { name: 'ids', in: 'query', required: true, schema: { type: 'array', items: { type: ['integer', 'null'] } } },
      { name: 'info', required: false, content: { 'application/json': {} } },
      { name: 'n', required: false, schema: { type: ['integer', 'null'], default: 5 } },
    ])
    t.match(get.parameters.slice(-2), [
      { name: 'ids', in: 'query', required: true, schema: { type: 'array', items: { type: ['integer', 'null'] } } },
      { name: 'most', in: 'query', required: false, schema: { type: 'integer', minimum: 2, default: 5 } },
    ])
  },
  'openapi.body': async (t, server) => {
    await server.must('create_query_template', {
      name: 'add',
      template: { type: 'insert', args: { table: 'product', objects: param('objects'), returning: ['id'] } },
    })
    const { schema } = (await documentOf(server)).paths['/v1/template/add'].post.requestBody.content['application/json']
    const { items } = schema.properties.objects
    t.same(items.required, ['label'])
    t.same(Object.keys(items.properties), ['id', 'label', 'note', 'tags', 'made'])
    t.match(items.properties, {
      label: { type: 'string' },
      note: { type: ['string', 'null'] },
      made: { format: 'date' },
    })
    t.equal(items.additionalProperties, false)
    const shouted = (await documentOf(server)).paths['/v1/template/shouted']
    t.match(shouted.post.requestBody.content['application/json'].schema.properties, {
      to: { type: 'string', pattern: '^[a-z]+$' },
      tags: { type: 'array', items: { type: 'integer' } },
    })
    const valid = validatorOf(schema)
    t.ok(valid({ objects: [{ label: 'x', tags: [1], note: null }] }), JSON.stringify(valid.errors))
    t.notOk(valid({ objects: [{ tags: [1] }] }), 'a column without default is required')
    t.notOk(valid({ objects: [{ label: 'x', double: 1 }] }), 'a generated column is none of them')
  },
  'openapi.response': async (t, server) => {
    const { paths } = await documentOf(server)
    const contentOf = (path: string, method: string) => paths[`/v1/template/${path}`][method].responses['200'].content
    t.match(contentOf('found', 'get')['application/json'].schema, {
      type: 'array',
      items: { properties: { id: { type: 'integer' } } },
    })
    t.ok(contentOf('found', 'get')['text/csv'])
    t.match(contentOf('picked', 'get'), {
      'application/json': { schema: { items: { properties: { id: { type: 'integer' } } } } },
      'text/csv': {},
    })
    t.same(contentOf('shouted', 'post'), {
      'application/json': { schema: { type: 'object', properties: { to: { type: 'string' } } } },
    })
    t.match(contentOf('add', 'post')['application/json'].schema.properties, { affected_rows: { type: 'integer' } })
    const answer = await server.fetch('/v1/template/authors?ids=1&ids=2')
    t.equal(answer.body.length, 2)
    const valid = validatorOf(contentOf('authors', 'get')['application/json'].schema)
    t.ok(valid(answer.body), JSON.stringify(valid.errors))
    t.notOk(valid([{ ...answer.body[0], id: 'x' }]))
    await server.must('drop_query_template', { name: 'authors' })
  },
  'openapi.methods': async (t, server) => {
    await server.must('create_query_template', {
      name: 'rename',
      template: {
        type: 'update',
        args: { table: 'product', where: { id: param('id') }, $set: { label: param('label') } },
      },
    })
    const { paths } = await documentOf(server)
    t.notOk(paths['/v1/template/rename'].get)
    await server.must('drop_query_template', { name: 'rename' })
    t.same(Object.keys(paths['/v1/template/found']).sort(), ['get', 'post'])
    t.same(Object.keys(paths['/v1/template/add']), ['post'])
    t.same(Object.keys(paths['/v1/template/shouted']), ['post'])
  },
  'openapi.role': async (t, server) => {
    const { paths } = await documentOf(server, ANN)
    t.ok(paths['/v1/template/by_title'])
    t.notOk(paths['/v1/template/groups'], 'a column that the role does not see')
    const { schema } = paths['/v1/template/add'].post.requestBody.content['application/json']
    t.same(schema.properties.objects.items, {
      type: 'object',
      properties: { note: { type: ['string', 'null'] } },
      additionalProperties: false,
    })
    t.same(Object.keys((await documentOf(server, NOBODY)).paths), ['/v1/template/attach', '/v1/template/shouted'])
  },
  'openapi.page': [
    {
      path: '/v1/openapi',
      method: 'GET',
      bare: true,
      expected: { status: 200, headers: { 'content-type': /^text\/html/ } },
    },
  ],
  'openapi.page-caller': async (t, server) => {
    const fields = { secret: 's', token: '', role: 'customer', user: '7' }
    const { text: script } = await server.fetch('/v1/openapi/assets/page.js')
    const { text: html } = await server.fetch('/v1/openapi')
    const asked: { requestInterceptor(request: { headers: object }): object }[] = []
    const sent: object[] = []
    const element = { addEventListener: () => undefined, hidden: false, textContent: '' }
    const answers: Record<string, object> = { '/': { links: [] }, '/v1/openapi.json': { paths: {} } }
    runInNewContext(script, {
      document: { getElementById: () => element },
      location: { pathname: '/v1/openapi' },
      window: { top: null },
      fetch: async (path: string, { headers }: { headers: object }) => {
        sent.push(headers)
        return { ok: true, json: async () => answers[path] }
      },
      FormData: function FormData() {
        return Object.entries(fields)
      },
      SwaggerUIBundle: (options: (typeof asked)[number]) => asked.push(options),
    })

    await until('the page shows the document', () => asked.length > 0)
    const headers = { 'X-Service-Admin-Secret': 's', 'X-Service-Role': 'customer', 'X-Service-User-Id': '7' }
    t.same(asked[0]?.requestInterceptor({ headers: {} }), { headers })
    t.same(sent.at(-1), headers)
    for (const name in fields) t.match(html, `<input name="${name}"`)
  },
  'version.etag': async (t, server) => {
    await server.must('set_table_version', { table: 'versioned', column: 'version' })
    await server.must('create_query_template', {
      name: 'read',
      template: { type: 'select', args: { ...VERSIONED, columns: ['body'] } },
    })
    t.match((await server.fetch('/v1/template/read?id=1')).headers.get('etag'), /^"1;[\w-]+"$/)
    t.equal((await server.fetch('/v1/template/by_title?title=a1')).headers.get('etag'), null, 'no primary key')
  },
  'version.not-modified': async (t, server) => {
    const etag = (await server.fetch('/v1/template/read?id=1')).headers.get('etag') as string
    const headers = { 'if-none-match': etag }
    const again = await server.fetch('/v1/template/read?id=1', { headers })
    t.same([again.status, again.text, again.headers.get('etag')], [304, '', etag])
    for (const header of [`W/${etag}`, `"0", ${etag}`, '*']) {
      const same = await server.fetch('/v1/template/read?id=1', { headers: { 'if-none-match': header } })
      t.same([same.status, same.text, same.headers.get('etag')], [304, '', etag], header)
    }
    for (const header of ['"other"', '"1"', '"2"'])
      t.equal((await server.fetch('/v1/template/read?id=1', { headers: { 'if-none-match': header } })).status, 200)
    const posted = await server.fetch('/v1/template/read', { method: 'POST', body: '{"id": 1}', headers })
    t.same([posted.status, posted.body], [200, [{ body: 'one' }]])
    await server.must('update', { table: 'versioned', where: { id: 1 }, $set: { body: 'two' } })
    const changed = await server.fetch('/v1/template/read?id=1', { headers })
    t.same([changed.status, changed.body], [200, [{ body: 'two' }]])
  },
  'version.related': async (t, server) => {
    await server.must('create_query_template', {
      name: 'read_with_author',
      template: {
        type: 'select',
        args: { ...VERSIONED, columns: ['body', { name: 'author', columns: ['name'] }] },
      },
    })
    const read = (etag = '"none"') =>
      server.fetch('/v1/template/read_with_author?id=1', { headers: { 'if-none-match': etag } })
    const etag = (await read()).headers.get('etag') as string
    t.equal((await read(etag)).status, 304)
    await server.must('update', { table: 'author', where: { id: 1 }, $set: { name: 'Anna' } })
    const changed = await read(etag)
    t.same([changed.status, changed.body], [200, [{ body: 'two', author: { name: 'Anna' } }]])
    t.equal(changed.headers.get('etag')?.slice(0, 3), etag.slice(0, 3), 'and not the row')
    await server.must('update', { table: 'author', where: { id: 1 }, $set: { name: 'Ann' } })
  },
  'version.hidden': [
    ...['"1"', '"2"', '*'].map((tag) =>
      rest('GET', 'read?id=1', is([]), { headers: { 'if-none-match': tag }, as: ANN }),
    ),
    rest('GET', 'read?id=1', is([{ body: 'two' }]), { headers: { 'if-none-match': '"2"' }, as: { role: 'blind' } }),
  ],
  'version.if-match': [
    make('drop_one', 'delete', VERSIONED),
    make('write', 'update', { ...VERSIONED, $set: { body: param('body') } }),
    rest('PUT', 'write?id=1&body=x', refused('precondition-failed', /./, '$.headers.If-Match', 412), {
      headers: { 'if-match': '"99"' },
    }),
    rest('GET', 'read?id=1', is([{ body: 'two' }])),
    rest('PUT', 'write?id=1&body=x', is({ affected_rows: 1 }), { headers: { 'if-match': '"2"' } }),
    rest('GET', 'read?id=1', is([{ body: 'x' }])),
    { ...run('write', { id: 1, body: 'y' }, { status: 412 }), headers: { 'if-match': '"2"' } },
    { ...run('write', { id: 1, body: 'x' }, is({ affected_rows: 1 })), headers: { 'if-match': '"3"' } },
    rest('DELETE', 'drop_one?id=1', { status: 412 }, { headers: { 'if-match': '"3"' } }),
    query('insert', { table: 'versioned', objects: [{ id: 2 }] }, is({ affected_rows: 1 })),
    rest('DELETE', 'drop_one?id=2', is({ affected_rows: 1 }), { headers: IF_MATCH }),
  ],
  'version.elsewhere': [
    make('drop_some', 'bulk', [{ type: 'delete', args: VERSIONED }]),
    ...['drop_some', 'read'].flatMap((name) => [
      rest('PUT', name, refused('not-supported', /./, '$.headers.If-Match'), { body: '{"id": 1}', headers: IF_MATCH }),
      { ...run(name, { id: 1 }, refused('not-supported', /./, '$.headers.If-Match')), headers: IF_MATCH },
    ]),
    query('count', { table: 'versioned' }, is({ count: 1 })),
  ],
  'version.openapi': async (t, server) => {
    const { paths } = await documentOf(server)
    const has = (name: string, method: string) => {
      const { responses, parameters } = paths[`/v1/template/${name}`][method]
      const headers = parameters.filter((each: { in?: string }) => each.in === 'header')
      return [Object.keys(responses), headers.map((each: { name: string }) => each.name)]
    }
    t.same(has('read', 'get'), [['200', '304', '400'], ['If-None-Match']])
    t.same(has('read', 'post')[1], [])
    t.same(has('read_with_author', 'get')[0], ['200', '304', '400'])
    t.same(has('write', 'post'), [['200', '400', '412'], ['If-Match']])
    t.same(has('drop_some', 'post'), [['200', '400'], []])
  },
  'version.parameter': [
    make('expecting', 'update', { ...VERSIONED, expect: { version: param('version') }, $set: { body: param('body') } }),
    run('expecting', { id: 1, version: '2', body: 'y' }, { status: 412, like: { code: 'precondition-failed' } }),
    run('expecting', { id: 1, version: '4', body: 'y' }, is({ affected_rows: 1 })),
    make('removing', 'delete', { ...VERSIONED, expect: { version: param('version') } }),
    run('removing', { id: 1, version: '1' }, { status: 412 }),
    rest('PUT', 'expecting', refused('precondition-failed', /./, '$.version', 412), {
      body: '{"id": 1, "version": "2", "body": "y"}',
    }),
    rest('PUT', 'expecting', refused('parse-failed', /./, '$.version'), {
      body: '{"id": 1, "version": null, "body": "y"}',
    }),
    run('removing', { id: 1, version: '5' }, is({ affected_rows: 1 })),
  ],
  'usage.calls': async (t, server) => {
    const { templates } = (await server.must('template_usage', {})) as { templates: { name: string }[] }
    const usage = (name: string) => templates.find((each) => each.name === name)
    t.match(usage('by_title'), { roles: ['user'], calls: 5, total_ms: Number, example: { title: String } })
    t.match(usage('add'), { roles: ['user'], calls: 0, total_ms: 0 })
    t.match(usage('whispered'), { roles: [], calls: 2 })
  },
  'usage.admin': [query('template_usage', {}, refused('access-denied', /./), ANN)],
  'metric.calls': async (t, server) => {
    const { text: metrics } = await server.fetch('/metrics')
    const count = (outcome: string) =>
      new RegExp(`rowhouse_template_duration_seconds_count\\{template="by_title",outcome="${outcome}"\\} (\\d+)`).exec(
        metrics,
      )?.[1]
    t.equal(count('ok'), '4')
    t.equal(count('refused'), '1')
  },
  'metric.names': async (t, server) => {
    const name = 'say "so" \\ \n'
    await server.must('create_query_template', {
      name,
      template: { type: 'count', args: { table: 'article', where: { id: { $gt: param('above') } } } },
    })
    const ask = (called: string, args: object, as?: As) =>
      server.query('execute_query_template', { name: called, args }, as)
    await ask(name, { above: 1 })
    await server.fetch(`/v1/template/${encodeURIComponent(name)}?above=2`)
    await ask(name, {})
    await ask(name, { above: 1 }, NOBODY)
    await ask('no such template', {})
    const { text: metrics } = await server.fetch('/metrics')
    const label = String.raw`template="say \"so\" \\ \n"`
    for (const outcome of ['ok', 'refused'])
      t.ok(metrics.includes(`rowhouse_template_duration_seconds_count{${label},outcome="${outcome}"} 2\n`), outcome)
    t.notMatch(metrics, /no such template/)
  },
}

/** Its promises, with a case for each. */
export const templateOperations = area('template-operations', {
  promises: PROMISES,
  cases: CASES,
  start,
  pages: {
    'plugins/template/README.md': {
      'Operations of `POST /v1/query`': {
        '`template_usage`': ['usage.calls', 'usage.admin'],
      },
      Parameters: {
        '`select`': ['select.having', 'select.rank'],
        '`call`': 'call.arguments',
        '`insert`': 'insert.related',
        '`update`': 'version.parameter',
        '`delete`': 'version.parameter',
        '`insert`, `update`, `delete`': 'returning.where',
        '`send_email`, `send_sms` ([notify](../notify/README.md))': 'message.fields',
        '`attach_file` ([filestore](../filestore/uploads.md#files-in-transactions))': 'file.attach',
        'operations of other plugins': ['plugin.lifted', 'plugin.schema'],
      },
      Metrics: {
        '`rowhouse_template_duration_seconds`': 'metric.calls',
      },
    },
  },
})

async function start(t: Test) {
  const folder = t.testdir({ 'notebook.mjs': PLUGIN, files: {} })
  const server = await testServer(t, {
    files: true,
    notify: true,
    builtins: { notebook: pathToFileURL(`${folder}/notebook.mjs`) },
    config: {
      dataDir: `${folder}/files`,
      providers: { email: { default: 'memory', memory: {} }, sms: { default: 'memory', memory: {} } },
    },
  })
  await setUpLibrary(server, [
    { type: 'run_sql', args: { sql: SQL } },
    ...['versioned', 'product'].map((table) => ({ type: 'track_table', args: table })),
    {
      type: 'create_object_relationship',
      args: {
        table: 'versioned',
        name: 'author',
        using: { manual_configuration: { remote_table: 'author', column_mapping: { id: 'id' } } },
      },
    },
    permit('select', 'versioned', 'user', { columns: ['id', 'body', 'version'], filter: { id: { $ne: 1 } } }),
    permit('select', 'versioned', 'blind', { columns: ['id', 'body'], filter: {} }),
    { type: 'track_table', args: { schema: 'svc_catalog', name: 'svc_outbox' } },
    { type: 'track_function', args: 'titled' },
    permit('select', 'article', 'user', { columns: ['id', 'title'], filter: { published: true } }),
    permit('select', 'product', 'user', { columns: ['id'], filter: {} }),
    permit('insert', 'product', 'user', { check: {}, columns: ['note'], set: { label: 'set' } }),
  ])
  return server
}
