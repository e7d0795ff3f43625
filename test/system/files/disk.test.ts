import t from 'tap'
import { refusedCalls } from '../../trust/files/disk-faults.js'
import { overtaken } from '../../trust/files/late-upload.js'
import { ordered, plantedOrders } from '../../trust/files/order.js'
import { whyNoTrace } from '../../trust/files/why-not.js'

const why = whyNoTrace()
if (why !== undefined) t.comment(`not run here: ${why}`)
const options = { skip: why !== undefined, timeout: 300_000 }

t.test('a call to the system that fails, fails the request and nothing else', options, async (t) => {
  const { faults, violations } = await refusedCalls()
  t.comment(`${faults} calls refused`)
  t.same(violations, [])
})

t.test('the database hears of bytes when they are durable, and forgets them when that is', options, async (t) => {
  const missed = await plantedOrders(['unnamed'], (text) => t.comment(text))
  const { promises, violations } = await ordered(undefined)
  t.comment(`${promises} statements in the order of calls`)
  t.same([...violations, ...missed], [])
})

t.test('an upload that ends while its bytes are being taken away is refused', options, async (t) => {
  t.not((await overtaken('unfenced')).length, 0, 'without the fence it is seen')
  t.same(await overtaken(undefined), [])
})
