import type { Attacker } from '../../../bench/load/attack.js'

/** The kind of request that `--only` names. */
export const CROWD = 'twelve attackers at once'
/** How long they go on: longer than the statements of anonymous callers may take. */
export const CROWD_MS = 8000

const select = (table: string, more: object): string => JSON.stringify({ type: 'select', args: { table, ...more } })
/** As many characters of regular expressions as are allowed, of one that tries all ways to cut a text into parts. */
const patterns = { $or: Array.from({ length: 5 }, () => ({ body: { $regex: '(.+)(.+)(.+)\\2\\3\\1$' } })) }
const reviews = (more: object = {}) => [select('review', { columns: ['id'], where: patterns, ...more })]
const refused = [
  select('product', {
    columns: ['id'],
    where: { $or: Array.from({ length: 900 }, (_, n) => ({ name: { $iregex: `(q|z)${n}w[a-z]{3,200}(x|yy)+k3$` } })) },
    limit: 1,
  }),
]
/** More than the buffers of a connection hold. */
const stream = [
  select('review', {
    columns: ['id', 'body', { name: 'product', columns: ['name', { name: 'reviews', columns: ['body'] }] }],
  }),
]

/**
 * The worst that the sample shop allows, from anonymous callers of several addresses and from users, and what it refuses.
 * @param users credentials of customers
 */
export function crowd(users: readonly string[]): readonly Attacker[] {
  const anonymous = (last: number, bodies: readonly string[]): Attacker => {
    return { from: `127.0.0.${last}`, headers: {}, bodies }
  }
  const user = (n: number, bodies: readonly string[]): Attacker => {
    return { headers: { authorization: users[n] as string }, bodies, unread: bodies === stream }
  }
  return [
    anonymous(1, refused),
    anonymous(1, reviews({ limit: 1 })),
    anonymous(2, reviews({ limit: 1 })),
    anonymous(3, reviews()),
    anonymous(4, reviews()),
    anonymous(5, reviews({ limit: 100 })),
    user(0, reviews({ limit: 1 })),
    user(1, reviews({ limit: 1 })),
    user(2, reviews()),
    user(3, stream),
    user(4, stream),
    user(5, refused),
  ]
}
