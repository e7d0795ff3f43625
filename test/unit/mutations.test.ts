import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { changedSource } from '../trust/changed.js'
import * as files from '../trust/files/plant.js'
import * as keys from '../trust/keys/plant.js'
import { LEAKS } from '../trust/noninterference/plant.js'
import * as notify from '../trust/notify/plant.js'

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

t.test('every fault that the parts of trust plant still fits the code', async (t) => {
  for (const fault of Object.keys(notify.FAULTS) as notify.Fault[]) {
    await t.resolves(
      notify.plant(fault).then(({ remove }) => remove()),
      `notify: ${fault}`,
    )
  }
  for (const fault of Object.keys(keys.FAULTS) as keys.Fault[]) {
    await t.resolves(
      keys.plant(fault).then(({ remove }) => remove()),
      `keys: ${fault}`,
    )
  }
  for (const fault of Object.keys(files.FAULTS) as files.Fault[]) {
    await t.resolves(
      files.plant(fault, t.testdirName).then(({ remove }) => remove()),
      `files: ${fault}`,
    )
  }
  for (const [
    name,
    {
      code: [file, piece, to],
    },
  ] of Object.entries(LEAKS)) {
    await t.resolves(changedSource(file, piece, to), `noninterference: ${name}`)
  }
})
