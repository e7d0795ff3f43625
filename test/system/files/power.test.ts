import t from 'tap'
import { plantedCuts, someCuts } from '../../trust/files/power.js'
import { whyNoPower } from '../../trust/files/why-not.js'

const CUTS = 6
const SEED = 1

/** The short form of `npm run trust -- files --only power`. */
t.test('after a power cut what was acknowledged is there', async (t) => {
  const why = await whyNoPower()
  if (why !== undefined) return t.comment(`not run here: ${why}`)

  const { cuts, acknowledged, violations } = await someCuts(CUTS, SEED)
  const missed = await plantedCuts(['unsynced'], SEED, (text) => t.comment(text))

  t.comment(`${cuts} power cuts, ${acknowledged} acknowledged changes`)
  t.same([...violations, ...missed], [])
})
