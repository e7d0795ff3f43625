import { fileURLToPath } from 'node:url'
import { startThrowaway } from '../../kit/cluster.js'
import { changedPackage } from '../changed.js'
import type { Part, PartOptions, Score } from '../part.js'
import { runTest } from '../run-test.js'
import { LEAKS, type Leak } from './plant.js'

/** The property of `test/db/noninterference.test.ts` with new seeds, and whether it finds leaks that are planted. */
export const noninterference: Part = {
  about: 'whether a role can tell what it may not see from what is not there, and whether planted leaks are found',
  run,
}

const TEST = 'test/db/noninterference.test.js'
const CASES = 200_000
const PER_RUN = 20_000
/** By when a planted leak has to be found. */
const SOON = 20_000

async function run({ seed, only, progress }: PartOptions): Promise<Score> {
  const cluster = await startThrowaway()
  const violations: string[] = []
  let done = 0
  const found: string[] = []
  try {
    if (only.test('property')) {
      const path = fileURLToPath(new URL(`../../../${TEST}`, import.meta.url))
      for (; done < CASES; done += PER_RUN) {
        const { failure } = await runTest(path, settings(PER_RUN, seed + done / PER_RUN), cluster.url)
        progress(`property: ${done + PER_RUN} cases${failure === undefined ? '' : ', FAILED'}`)
        if (failure !== undefined) violations.push(failure)
      }
    }
    for (const [name, leak] of Object.entries(LEAKS)) {
      if (!only.test(`planted ${name}`)) continue
      const after = await findLeak(leak, seed, cluster.url)
      progress(`planted "${name}": ${after === undefined ? 'not found' : `found by case ${after}`}`)
      if (after === undefined) violations.push(`the planted leak "${name}" was not found: ${leak.what}`)
      else found.push(`${name} by case ${after}`)
    }
  } finally {
    await cluster.stop()
  }
  return {
    done: [
      ...(done > 0 ? [`${done} cases, seeds from ${Math.floor(seed)}`] : []),
      ...(found.length > 0 ? [`${found.length} planted leaks found`] : []),
    ].join('; '),
    violations,
    figures: found,
  }
}

const settings = (cases: number, seed: number): Readonly<Record<string, string>> => ({
  ROWHOUSE_NONINTERFERENCE_CASES: String(cases),
  ROWHOUSE_NONINTERFERENCE_SEED: String(Math.floor(seed)),
})

/** @returns the case that found it */
async function findLeak({ code: [file, piece, to] }: Leak, seed: number, url: string): Promise<number | undefined> {
  const planted = await changedPackage(file, piece, to, TEST)
  try {
    const { out } = await runTest(planted.file, settings(SOON, seed), url)
    const number = /^ *# case (\d+)/m.exec(out)?.[1]
    return number === undefined ? undefined : Number(number)
  } finally {
    await planted.remove()
  }
}
