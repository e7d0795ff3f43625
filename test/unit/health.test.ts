import t from 'tap'
import { pino } from 'pino'
import { SlowQueries } from '../../core/db/slow-queries.js'
import { createLogger } from '../../core/observe/log.js'
import { LogLines } from '../../core/observe/log-lines.js'

t.test('the last 500 lines of the log are kept, and their levels can be chosen', async (t) => {
  const recent = new LogLines()
  let written = 0
  const log = createLogger({ level: 'info', recent, destination: { write: () => void written++ } })
  for (let i = 1; i <= 501; i++) log[i % 2 === 0 ? 'warn' : 'info']({ i }, 'line')
  log.debug('not written')

  const lines = recent.after(0, 'trace')

  t.equal(written, 501)
  t.equal(recent.last, lines.at(-1)!.number)
  t.equal(lines.length, 500)
  t.match(lines[0]!.text, /"i":2,/)
  t.ok(
    lines.every(({ number }, i) => i === 0 || number > lines[i - 1]!.number),
    'their numbers rise',
  )
  t.match(JSON.parse(lines.at(-1)!.text), { level: 'info', i: 501 })
  t.same(
    recent.after(lines[495]!.number, 'warn').map(({ text }) => JSON.parse(text).i),
    [498, 500],
  )
})

t.test('long lines of the log push out others, and a line that is too long is not kept', async (t) => {
  const recent = new LogLines()
  for (let i = 0; i < 5; i++) recent.add(`{"level":"info","i":${i},"text":"${'x'.repeat(60_000)}"}`)
  t.same(
    recent.after(0, 'info').map(({ text }) => JSON.parse(text).i),
    [1, 2, 3, 4],
  )
  const before = recent.last

  recent.add('x'.repeat(300_000))

  t.same(recent.after(0, 'trace'), [])
  t.ok(recent.last > before)
  recent.add('{"level":"info"}')
  t.same(recent.after(0, 'info'), [{ number: recent.last, text: '{"level":"info"}' }])

  const other = new LogLines(1)
  const own = new LogLines(2)
  for (let i = 0; i < 50; i++) for (const each of [other, own]) each.add('{"level":"info"}')
  const numbers = [other, own].flatMap((each) => each.after(0, 'info').map(({ number }) => number))
  t.equal(new Set(numbers).size, 100, 'two processes never give the same number')
})

const PLACE = { lane: 'pool' as const, target: {} }

t.test('the slow statements that took the most time in total are kept, with the start of long SQL', async (t) => {
  const slow = new SlowQueries(100, pino({ level: 'silent' }))
  const origin = { planner: 'query', reader: { role: 'user', kind: 'read' as const } }
  for (let i = 1; i <= 200; i++) slow.record({ name: `n${i}`, text: 'x'.repeat(40_000) }, origin, 200 + i, PLACE)
  slow.record({ name: 'n1', text: 'x'.repeat(40_000) }, { ...origin, name: 'y'.repeat(1000) }, 300, PLACE)

  slow.record({ name: 'other', text: 'select 1' }, origin, 150, PLACE)

  t.equal(slow.all.length, 200)
  t.equal(slow.get('user:n2'), undefined)
  t.match(slow.all[0], { id: 'user:n1', count: 2, totalMs: 501, maxMs: 300, isCut: true, name: 'y'.repeat(100) })
  t.equal(slow.all[0]?.sql.length, 32 * 1024)
  t.match(slow.all.at(-1), { id: 'user:other', isCut: false, sql: 'select 1' })
})
