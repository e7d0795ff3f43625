import t from 'tap'
import type { SqlType } from '../../core/ir.js'
import { scaleOf } from '../../plugins/query/review/rules/constants.js'

const scale = (name: string, kind: SqlType['kind'] = 'other') =>
  scaleOf({ schema: 'pg_catalog', name, kind } as SqlType)

t.test('days and times that exist have an order', async (t) => {
  const { read, compare } = scale('date')

  t.equal(read('2024-02-30'), undefined)
  t.equal(read('2023-02-29'), undefined)
  t.equal(read('2024-13-01'), undefined)
  t.ok(compare(read('2024-02-29')!, read('2024-03-01')!) < 0)
  const at = scale('timestamptz').read
  t.equal(at('2024-02-29T00:00:00.5Z'), at('2024-02-29 00:00:00.500000Z'))
  t.equal(at('2024-02-29T00:00:00'), undefined, 'its zone depends on the session')
  t.equal(scale('timestamp').read('2024-02-30T00:00:00'), undefined)
})
