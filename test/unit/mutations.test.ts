import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const FOLDER = join(ROOT, 'test/mutations')

t.test('every planted fault still applies to the sources', async (t) => {
  const patches = readdirSync(FOLDER).filter((name) => name.endsWith('.patch'))
  t.ok(patches.length > 0)
  const failed = patches.filter(
    (name) => spawnSync('git', ['apply', '--check', join(FOLDER, name)], { cwd: ROOT }).status !== 0,
  )
  t.same(failed, [])
})
