import t from 'tap'
import { keysUnderKills } from '../../trust/keys/keys.js'

/** The short form of `npm run trust -- keys`. */
const SEED = 1
const REQUESTS = 150
const MOST_KILLS = 6

t.test('a request with an Idempotency-Key has one effect and one answer, whoever is killed', async (t) => {
  const { violations, ...score } = await keysUnderKills({ seed: SEED, requests: REQUESTS, mostKills: MOST_KILLS })
  t.comment(JSON.stringify(score))
  t.same(violations, [])
  t.ok(score.kills > 4 && score.replayed > REQUESTS / 5)
})

t.test('the same without keys is caught', async (t) => {
  const { violations } = await keysUnderKills({ seed: SEED, requests: 20, mostKills: 2, withoutKeys: true })
  t.not(violations.length, 0)
})
