import { Ajv2020 } from 'ajv/dist/2020.js'
import t, { type Test } from 'tap'
import { ADMIN_SECRET, type As, testServer, type TestServer } from '../../kit/server.js'
import { packages } from '../packages.js'
import * as awkward from './awkward.js'
import { client } from './client.js'

type Args = Readonly<Record<string, unknown>>
/** A template and the arguments of a call of it. */
interface Sample {
  readonly template: object
  readonly args: Args
}

const home = await packages(t, 'codegen')

t.test('clients of the templates of the sample shop', async (t) => {
  const server = await testServer(t, {
    builtins: { sample: new URL('../../../plugins/sample/index.js', import.meta.url) },
  })
  const args = { products_below: { price: 9, limit: 2 }, my_orders: { statuses: ['new', 'paid'], limit: 3 } }
  const buyer = { role: 'customer', variables: { 'x-service-user-id': '786' } }
  for (const as of [{}, { role: 'staff' }, buyer, { role: 'anonymous' }]) await roundTrip(t, server, as, args)
})

t.test('clients of templates of every kind', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: awkward.SQL })
  await server.must('replace_metadata', awkward.METADATA)
  await server.must(
    'bulk',
    Object.entries(SAMPLES).map(([name, { template }]) => ({
      type: 'create_query_template',
      args: { name, template },
    })),
  )
  const args = Object.fromEntries(Object.entries(SAMPLES).map(([name, sample]) => [name, sample.args]))
  for (const as of [{}, { role: 'clerk' }, { role: 'peeper' }]) await roundTrip(t, server, as, args)
})

const param = (name: string, fallback?: unknown) =>
  fallback === undefined ? { param: name } : { param: name, default: fallback }
const where = (column: string, value: unknown) => ({
  template: { type: 'count', args: { table: 'Person', where: { [column]: { $eq: param('value') } } } },
  args: { value },
})
const VALUES = {
  id: 1,
  firstName: 'Ann',
  mood: 'happy',
  class: 3,
  default: true,
  born: '2001-02-03',
  seen: '2024-02-03T04:05:06.789Z',
  at: '04:05',
  gap: '1 day',
  price: 1.5,
  ratio: 0.5,
  big: [1, 2],
  jb: { y: [1] },
  bytes: '\\x00ff',
  uid: '00000000-0000-0000-0000-00000000000a',
  tags: ['a', 'b c'],
  net: '10.0.0.1/8',
  span: '[1,5)',
  cost: '12.50',
  pos: 7,
}

const SAMPLES: Readonly<Record<string, Sample>> = {
  everything: {
    template: {
      type: 'select',
      args: {
        table: 'Person',
        columns: [
          '*',
          { name: 'enrolments', columns: ['*', { name: 'person', columns: ['id'] }], limit: param('some', 1) },
        ],
        where: {
          id: { $in: param('ids', [1, 2]) },
          $or: [{ id: param('id') }, { firstName: { $like: param('like', '%') } }],
        },
        order_by: ['id'],
        limit: param('limit', null),
        offset: param('offset', 0),
      },
    },
    args: { ids: [1, 2], id: 1, limit: 2, offset: 0 },
  },
  get_people: { template: { type: 'count', args: { table: 'Person' } }, args: {} },
  people: {
    template: { type: 'select', args: { table: 'Person', columns: ['order by'] } },
    args: {},
  },
  'a name / with "signs"': {
    template: { type: 'select', args: { table: 'only_json', columns: ['doc'] } },
    args: {},
  },
  add: {
    template: {
      type: 'insert',
      args: { table: 'Person', objects: param('objects'), returning: ['firstName', 'mood', 'tags'] },
    },
    args: { objects: [{ firstName: 'Di', tags: ['x'] }] },
  },
  change: {
    template: {
      type: 'update',
      args: {
        table: 'Person',
        where: { id: param('id') },
        $set: { tags: param('tags', []), jb: param('jb', {}) },
        $inc: { class: param('more', 1) },
      },
    },
    args: { id: 1, tags: ['p', 'q'], jb: { z: null }, more: 2 },
  },
  grow: {
    template: {
      type: 'update',
      args: { table: 'Person', where: { id: param('id') }, $mul: { price: param('times') }, returning: ['price'] },
    },
    args: { id: 1, times: 1.5 },
  },
  remove: {
    template: {
      type: 'delete',
      args: { table: 'Person', where: { firstName: param('name') }, returning: ['id', 'jb'] },
    },
    args: { name: 'Di' },
  },
  all: {
    template: {
      type: 'bulk',
      args: [
        { type: 'count', args: { table: 'Person', where: { id: { $gt: param('from', 0) } } } },
        { type: 'select', args: { table: 'strange', columns: ['a b', '1'], limit: param('limit', 1) } },
      ],
    },
    args: { from: 1 },
  },
  ...Object.fromEntries(Object.entries(VALUES).map(([column, value]) => [`by_${column}`, where(column, value)])),
}

