import t from 'tap'
import { outboxUnderKills } from '../../trust/notify/outbox.js'
import { outboxDone } from '../../trust/notify/notify.js'
import { transactionsUnderKills } from '../../trust/notify/transactions.js'

/** The short form of `npm run trust -- notify`. */
const SEED = 1
const MESSAGES = 300
const TRANSACTIONS = 600
const MOST_KILLS = 8

for (const idempotent of [true, false]) {
  const title = idempotent
    ? 'and sent once, where the provider knows what it took'
    : 'and twice only if nobody could know'
  t.test(`what was accepted is sent, whoever is killed, ${title}`, async (t) => {
    const score = await outboxUnderKills({ seed: SEED, messages: MESSAGES, mostKills: MOST_KILLS, idempotent })
    t.comment(`${outboxDone(score, idempotent)}; doubled: ${JSON.stringify(score.doubles)}`)
    t.same(score.violations, [])
    t.ok(score.kills > 4)
  })
}

t.test('a mail of a transaction is sent if that is committed, and only then', async (t) => {
  const { violations, committed, kills } = await transactionsUnderKills({
    seed: SEED,
    transactions: TRANSACTIONS,
    mostKills: MOST_KILLS,
  })
  t.comment(`${TRANSACTIONS} transactions, ${committed} committed, ${kills} kills`)
  t.same(violations, [])
  t.ok(committed > TRANSACTIONS / 5)
})
