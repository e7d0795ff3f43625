import t from 'tap'
import { SharedCache } from '../../core/data/shared-cache.js'

const KIB = 1024

/** Adds values of 10 KiB. @returns those that are left */
function fill(cache: SharedCache<number>, owner: string, count: number): readonly number[] {
  const keys = Array.from({ length: count }, (_, i) => i)
  for (const i of keys) cache.set(`${owner} ${i}`, i, 10 * KIB, owner)
  return left(cache, owner, count)
}
const left = (cache: SharedCache<number>, owner: string, count: number): readonly number[] =>
  Array.from({ length: count }, (_, i) => i).filter((i) => cache.get(`${owner} ${i}`) !== undefined)

t.test('what is in the cache never takes more than its bytes', async (t) => {
  const cache = new SharedCache<number>(100 * KIB)
  t.ok(fill(cache, 'a', 1000).length < 10)
  cache.set('large', 1, 1000 * KIB, 'b')
  t.equal(cache.get('large'), undefined, 'a value that does not fit is not kept')
  t.ok(left(cache, 'a', 1000).length > 5, 'and drives out no others')
})

t.test('an owner that adds much loses its own values, not those of others', async (t) => {
  const cache = new SharedCache<number>(100 * KIB)
  fill(cache, 'honest', 3)
  for (const attacker of ['x', 'y']) fill(cache, attacker, 500)
  t.same(left(cache, 'honest', 3), [0, 1, 2])
})

t.test('values that are used stay longer than those that are not', async (t) => {
  const cache = new SharedCache<number>(100 * KIB)
  fill(cache, 'a', 1)
  for (let i = 0; i < 50; i++) {
    t.equal(cache.get('a 0'), 0)
    cache.set(`other ${i}`, i, 10 * KIB, 'a')
  }
})

t.test('a value that is replaced counts once', async (t) => {
  const cache = new SharedCache<string>(100 * KIB)
  for (let i = 0; i < 50; i++) cache.set('key', String(i), 10 * KIB, i % 2 ? 'a' : 'b')
  cache.set('other', 'x', 80 * KIB, 'a')
  t.equal(cache.get('key'), '49')
  t.equal(cache.get('other'), 'x')
})
