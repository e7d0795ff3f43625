import { calibrate } from './calibrate.js'
import { filesOf, testFile } from './files.js'
import { spawnThrowaway, TEST_DATABASE_URL } from './kit/cluster.js'
import { createPool, type Job } from './pool.js'

/**
 * `node build/test/run.js [files]`: runs tests side by side on one throwaway PostgreSQL for all of them, or on the one that
 * `ROWHOUSE_TEST_DATABASE_URL` names. Without files: every test that needs npm packages alone, and what is checked of the
 * sources. One file alone says all that it has to say.
 */
const named = process.argv.slice(2)

/** What takes longest begins first, so that it is not left alone at the end. */
const FOLDERS = ['io', 'fuzz', 'db', 'api', 'promises', 'unit']
const LONGEST = [
  'io/shutdown',
  'io/faults',
  'io/cli',
  'io/embedded',
  'api/shared-commits',
  'api/outbox',
  'api/files',
].map((name) => `build/test/${name}.test.js`)
const everyFile = (): string[] => [...new Set([...LONGEST, ...FOLDERS.flatMap(filesOf)])]
const CHECKS = ['check:imports', 'lint', 'format:check'].map((name): Job => ({
  name,
  command: 'npm',
  args: ['run', '--silent', name],
}))

await calibrate()
const given = process.env[TEST_DATABASE_URL]
const cluster = given === undefined ? await spawnThrowaway() : { url: given, stop: async () => {} }
const files = (named.length > 0 ? named : everyFile()).map((file) => testFile(file, { databaseUrl: cluster.url }))
const pool = createPool({ verbose: files.length === 1 })
const ok = await pool.run(named.length > 0 ? files : [...CHECKS, ...files])
pool.summary()
await cluster.stop()
if (!ok) process.exitCode = 1
