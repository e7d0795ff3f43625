import t from 'tap'
import { Shares } from '../../core/data/caller-limits.js'
import type { ServiceError } from '../../core/errors.js'
import type { Session } from '../../core/session.js'

const session = (caller: string | undefined): Session => ({
  role: 'user',
  variables: new Map(),
  via: 'token',
  ...(caller === undefined ? {} : { caller }),
})
const NEVER = new AbortController().signal
/** The status and message of a refusal. */
const refusal = (taking: Promise<unknown>) =>
  taking.then(
    () => 'given',
    ({ status, message }: ServiceError) => `${status} ${message}`,
  )

/** Two for each caller, four for all, of which one is for what is quick. */
const shares = (waitMs: number) =>
  new Shares({
    most: ({ caller }) => (caller === undefined ? Infinity : 2),
    total: 4,
    forQuick: 1,
    waitMs,
    what: 'are taken',
    allTaken: 'others have all',
  })

t.test('a caller has one share, of what is quick and all else together', async (t) => {
  const some = shares(0)
  const give = await some.take(session('a'), NEVER, true)
  await some.take(session('a'), NEVER, false)

  for (const isQuick of [true, false]) {
    t.match(await refusal(some.take(session('a'), NEVER, isQuick)), /^429 2 are taken/)
  }
  await some.take(session('b'), NEVER, false)
  give()
  give()
  await some.take(session('a'), NEVER, true)
  t.match(await refusal(some.take(session('a'), NEVER, true)), /^429/, 'given back once')
})

t.test('what is not quick leaves some to what is', async (t) => {
  const some = shares(0)
  for (const caller of ['a', 'b', 'c']) await some.take(session(caller), NEVER, false)

  t.equal(await refusal(some.take(session('d'), NEVER, false)), '503 others have all')
  await some.take(session('d'), NEVER, true)
  t.equal(await refusal(some.take(session('e'), NEVER, true)), '503 others have all')
})

t.test('those without a caller are counted, and have no share of their own', async (t) => {
  const some = shares(0)
  for (let i = 0; i < 4; i++) await some.take(session(undefined), NEVER, true)

  t.equal(await refusal(some.take(session(undefined), NEVER, true)), '503 others have all')
})

t.test('who waits with the fewest gets the next', async (t) => {
  const some = shares(1_000_000)
  const given: string[] = []
  const take = (caller: string) => some.take(session(caller), NEVER, true).then((give) => (given.push(caller), give))
  const [first] = await Promise.all(['a', 'a', 'b', 'c'].map(take))
  const [next, last] = [take('c'), take('d')]

  first?.()
  await last
  t.same(given.at(-1), 'd')
  ;(await last)()
  await next
  t.same(given.slice(4), ['d', 'c'])
})

t.test('one that is given back may serve two who wait', async (t) => {
  const some = shares(1_000_000)
  const [give] = await Promise.all(['a', 'a', 'b'].map((caller) => some.take(session(caller), NEVER, false)))
  // The first waits for its caller's share, the second for what is not kept for the quick.
  const both = [some.take(session('a'), NEVER, true), some.take(session('c'), NEVER, false)]
  give?.()
  await Promise.all(both)
  t.pass()
})

t.test('who has gone away leaves its place', async (t) => {
  const some = shares(1_000_000)
  const [first] = await Promise.all(['a', 'a', 'b', 'b'].map((caller) => some.take(session(caller), NEVER, true)))
  const gone = new AbortController()
  const left = some.take(session('c'), gone.signal, true)
  const stays = some.take(session('d'), NEVER, true)
  gone.abort(new Error('gone'))

  await t.rejects(left, { message: 'gone' })
  first?.()
  await stays
})
