import t from 'tap'
import { Lateness } from '../../core/db/fast/pace.js'

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

t.test('a process that gets no processor for a while is late, and later is not', async (t) => {
  const lateness = new Lateness()
  t.teardown(() => lateness.stop())
  const alive = setInterval(() => {}, 1000)
  t.teardown(() => clearInterval(alive))
  t.equal(lateness.ms, 0)
  lateness.touch()
  await pause(50)
  const until = performance.now() + 400
  while (performance.now() < until);
  await pause(50)
  t.ok(lateness.ms > 300)
  for (let i = 0; i < 500 && lateness.ms > 30; i++) await pause(20)
  t.ok(lateness.ms < 30)
})
