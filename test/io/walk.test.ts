import t from 'tap'
import { walks } from '../../bench/micro/walk.js'

/** Files in which code runs for one request. A change that raises a number needs a reason. */
const MOST = {
  'a select that was compiled before': 36,
  'a select of a new shape': 54,
  'a template that was compiled before': 43,
}

t.test('a request walks through few files', async (t) => {
  const found = await walks()
  for (const [name, most] of Object.entries(MOST)) {
    const files = found[name] ?? []
    t.ok(files.length > 20 && files.length <= most, `${name}: at most ${most}`, { files })
  }
})
