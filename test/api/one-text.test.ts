import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { testServer, type TestServer } from '../kit/server.js'

/** Operations that answer with one text of JSON, whatever form the client asks for. */
const PLUGIN = `
export default { name: 'texts', needs: ['data'], setup(host) {
  const data = host.use('data')
  const shape = { type: 'select', table: { schema: 'public', name: 'note' }, columns: ['id', 'body'] }
  const request = { planner: 'query', shape, values: [] }
  host.operation('text', {
    formats: true,
    run: async (_, call) => ({ kind: 'text', text: await data.run(request, call) }),
  })
  host.operation('text_in_transaction', {
    formats: true,
    run: (_, call) => data.transaction(call, (inner) => data.read(request, inner)),
  })
} }`

t.test('what is read as one text has every row, whatever form the client asks for', async (t) => {
  const server = await start(t, PLUGIN)
  await server.must('run_sql', {
    sql: `create table note (id int primary key, body text); insert into note values (1, 'a'), (2, 'b')`,
  })
  await server.must('track_table', 'note')

  for (const type of ['text', 'text_in_transaction']) {
    for (const accept of ['application/json', 'text/csv', 'application/x-ndjson']) {
      const { status, text } = await server.raw(JSON.stringify({ type, args: {} }), {}, { accept })

      t.same([status, JSON.parse(text)], [200, [{ id: 1, body: 'a' }, { id: 2, body: 'b' }]], `${type} as ${accept}`) // prettier-ignore
    }
  }
})

t.test('an operation in JavaScript may return its answer itself', async (t) => {
  const server = await start(
    t,
    `export default { name: 'texts', needs: ['data'], setup(host) {
      const run = ({ n }) => ({ kind: 'text', text: String(n) })
      const some = { args: { type: 'object', properties: { n: { type: 'integer' } } }, templatable: { n: 'value' }, undoable: true }
      host.operation('within', { ...some, run })
      host.operation('unlimited', { ...some, run, timeoutMs: 0 })
      const queryOf = ({ n }) => ({ type: 'unlimited', args: { n } })
      host.operation('instead', {
        ...some,
        run: (args, call) => host.use('operations').run(queryOf(args), call).then((answer) => answer),
        resolve: (args, call, fn) => fn(queryOf(args), []),
      })
    } }`,
  )

  for (const type of ['within', 'unlimited', 'instead']) {
    const query = { type, args: { n: 1 } }
    const ask = (body: object, headers = {}) => server.raw(JSON.stringify(body), {}, headers)
    const bulk = { type: 'bulk', args: [query, { type: 'within', args: { n: 2 } }, query] }
    const template = { type, args: { n: { param: 'n' } } }
    await server.must('create_query_template', { name: type, template })
    const execute = { type: 'execute_query_template', args: { name: type, args: { n: 1 } } }
    for (const [name, send, text] of [
      ['alone', () => ask(query), '1'],
      ['once for a key', () => ask(query, { 'idempotency-key': type }), '1'],
      ['again for a key', () => ask(query, { 'idempotency-key': type }), '1'],
      ['as a dry run', () => ask({ ...query, dry_run: true }), '1'],
      ['in a bulk', () => ask(bulk), '[1,2,1]'],
      ['in a bulk for a key', () => ask(bulk, { 'idempotency-key': `bulk-${type}` }), '[1,2,1]'],
      ['in a template', () => ask(execute), '1'],
      ['in a template, as a dry run', () => ask({ ...execute, dry_run: true }), '1'],
      ['by the path of its template', () => server.fetch(`/v1/template/${type}?n=1`), '1'],
    ] as const) {
      const { status, text: found } = await send()
      t.same([status, found], [200, text], `${type} ${name}`)
    }
  }
})

/** A server that has a plugin of this text. */
async function start(t: Test, plugin: string): Promise<TestServer> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-one-text-'))
  t.teardown(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'texts.mjs'), plugin)
  return testServer(t, { builtins: { texts: pathToFileURL(join(folder, 'texts.mjs')) } })
}
