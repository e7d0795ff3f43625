import { readlinkSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { cpuClock } from '../../core/compile/pool.js'

const here = process.platform === 'linux' ? Number(/\d+$/.exec(readlinkSync('/proc/thread-self'))?.[0] ?? -1) : -1

for (const thread of [here, -1]) {
  t.test(`the CPU clock of thread ${thread < 0 ? 'unknown' : 'known'} counts work and not waiting`, async (t) => {
    const clock = cpuClock(thread)
    const since = performance.now()
    await sleep(300)
    const waited = clock()
    t.ok(waited < (performance.now() - since) / 2, `${waited} ms while it waited`)

    // A loop that ends by the clock itself: a clock that stands still would hang here.
    while (clock() < waited + 50);
    t.ok(clock() <= performance.now() - since)
  })
}
