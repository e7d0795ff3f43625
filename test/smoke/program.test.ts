import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { newFolder, run, start } from '../kit/program.js'
import { configure, SLOW } from '../kit/slow-plugin.js'
import { until } from '../kit/until.js'

const SECRET = 'a secret for the tests of the program'

t.test('answers go to standard output, mistakes to standard error, and the exit code says which', async (t) => {
  const folder = await newFolder(t)

  t.match(await run(folder, ['--help']), { code: 0, out: /dev .*\n.*start/, err: '' })
  t.match(await run(folder, ['dev', '--help']), { code: 0, out: /^rowhouse dev [^]*--config FILE/, err: '' })
  t.match(await run(folder, ['--version']), { code: 0, out: /^\d+\.\d+\.\d+\n$/, err: '' })
  t.match(await run(folder, []), { code: 2, out: /start/, err: '' })
  t.match(await run(folder, ['dve']), { code: 2, out: '', err: /did you mean dev\?/ })
  t.match(await run(folder, ['start']), { code: 1, out: '', err: /^no database: set DATABASE_URL/ })
  t.match(await run(folder, ['start', '--config', 'none.json']), { code: 1, out: '', err: /none\.json/ })
})

t.test('start logs to standard error, and SIGTERM lets requests under way finish', async (t) => {
  const folder = await newFolder(t)
  await configure(folder, SLOW)
  const server = await start(t, folder, ['start', '--port', '0'], { ROWHOUSE_ADMIN_SECRET: SECRET })
  const asked = fetch(`${server.url}/slow`)
  await until('it is under way', () => server.output().includes('"msg":"asked"'))

  server.child.kill('SIGTERM')
  await until('the server stops', () => server.output().includes('"by":"SIGTERM","msg":"stopping"'))
  await writeFile(join(folder, 'go-on'), '')

  t.equal(await (await asked).text(), 'done')
  t.equal(await server.ended, 0)
  for (const line of server.output().trim().split('\n')) t.match(JSON.parse(line), { level: String, time: String })
})
