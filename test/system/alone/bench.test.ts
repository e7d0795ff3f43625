import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { readResult } from '../../../bench/result.js'
import { SCENARIOS } from '../../../bench/scenarios/index.js'

const BENCH = fileURLToPath(new URL('../../../bench/run.js', import.meta.url))

t.test('the bench runs every scenario and checks the answers', async (t) => {
  const ids = SCENARIOS.map(({ id }) => id)
  const file = join(t.testdir(), 'result.json')
  const { code, out, err } = await new Promise<{ code: number; out: string; err: string }>((resolve) => {
    execFile(
      process.execPath,
      [BENCH, '--requests', '50', '--rounds', '1', '--only', ids.join(), '--json', file],
      (error, out, err) => resolve({ code: error ? Number(error.code ?? 1) : 0, out, err }),
    )
  })

  t.equal(code, 0, err)
  for (const id of ids) t.match(out, new RegExp(`### ${id}: [^]*?\\| rowhouse`), id)
  t.match(
    out,
    /Not measured:\n\n[^]*- postgraphile [\d.]+\S*, which --peers installs/,
    'peers are installed for who asks',
  )
  t.match(out, /Not measured:\n\n[^]*- Hasura \(no package; --peer hasura=URL\)/, 'and others asked by their URL')
  const { sections } = await readResult(file)
  t.same(new Set(sections.map(({ id }) => id)), new Set(ids), 'the result is of its schema, and complete')
  t.match(await readFile(`${file}.html`, 'utf8'), /^<!doctype html>[^]*<svg[^]*<\/html>\n$/, 'and has a report')
})
