import t from 'tap'
import { testServer } from '../kit/server.js'

const SAMPLE = new URL('../../plugins/sample/index.js', import.meta.url)

t.test('the sample shop has no findings', async (t) => {
  const mails = { notify: true, config: { providers: { email: { memory: { keep: 10 } } } } }
  const server = await testServer(t, { builtins: { sample: SAMPLE }, files: true, ...mails })

  t.same((await server.must('lint_metadata', {})).findings, [])
  t.match((await server.query('lint_metadata', {}, { role: 'customer' })).body, { code: 'access-denied' })
  t.match((await server.query('lint_metadata', { all: true })).body, { path: '$.args.all' })
})
