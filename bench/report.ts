import { readResult, readResults, RESULTS } from './result.js'
import { writeReport } from './report/write.js'

/** `node build/bench/report.js RESULT.json [REPORT.html]`: makes the report of a result again, and says where it is. */
const [file, report = `${file}.html`] = process.argv.slice(2)
if (file === undefined) {
  console.error('node build/bench/report.js RESULT.json [REPORT.html]')
  process.exit(2)
}
console.log(await writeReport(await readResult(file), await readResults(RESULTS), report))