/** Has a client generated of the document that a role sees, calls every template in every way that it has. */
async function roundTrip(t: Test, server: TestServer, as: As, samples: Readonly<Record<string, Args>>) {
  await t.test(`as ${as.role ?? 'admin'}`, async (t) => {
    const made = await client(home, t.fullname)
    const { body: document, text } = await server.fetch('/v1/openapi.json', {}, as)
    const ids = Object.values(document.paths).flatMap((item: any) =>
      Object.values(item).map((each: any) => each.operationId),
    )
    t.same(
      ids.filter((id, i) => ids.indexOf(id) < i),
      [],
      'every operation has an id of its own',
    )
    await made.write('openapi.json', text)
    await made.run([`${home}/node_modules/openapi-typescript/bin/cli.js`, 'openapi.json', '-o', 'api.ts'])
    const calls = Object.entries(document.paths).flatMap(([path, item]) => {
      const args = samples[decodeURIComponent(path.replace('/v1/template/', ''))] ?? {}
      return Object.entries(item as object).map(([method, { parameters }]) => ({
        path,
        method,
        args: method === 'get' ? asText(args, parameters) : args,
      }))
    })
    await made.write('client.ts', clientText(calls))
    t.equal(await made.compile(), '', 'the client compiles')

    const headers = {
      'x-service-admin-secret': ADMIN_SECRET,
      ...(as.role ? { 'x-service-role': as.role } : {}),
      ...as.variables,
    }
    const answers = JSON.parse(
      await made.run(['client.js'], { URL: server.url, HEADERS: JSON.stringify(headers) }),
    ) as { readonly status: number; readonly data: unknown; readonly error: unknown }[]
    t.equal(answers.length, calls.length, `${calls.length} calls`)
    const ajv = new Ajv2020({ strict: false, validateFormats: false })
    for (const [i, { status, data, error }] of answers.entries()) {
      const { path, method } = calls[i] as (typeof calls)[number]
      if (status !== 200) t.fail(`${method} ${path}: ${JSON.stringify(error)}`)
      const fits = ajv.compile(document.paths[path][method].responses['200'].content['application/json'].schema)
      if (!fits(data)) t.fail(`${method} ${path}: ${JSON.stringify(data)} ${JSON.stringify(fits.errors)}`)
    }
  })
}

/** What is described as JSON in a URL is text to the client. */
function asText(args: Args, parameters: readonly { readonly name?: string; readonly content?: object }[]): Args {
  const asJson = new Set(parameters.filter(({ content }) => content).map(({ name }) => name))
  return Object.fromEntries(
    Object.entries(args).map(([name, value]) => [name, asJson.has(name) ? JSON.stringify(value) : value]),
  )
}

const clientText = (calls: readonly { path: string; method: string; args: Args }[]): string => `
import createClient from 'openapi-fetch'
import type { paths } from './api.js'
declare const process: { env: { URL: string; HEADERS: string }; stdout: { write(text: string): void } }

const client = createClient<paths>({ baseUrl: process.env.URL, headers: JSON.parse(process.env.HEADERS) })
const answers: unknown[] = []
function put({ data, error, response }: { data?: unknown; error?: unknown; response: Response }): void {
  answers.push({ status: response.status, data, error })
}
${calls
  .map(({ path, method, args }) => {
    const [at, given] = [JSON.stringify(path), JSON.stringify(args)]
    const query = Object.keys(args).length > 0 ? `{ params: { query: ${given} } }` : '{}'
    return method === 'get'
      ? `put(await client.GET(${at}, ${query}))`
      : `put(await client.POST(${at}, { body: ${given} }))`
  })
  .join('\n')}
process.stdout.write(JSON.stringify(answers))
`
