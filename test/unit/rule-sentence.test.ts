import t from 'tap'
import { ruleSentence, type RuleTable } from '../../plugins/query/review/rule-sentence.js'

const name = (table: string) => ({ schema: 'public', name: table })
const ORDERS: RuleTable = {
  table: name('orders'),
  columns: [
    { name: 'status', type: 'text' },
    { name: 'placed_at', type: 'timestamptz' },
  ],
  relationships: [
    { name: 'customer', type: 'object', table: name('customer') },
    { name: 'items', type: 'array', table: name('item') },
  ],
}
const CUSTOMER: RuleTable = {
  table: name('customer'),
  columns: [{ name: 'born', type: 'date' }],
  relationships: [{ name: 'country', type: 'object', table: name('country') }],
}
const ITEM: RuleTable = {
  table: name('item'),
  columns: [],
  relationships: [{ name: 'order', type: 'object', table: name('orders') }],
}
const sentence = (rule: unknown) => ruleSentence(rule, ORDERS, [ORDERS, CUSTOMER, ITEM])

t.test('a rule is a sentence', (t) => {
  const cases: readonly (readonly [unknown, string])[] = [
    [{}, 'all rows'],
    [{ customer_id: 'X-Service-User-Id' }, "rows where customer_id is the user's id"],
    [
      { org: 'x-service-org_id', role: { _eq: 'X-Service-Role' } },
      "rows where org is X-Service-Org_Id and role is the user's role",
    ],
    [{ status: 'late' }, 'rows where status is "late"'],
    [{ note: null }, 'rows where note is null'],
    [{ status: { $in: ['new', 'paid', 'late'] } }, 'rows where status is "new", "paid" or "late"'],
    [{ status: { $nin: ['new'] } }, 'rows where status is not "new"'],
    [{ status: { $in: [] } }, 'rows where status is one of no values'],
    [{ status: { $in: 'X-Service-States' } }, 'rows where status is one of X-Service-States'],
    [{ total: { $gte: 5, $lt: 10 } }, 'rows where total is at least 5 and total is less than 10'],
    [{ placed_at: { $gt: '2025-01-01' } }, 'rows where placed_at is after "2025-01-01"'],
    [{ note: { $is_null: false } }, 'rows where note is not null'],
    [{ shipped_at: { $cgt: 'due_on' } }, 'rows where shipped_at is greater than due_on'],
    [{ a: { $cneq: 'b' } }, 'rows where a is not the same as b'],
    [{ $or: [{ a: 1 }, { b: 2, c: 3 }] }, 'rows where a is 1 or (b is 2 and c is 3)'],
    [{ a: 1, $or: [{ b: 2 }, { c: 3 }] }, 'rows where a is 1 and (b is 2 or c is 3)'],
    [{ _and: [{ a: 1 }, { _and: [{ b: 2 }, { c: 3 }] }] }, 'rows where a is 1 and b is 2 and c is 3'],
    [{ $not: { status: 'shipped' } }, 'rows where it is not true that status is "shipped"'],
    [{ $not: { a: 1, b: 2 } }, 'rows where it is not true that (a is 1 and b is 2)'],
    [{ $or: [] }, 'rows where nothing holds'],
    [{ customer: {} }, 'rows where the customer exists'],
    [{ customer: { born: { $lt: '2000-01-01' } } }, 'rows where the customer\'s born is before "2000-01-01"'],
    [{ customer: { country: { code: 'NO' } } }, 'rows where the customer\'s country\'s code is "NO"'],
    [{ items: {} }, 'rows where it has items'],
    [
      { items: { order: { customer_id: 'X-Service-User-Id' } } },
      "rows where it has items where the order's customer_id is the user's id",
    ],
    [{ items: { a: 1, b: 2 } }, 'rows where it has items where (a is 1 and b is 2)'],
    [{ items_aggregate: { count: { predicate: { $gt: 3 } } } }, 'rows where the number of items is greater than 3'],
    [{ $exists: { _table: 'setting', _where: { open: true } } }, 'rows where setting has a row where open is true'],
    [{ area: { $st_within: { type: 'Point' } } }, 'rows where {"area":{"$st_within":{"type":"Point"}}}'],
    [{ data: { $cast: { String: { $eq: 'x' } } } }, 'rows where {"data":{"$cast":{"String":{"$eq":"x"}}}}'],
    [{ unknown: { a: 1 } }, 'rows where {"unknown":{"a":1}}'],
  ]
  for (const [rule, text] of cases) t.equal(sentence(rule), text)
  t.end()
})
