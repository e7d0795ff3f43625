import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { checkWritable, readResult, readResults, RESULTS } from './result.js'
import { writeReport } from './report/write.js'

const USAGE = `node build/bench/report.js RESULT.json [REPORT.html]

  Makes the report of a result again, and prints where it is: REPORT.html, or else a file in a
  new temporary folder.`

const args = process.argv.slice(2)
const [file, report] = args
if (args.includes('--help')) {
  console.log(USAGE)
} else if (file === undefined || args.length > 2 || args.some((arg) => arg.startsWith('-'))) {
  console.error('one result is wanted, and perhaps where its report goes; see --help')
  process.exitCode = 2
} else {
  try {
    const result = await readResult(file)
    const target =
      report === undefined
        ? join(await mkdtemp(join(tmpdir(), 'rowhouse-bench-report-')), `${basename(file)}.html`)
        : resolve(report)
    await checkWritable(target)
    console.log(await writeReport(result, await readResults(RESULTS), target))
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error))
    process.exitCode = 2
  }
}
