import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { testServer } from '../kit/server.js'

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
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-one-text-'))
  t.teardown(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'texts.mjs'), PLUGIN)
  const server = await testServer(t, { builtins: { texts: pathToFileURL(join(folder, 'texts.mjs')) } })
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
