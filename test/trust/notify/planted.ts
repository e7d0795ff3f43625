import { type OutboxOptions, outboxUnderKills } from './outbox.js'
import { type Fault, FAULTS } from './plant.js'
import { transactionsUnderKills } from './transactions.js'

const ROUNDS = 6
const MESSAGES = 200
/** What some need to be seen. */
const SPECIAL: Readonly<Partial<Record<Fault, Partial<OutboxOptions>>>> = {
  // An old worker, which wakes up when its messages wait again.
  unfenced: { holdEvery: 2, retrySeconds: 3 },
  // One that lives to hear a late answer.
  impatient: { lifeMs: [4000, 6000] },
}

/** @returns which planted faults were not caught */
export async function plantedFaults(
  faults: readonly Fault[],
  seed: number,
  progress: (text: string) => void,
): Promise<string[]> {
  const missed: string[] = []
  for (const fault of faults) {
    let caught: string | undefined
    for (let round = 0; round < ROUNDS && caught === undefined; round++) {
      const violations = await run(fault, seed + round)
      caught = violations.find((each) => FAULTS[fault].shows.test(each))
      progress(`planted fault "${fault}": ${caught === undefined ? 'not caught yet' : `caught (${caught})`}`)
    }
    if (caught === undefined) missed.push(`the planted fault "${fault}" was not caught`)
  }
  return missed
}

async function run(fault: Fault, seed: number): Promise<readonly string[]> {
  if (fault === 'outside') return (await transactionsUnderKills({ seed, fault, transactions: MESSAGES })).violations
  const loop = { seed, fault, messages: MESSAGES, idempotent: fault === 'failover' || fault === 'early' }
  return (await outboxUnderKills({ ...loop, ...SPECIAL[fault] })).violations
}
