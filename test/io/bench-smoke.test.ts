import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const BENCH = fileURLToPath(new URL('../../bench/run.js', import.meta.url))

t.test('the bench runs every scenario and checks the answers', async (t) => {
  const { code, out, err } = await new Promise<{ code: number; out: string; err: string }>((resolve) => {
    execFile(process.execPath, [BENCH, '--requests', '50', '--rounds', '1'], (error, out, err) =>
      resolve({ code: error ? Number(error.code ?? 1) : 0, out, err }),
    )
  })

  t.equal(code, 0, err)
  for (const id of ['a', 'b', 'c', 'd', 'g', 'h', 'i', 'n'])
    t.match(out, new RegExp(`### ${id}: [^]*?\\| rowhouse`), id)
  t.match(out, /not measured: postgraphile [\d.]+\S*, which --peers installs/, 'peers are installed for who asks')
})
