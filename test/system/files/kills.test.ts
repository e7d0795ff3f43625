import t from 'tap'
import { plantedKills, someKills } from '../../trust/files/kill.js'
import { whyNoTrace } from '../../trust/files/why-not.js'

/** The short form of `npm run trust -- files --only kills`. */
t.test('killed at a call to the system, a file is the old one or the new one', async (t) => {
  const why = whyNoTrace()
  if (why !== undefined) return t.comment(`not run here: ${why}`)

  const { points, acknowledged, violations } = await someKills({ fsync: 6, unlink: 2, writev: 2 })
  const missed = await plantedKills((text) => t.comment(text), ['late'])

  t.comment(`${points} kills, ${acknowledged} acknowledged changes`)
  t.ok(points > 8)
  t.same([...violations, ...missed], [])
})
