import t from 'tap'
import { usageOf, usageSince } from '../../bench/cpu.js'
import { createDisplay, secondsLeft } from '../../bench/progress.js'
import { interleave, type Job } from '../../bench/section.js'

function jobsOf(measured: string[]): Job[] {
  return ['a', 'b'].map((system) => ({
    system,
    measure: async () => {
      measured.push(system)
      return { figures: { rps: measured.length } }
    },
  }))
}

t.test('systems take turns, in reversed order every other round', async (t) => {
  const measured: string[] = []
  const cells = await interleave(jobsOf(measured), 3, () => {})

  t.same(measured, ['a', 'b', 'b', 'a', 'a', 'b'])
  t.same(
    cells.map(({ system, round }) => `${system}${round}`),
    ['a0', 'b0', 'b1', 'a1', 'a2', 'b2'],
  )
})

t.test('shares of processor time are those since, with waiting for a disk as idle', async (t) => {
  const before = usageOf('cpu  100 0 100 700 50 0 0 50 7 0')
  const after = usageOf('cpu  150 0 125 715 55 0 0 55 9 0')

  t.same(before, { all: 1000, idle: 750, steal: 50 })
  t.same(usageSince(before, after), { steal: 0.05, idle: 0.2 })
  t.same(usageSince(undefined, after), {})
})

t.test('the time left is what was planned, stretched as the past was', async (t) => {
  t.equal(secondsLeft([30, 30, 60], 0, 0, { spent: 0, here: 0 }), 120)
  t.equal(secondsLeft([30, 30, 60], 1, 0, { spent: 60, here: 0 }), 180, 'the first took twice as long')
  t.equal(secondsLeft([30, 30, 60], 1, 0.5, { spent: 90, here: 30 }), 150, 'half of the second too')
  t.equal(secondsLeft([30], 0, 0.1, { spent: 40, here: 40 }), 27, 'nine tenths of the windows are to come')
})

t.test('the display is one line on a terminal, and a line for each elsewhere', async (t) => {
  const written = (isTTY: boolean) => {
    let text = ''
    const screen = { isTTY, columns: 200, write: (more: string) => (text += more) }
    const display = createDisplay(screen, [30, 60], () => 0)
    display.show('loading')
    display.scenario('a', 'by-pk')
    display.expect(20)
    display.passed()
    display.show('a: round 1 of 5: koa')
    return text
  }

  t.equal(written(false), 'loading\n[1 of 2] a by-pk · round 1 of 5: koa · window 2 of 20 · about 2 min left\n')
  t.equal(
    written(true),
    '\rloading\u001B[K\r[1 of 2] a by-pk · round 1 of 5: koa · window 2 of 20 · about 2 min left\u001B[K',
  )
})
