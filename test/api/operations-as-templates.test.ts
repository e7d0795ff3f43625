import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Validator } from '@seriousme/openapi-schema-validator'
import tap from 'tap'
import { type As, type TestServer, testServer } from '../kit/server.js'

/** A plugin of somebody else: one operation that is a request to the database, others that are none. */
const PLUGIN = `
export default {
  name: 'notebook',
  setup(host) {
    const data = host.use('data')
    const operations = host.use('operations')
    const lift = ({ where, most }) => operations.lift({ type: 'select', args: { table: 'note', columns: ['id', 'text'], where, limit: most } })
    host.operation('find_notes', {
      formats: true,
      args: {
        type: 'object',
        properties: { where: { type: 'object' }, most: { type: 'integer', minimum: 2, description: 'how many' } },
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

type Tap = Parameters<typeof testServer>[0]

const param = (name: string, more: object = {}) => ({ param: name, ...more })
const user: As = { role: 'user' }

async function start(t: Tap): Promise<TestServer> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-notebook-'))
  t.teardown(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'notebook.mjs'), PLUGIN)
  const server = await testServer(t, { builtins: { notebook: pathToFileURL(join(folder, 'notebook.mjs')) } })
  await server.must('run_sql', {
    sql: `create table note (id int primary key, text text); insert into note values (1, 'a'), (2, 'b')`,
  })
  await server.must('track_table', 'note')
  return server
}

tap.test('an operation of any plugin can be a template', async (t) => {
  const server = await start(t)
  const create = (name: string, type: string, args: unknown) =>
    server.query('create_query_template', { name, template: { type, args } })
  const execute = (name: string, args: object, as?: As) => server.query('execute_query_template', { name, args }, as)
  const rest = (path: string, init?: RequestInit, as?: As) => server.fetch(`/v1/template/${path}`, init, as)
  const listed = async (as?: As) =>
    (await server.fetch('/v1/template', {}, as)).body.map((each: { name: string }) => each.name)

  await t.test('one that is a request to the database', async (t) => {
    const where = { id: { $in: param('ids') }, text: param('text', { default: 'b' }) }
    t.same((await create('found', 'find_notes', { where, most: param('most', { default: 5 }) })).status, 200)
    t.same((await execute('found', { ids: [1, 2] })).body, [{ id: 2, text: 'b' }])
    t.same((await rest('found?ids=1&text=a&most=2')).body, [{ id: 1, text: 'a' }])
    t.equal((await rest('found?ids=1&text=a', { headers: { accept: 'text/csv' } })).text, 'id,text\r\n1,a\r\n')
    t.match(await execute('found', { ids: [true] }), { status: 400, body: { path: '$.args.args.ids[0]' } })
    t.match(await execute('found', { ids: [1], most: 1 }), {
      status: 400,
      body: { path: '$.args.args.most', error: /^when processing parameter "most" : must be >= 2/ },
    })
    t.match(await execute('found', { ids: [1] }, user), { status: 400, body: { code: 'permission-denied' } })
    t.same(await listed(user), [], 'its permissions are known')
  })

  await t.test('what it needs cannot be dropped', async (t) => {
    const dropped = await server.query('run_sql', { sql: 'alter table note drop column text' })
    t.match(dropped, { status: 400, body: { code: 'dependency-error', error: /query-template found/ } })
  })

  await t.test('one of which only the schema of its arguments is known', async (t) => {
    const args = {
      to: param('to'),
      times: param('times', { default: 1 }),
      loud: param('loud'),
      more: { tags: param('tags') },
    }
    t.same((await create('shouted', 'shout', args)).status, 200)
    t.same((await execute('shouted', { to: 'ann', loud: true, tags: [1] })).body, {
      to: 'ann',
      times: 1,
      loud: true,
      more: { tags: [1] },
    })
    t.same(
      (await rest('shouted?to=ann&loud=false&tags=1&tags=2')).body,
      { to: 'ann', times: 1, loud: false, more: { tags: [1, 2] } },
      'text of a URL is what the schema wants',
    )
    t.match(await rest('shouted?to=ann&loud=maybe&tags=1'), { status: 400, body: { path: '$.loud' } })
    t.match(await rest('shouted?to=ANN&loud=true&tags=1'), { status: 400, body: { path: '$.to' } })
    t.match(
      await rest('shouted?to=ann&loud=true&tags=1', { headers: { 'sec-purpose': 'prefetch' } }),
      { status: 403, body: { code: 'csrf' } },
      'it may change something',
    )
    t.ok((await listed(user)).includes('shouted'))
  })

  await t.test('what is fixed is checked when the template is made, defaults too', async (t) => {
    for (const [args, path] of [
      [{ to: 'ANN' }, '$.args.template.args.to'],
      [{ times: 1 }, '$.args.template.args'],
      [{ to: param('to'), nope: 1 }, '$.args.template.args.nope'],
      [{ to: param('to'), times: 0 }, '$.args.template.args.times'],
      [{ to: param('to', { default: 'ANN' }) }, '$.args.template.args.to.default'],
      [{ to: param('to'), more: param('more') }, '$.args.template.args.more.param'],
    ] as const) {
      t.match(await create('bad', 'shout', args), { status: 400, body: { path } }, JSON.stringify(args))
    }
  })

  await t.test('one for admin only is listed for admin only', async (t) => {
    t.same((await create('whispered', 'whisper', { a: param('a'), b: ['x', param('b')] })).status, 200)
    t.same((await rest('whispered?a=1&b=2')).body, { a: '1', b: ['x', '2'] })
    t.match(await execute('whispered', { a: '1', b: '2' }, user), { status: 400, body: { code: 'access-denied' } })
    t.ok((await listed()).includes('whispered'))
    t.notOk((await listed(user)).includes('whispered'))
  })

  await t.test('members of a bulk', async (t) => {
    const members = [
      { type: 'shout', args: { to: param('to') } },
      { type: 'find_notes', args: { where: { id: param('id') } } },
    ]
    t.same((await create('both', 'bulk', members)).status, 200)
    t.same((await execute('both', { to: 'ann', id: 1 })).body, [{ to: 'ann' }, [{ id: 1, text: 'a' }]])
    t.match((await rest('both?to=ANN&id=1')).body, { code: 'parse-failed', path: '$.to' })
  })

  await t.test('one that does not say so is refused', async (t) => {
    t.match((await create('mumbled', 'mumble', {})).body, {
      error: /^the type of a template must be one of .*find_notes, shout, whisper/,
      path: '$.args.template.type',
    })
  })

  await t.test('in the OpenAPI document', async (t) => {
    const document = (await server.fetch('/v1/openapi.json')).body
    t.same(await new Validator().validate(structuredClone(document)), { valid: true })
    const { found, shouted } = Object.fromEntries(
      ['found', 'shouted'].map((name) => [name, document.paths[`/v1/template/${name}`]]),
    )
    t.match(found.get.parameters, [
      {},
      { name: 'ids', schema: { items: { type: ['integer', 'null'] } } },
      { name: 'text', schema: { type: ['string', 'null'], default: 'b' } },
      { name: 'most', schema: { type: 'integer', minimum: 2, default: 5 } },
    ])
    t.match(found.get.responses['200'].content, {
      'application/json': { schema: { items: { properties: { id: { type: 'integer' } } } } },
      'text/csv': {},
    })
    t.notOk(shouted.get)
    t.match(shouted.post.requestBody.content['application/json'].schema.properties, {
      to: { type: 'string', pattern: '^[a-z]+$' },
      tags: { type: 'array', items: { type: 'integer' } },
    })
    t.same(shouted.post.responses['200'].content, {
      'application/json': { schema: { type: 'object', properties: { to: { type: 'string' } } } },
    })
  })
})
