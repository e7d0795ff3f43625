import { filesOf, type Setting, testGroup } from './files.js'
import { TEST_SHARE } from './kit/property.js'
import type { Job } from './pool.js'

/** What `npm test` and `npm run test:full` run. What takes longest begins first, so that it is not left alone at the end. */
export type Suite = (place: Setting) => readonly Job[]

const CHECKS = ['lint', 'format:check'].map((name): Job => ({
  name,
  command: 'npm',
  args: ['run', '--silent', name],
}))
const tests = (folder: string, ...names: readonly string[]): string[] =>
  names.map((name) => `build/test/${folder}/${name}.test.js`)

/** Random tests, of which `npm test` tries a fifth. */
const PROPERTIES = [
  ...tests(
    'db',
    'noninterference',
    'permission-oracle',
    'rule-comparison',
    'canary',
    'reading',
    'related-rows',
    'shadows',
  ),
  ...filesOf('fuzz'),
]
/** Providers keep the contract of their kind, and speak the protocol of each API. */
const PROVIDERS = tests('io', 'contracts', 'email-apis', 'sms-apis', 'smtp')

/** The pages have a promise for each row. It needs all promises, and proves none. */
const PAGES = 'build/test/promises/pages.test.js'

/** Every promise once: each list of promises, each unit, and a smoke test for what needs processes. */
export const quick: Suite = (place) => {
  const env = { [TEST_SHARE]: '0.2' }
  const group = (name: string, files: readonly string[]) => testGroup(name, files, { ...place, env })
  return [
    group('properties', PROPERTIES),
    ...CHECKS.slice(0, 1),
    ...filesOf('promises').flatMap((file) => (file === PAGES ? [] : [group(file, [file])])),
    group('smoke', filesOf('smoke')),
    group('providers', PROVIDERS),
    group('unit', [...filesOf('unit'), PAGES]),
    ...CHECKS.slice(1),
  ]
}

/** All that needs npm packages only, and everything that `npm test` runs but the checks of the sources. */
export const full: Suite = (place) => {
  const group = (name: string, files: readonly string[]) => testGroup(name, files, place)
  const alone = filesOf('io').filter((file) => !PROVIDERS.includes(file))
  return [
    ...LONGEST.map((file) => group(file, [file])),
    ...[...alone, ...filesOf('db'), ...filesOf('fuzz')]
      .filter((file) => !LONGEST.includes(file))
      .map((file) => group(file, [file])),
    ...chunks(
      filesOf('api').filter((file) => !LONGEST.includes(file)),
      8,
    ).map((files, i) => group(`api ${i + 1}`, files)),
    ...filesOf('promises').map((file) => group(file, [file])),
    group('smoke', filesOf('smoke')),
    group('providers', PROVIDERS),
    ...chunks(filesOf('unit'), 2).map((files, i) => group(`unit ${i + 1}`, files)),
  ]
}

/** Files that take longest. */
const LONGEST = [
  ...tests('io', 'shutdown', 'faults', 'embedded', 'processes', 'standbys'),
  ...tests('db', 'names', 'noninterference'),
  ...tests('api', 'shared-commits', 'outbox', 'files'),
]

/** Deals files out to so many groups, so that neighbours, which are alike, come into different ones. */
function chunks(files: readonly string[], count: number): readonly (readonly string[])[] {
  const groups = Array.from({ length: count }, (_, i) => files.filter((_file, j) => j % count === i))
  return groups.filter(({ length }) => length > 0)
}
