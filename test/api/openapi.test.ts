import { runInNewContext } from 'node:vm'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import tap from 'tap'
import { testServer } from '../kit/server.js'
import { until } from '../kit/until.js'

const SQL = `
create table kind (id uuid primary key default gen_random_uuid(), name text not null);
create table thing (
  id bigserial primary key, label text not null, note text, price numeric(10,2), made timestamptz, tags int[], info jsonb,
  kind_id uuid references kind, double bigint generated always as (id * 2) stored
);
insert into kind values ('00000000-0000-0000-0000-000000000001', 'small');
insert into thing (label, price, made, tags, info, kind_id)
  values ('one', 1.5, '2024-02-03 04:05:06Z', '{1,null}', '{"a": 1}', '00000000-0000-0000-0000-000000000001'), ('two', null, null, null, '{}', null);`

const columns = ['id', 'label', 'note', 'price', 'made', 'tags', 'info', { name: 'kind', columns: ['*'] }]
const TEMPLATES = {
  things: {
    type: 'select',
    args: {
      table: 'thing',
      columns,
      where: { id: { $in: { param: 'ids' } }, info: { $contains: { param: 'info', default: {} } } },
      limit: { param: 'n', default: 5 },
    },
  },
  'a name / with signs': { type: 'count', args: { table: 'thing', where: { made: { $gt: { param: 'since' } } } } },
  add: { type: 'insert', args: { table: 'thing', objects: { param: 'objects' }, returning: ['id'] } },
  rename: {
    type: 'update',
    args: { table: 'thing', where: { id: { param: 'id' } }, $set: { label: { param: 'label' } } },
  },
  both: {
    type: 'bulk',
    args: [
      { type: 'count', args: { table: 'kind' } },
      { type: 'delete', args: { table: 'thing', where: { id: { param: 'id' } } } },
    ],
  },
}

tap.test('templates as an OpenAPI document', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SQL })
  await server.must('bulk', [
    { type: 'track_table', args: 'thing' },
    { type: 'track_table', args: 'kind' },
    {
      type: 'create_object_relationship',
      args: { table: 'thing', name: 'kind', using: { foreign_key_constraint_on: 'kind_id' } },
    },
    ...Object.entries(TEMPLATES).map(([name, template]) => ({
      type: 'create_query_template',
      args: { name, template, comment: `about ${name}` },
    })),
    {
      type: 'create_query_template',
      args: {
        name: 'get_things',
        template: { type: 'count', args: { table: 'thing', where: { tags: { $eq: { param: 'tags' } } } } },
      },
    },
    {
      type: 'create_insert_permission',
      args: { table: 'thing', role: 'writer', permission: { check: {}, columns: ['note'], set: { label: 'set' } } },
    },
    {
      type: 'create_select_permission',
      args: { table: 'thing', role: 'writer', permission: { columns: ['id'], filter: {} } },
    },
    {
      type: 'create_select_permission',
      args: { table: 'thing', role: 'reader', permission: { columns: ['id', 'made'], filter: {} } },
    },
  ])
  const document = (await server.fetch('/v1/openapi.json')).body

  await t.test('is valid OpenAPI 3.1', async (t) => {
    const validator = new Validator()
    const result = await validator.validate(structuredClone(document))
    t.same(result, { valid: true })
    t.equal(validator.version, '3.1')
    t.same(Object.keys(document.paths).length, Object.keys(TEMPLATES).length + 1)
  })

  await t.test('describes the answers that come, and the arguments that fit', async (t) => {
    const ajv = new Ajv2020({
      strict: false,
      formats: { int32: true, int64: true, uuid: true, 'date-time': true, date: true },
    })
    const operation = document.paths['/v1/template/things'].get
    const answer = await server.fetch('/v1/template/things?ids=1&ids=2')
    t.equal(answer.body.length, 2)
    const valid = ajv.compile(operation.responses['200'].content['application/json'].schema)
    t.ok(valid(answer.body), JSON.stringify(valid.errors))
    t.notOk(valid([{ ...answer.body[0], id: 'x' }]))
    const body = ajv.compile(document.paths['/v1/template/add'].post.requestBody.content['application/json'].schema)
    t.ok(body({ objects: [{ label: 'x', tags: [1], kind_id: null }] }), JSON.stringify(body.errors))
    t.notOk(body({ objects: [{ tags: [1] }] }), 'a column without default is required')
    t.notOk(body({ objects: [{ label: 'x', double: 1 }] }), 'a generated column is none of them')
    t.match(operation.parameters.slice(1), [
      { name: 'ids', in: 'query', required: true, schema: { type: 'array', items: { type: ['integer', 'null'] } } },
      { name: 'info', required: false, content: { 'application/json': {} } },
      { name: 'n', required: false, schema: { type: ['integer', 'null'], default: 5 } },
    ])
    t.notOk(document.paths['/v1/template/rename'].get, 'what changes something is not offered as GET')
  })

  await t.test('gives every operation an id of its own, whatever templates are called', async (t) => {
    const ids = Object.values(document.paths).flatMap((path: any) =>
      Object.values(path).map((operation: any) => operation.operationId),
    )
    t.equal(new Set(ids).size, ids.length)
  })

  await t.test('asks a role for the columns that it may give', async (t) => {
    const { paths } = (await server.fetch('/v1/openapi.json', {}, { role: 'writer' })).body
    const { schema } = paths['/v1/template/add'].post.requestBody.content['application/json']
    t.same(schema.properties.objects.items, {
      type: 'object',
      properties: { note: { type: ['string', 'null'] } },
      additionalProperties: false,
    })
  })

  await t.test('a value that is an array may be repeated in a URL', async (t) => {
    for (const query of ['tags=1&tags=2', 'tags=[1,2]', 'tags={1,2}', 'tags=3']) {
      t.match(await server.fetch(`/v1/template/get_things?${query}`), { status: 200, body: { count: 0 } }, query)
    }
  })

  await t.test('shows a role what it may run', async (t) => {
    const { body } = await server.fetch('/v1/openapi.json', {}, { role: 'reader' })
    t.same(Object.keys(body.paths), ['/v1/template/a%20name%20%2F%20with%20signs'])
    t.same((await server.fetch('/v1/openapi.json', {}, { role: 'nobody' })).body.paths, {})
    t.same(
      (await server.fetch('/v1/template/a%20name%20%2F%20with%20signs?since=2024-01-01', {}, { role: 'reader' })).body,
      { count: 1 },
    )
  })

  await t.test('its page sends who one says that one is', async (t) => {
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
  })
})
