import type { Part, PartOptions, Score } from '../part.js'
import { diskFaults } from './disk-faults.js'
import { KILLS, kills } from './kill.js'
import { largeFile } from './large.js'
import { lateUpload } from './late-upload.js'
import { orderOfCalls } from './order.js'
import { powerCuts } from './power.js'
import { whyNoPower, whyNoTrace } from './why-not.js'

/** That files are whole and stay, whatever happens to the server and its disk. */
export const files: Part = {
  about:
    'files are stored, replaced, deleted and collected while the server is killed and its disk fails (needs root, strace)',
  run,
}

interface Story {
  /** For `--only`. */
  readonly names: readonly string[]
  run(options: PartOptions): Promise<Score>
}

const STORIES: readonly Story[] = [
  { names: ['power'], run: async (options) => (await noPower()) ?? powerCuts(options) },
  { names: ['order'], run: async (options) => noTrace('the order of calls') ?? orderOfCalls(options) },
  { names: ['late'], run: async (options) => noTrace('late uploads') ?? lateUpload(options) },
  { names: ['disk'], run: async (options) => noTrace('faults of the disk') ?? diskFaults(options) },
  { names: ['large'], run: largeFile },
  { names: KILLS, run: async (options) => noTrace('kills') ?? kills(options) },
]

async function run(options: PartOptions): Promise<Score> {
  const wanted = STORIES.filter(({ names }) => names.some((name) => options.only.test(name)))
  if (wanted.length === 0) throw new Error(`nothing has a name like ${options.only.source}`)
  const scores: Score[] = []
  for (const story of wanted) scores.push(await story.run(options))
  return {
    done: scores.map(({ done }) => done).join('; '),
    violations: scores.flatMap(({ violations }) => violations),
    figures: scores.flatMap(({ figures }) => figures),
  }
}

const notRun = (what: string, why: string): Score => ({ done: `${what} NOT RUN: ${why}`, violations: [], figures: [] })

const noTrace = (what: string): Score | undefined => {
  const why = whyNoTrace()
  return why === undefined ? undefined : notRun(what, why)
}

async function noPower(): Promise<Score | undefined> {
  const why = await whyNoPower()
  return why === undefined ? undefined : notRun('power cuts', why)
}
