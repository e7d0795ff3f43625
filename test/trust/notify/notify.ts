import type { Part, PartOptions, Score } from '../part.js'
import { type OutboxScore, outboxUnderKills } from './outbox.js'
import { type Fault, FAULTS } from './plant.js'
import { plantedFaults } from './planted.js'
import { transactionsUnderKills } from './transactions.js'

/** That a message which was accepted is sent, and sent once where that can be known, whatever happens. */
export const notify: Part = {
  about:
    'messages are sent, at once, later and inside transactions, while servers are killed and the provider misbehaves',
  run,
}

const MESSAGES = 10_000

interface Story {
  /** For `--only`. */
  readonly name: string
  run(options: PartOptions): Promise<Score>
}

const STORIES: readonly Story[] = [
  { name: 'planted', run: planted },
  { name: 'outbox idempotent', run: (options) => outbox(options, true) },
  { name: 'outbox forgetful', run: (options) => outbox(options, false) },
  { name: 'transactions', run: transactions },
]

async function run(options: PartOptions): Promise<Score> {
  const wanted = STORIES.filter(({ name }) => options.only.test(name))
  if (wanted.length === 0) throw new Error(`nothing has a name like ${options.only.source}`)
  const scores: Score[] = []
  for (const story of wanted) {
    const score = await story.run(options)
    options.progress(score.done)
    scores.push(score)
  }
  return {
    done: scores.map(({ done }) => done).join('; '),
    violations: scores.flatMap(({ violations }) => violations),
    figures: scores.flatMap(({ figures }) => figures),
  }
}

async function planted({ seed, progress }: PartOptions): Promise<Score> {
  const faults = Object.keys(FAULTS) as Fault[]
  const violations = await plantedFaults(faults, seed, progress)
  return {
    done: `${faults.length} planted faults, ${faults.length - violations.length} caught`,
    violations,
    figures: [],
  }
}

async function outbox({ seed }: PartOptions, idempotent: boolean): Promise<Score> {
  const score = await outboxUnderKills({ seed, messages: MESSAGES, idempotent })
  return {
    done: outboxDone(score, idempotent),
    violations: score.violations,
    figures: [outboxFigures(score, idempotent)],
  }
}

const kindOf = (idempotent: boolean): string => (idempotent ? 'idempotent provider' : 'provider that forgets')

/** A line of the scoreboard. */
export const outboxDone = ({ messages, kills, holds, attempts }: OutboxScore, idempotent: boolean): string =>
  `${messages} messages, ${kindOf(idempotent)}: ${kills} kills, ${holds} times held still, ${attempts} requests to it`

function outboxFigures({ doubles, states, acknowledged, seconds }: OutboxScore, idempotent: boolean): string {
  const counts = (of: object) =>
    Object.entries(of)
      .map(([what, count]) => `${count} ${what}`)
      .join(', ')
  const doubled = Object.values(doubles).reduce((sum, count) => sum + count, 0)
  const why = doubled === 0 ? '' : ` (${counts(doubles)})`
  return `${kindOf(idempotent)}: ${acknowledged} acknowledged, ${counts(states)}, ${doubled} doubled${why}, ${Math.round(seconds)} s`
}

async function transactions({ seed }: PartOptions): Promise<Score> {
  const score = await transactionsUnderKills({ seed, transactions: MESSAGES })
  return {
    done: `${score.transactions} transactions with a mail, ${score.committed} committed: ${score.kills} kills, ${score.attempts} requests to the provider`,
    violations: score.violations,
    figures: [`transactions: ${Math.round(score.seconds)} s`],
  }
}
