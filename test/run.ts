import { startMeasured } from './calibrate.js'
import { cpuOfChildren } from './cpu.js'
import { testFile } from './files.js'
import { TEST_DATABASE_URL } from './kit/cluster.js'
import { createTemplate } from './kit/template.js'
import { createPool, type Summary } from './pool.js'
import { full, quick } from './suites.js'

/**
 * `node build/test/run.js [--full | FILE...]`: runs tests side by side on one throwaway PostgreSQL for all of them, or on the
 * one that `ROWHOUSE_TEST_DATABASE_URL` names. Without arguments, every promise once; with `--full`, everything that needs
 * npm packages only. One file alone prints all that it has to say.
 */
const named = process.argv.slice(2).filter((each) => each !== '--full')
const isQuick = named.length === 0 && !process.argv.includes('--full')

/**
 * What `npm test` may take with the build, PostgreSQL included, because CPU time is steadier than time. It may only fall: a
 * change that needs more makes something else cheaper.
 */
const CPU_SECONDS = 430
/** Within two days they took 372 to 541 s on one machine of two virtual processors, which it shares with others. */
const TOLERANCE = 1.4

const cluster = await startMeasured()
const databaseUrl = process.env[TEST_DATABASE_URL] ?? cluster.url
const template = await createTemplate(databaseUrl)
const place = { databaseUrl, template: template.name }
const suite = named.length > 0 ? named.map((file) => testFile(file, place)) : (isQuick ? quick : full)(place)
const pool = createPool({ verbose: named.length === 1 })
const ok = await pool.run(suite)
await template.drop()
await cluster.stop()
const isWithin = withinBudget(pool.summary())
if (!ok || !isWithin) process.exitCode = 1

/** In CI only: `npm test` fails when it takes more CPU time than promised. */
function withinBudget({ cpu = 0 }: Summary): boolean {
  // npm runs "build, then this" in a shell, which has waited for the build.
  const ofBuild = process.env['npm_lifecycle_event'] === 'test' ? (cpuOfChildren(process.ppid) ?? 0) : 0
  if (isQuick && cpu > 0) console.log(`${(cpu + ofBuild).toFixed(0)} CPU s with the build, of ${CPU_SECONDS}`)
  return !isQuick || process.env['CI'] === undefined || cpu + ofBuild <= CPU_SECONDS * TOLERANCE
}
