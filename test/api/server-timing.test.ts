import t from 'tap'
import { testServer } from '../kit/server.js'

t.test('an admin sees how long the steps of a request took, where the server says it', async (t) => {
  const server = await testServer(t, { config: { http: { serverTiming: true } } })
  await server.must('run_sql', { sql: 'create table note (id int primary key)' })
  await server.must('track_table', 'note')
  await server.must('create_select_permission', {
    table: 'note',
    role: 'user',
    permission: { columns: ['id'], filter: {} },
  })
  const select = { table: 'note', columns: ['id'] }

  for (const limit of [1, 100_000]) {
    const { headers } = await server.query('select', { ...select, limit })

    t.match(
      headers.get('server-timing'),
      /^parse;dur=[\d.]+, lift;dur=[\d.]+, compile;dur=[\d.]+, bind;dur=[\d.]+, run;dur=[\d.]+$/,
    )
  }
  const { headers, status } = await server.query('select', select, { role: 'user' })
  t.equal(status, 200)
  t.notOk(headers.has('server-timing'), 'another role sees nothing')
})

t.test('without the setting nobody sees it', async (t) => {
  const server = await testServer(t)

  const { headers } = await server.query('run_sql', { sql: 'select 1' })

  t.notOk(headers.has('server-timing'))
})
