import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { parseJson } from '../../core/json/parse.js'
import { encode, encodeLongArray } from '../../core/plan/encode.js'
import type { SqlType, TypeKind } from '../../core/ir.js'

const scalar = (kind: TypeKind): SqlType => ({ schema: 'pg_catalog', name: kind, kind }) as SqlType
const list = (kind: TypeKind): SqlType => ({ ...scalar('array'), element: scalar(kind) }) as SqlType

t.test('a list is the text that PostgreSQL reads as the same list', async (t) => {
  const cases: readonly (readonly [kind: TypeKind, json: string, text: string])[] = [
    ['int4', '[1, -2, null, "3", 2147483647, -2147483648]', '{1,-2,NULL,"3",2147483647,-2147483648}'],
    [
      'int8',
      '[9007199254740991, 9007199254740993, -9223372036854775808]',
      '{9007199254740991,"9007199254740993","-9223372036854775808"}',
    ],
    ['int8', '[-0]', '{"0"}'],
    ['int2', '[1.0, 1e1, 20e-1, -0.0, 1.50e2, 0e999999999999]', '{"1","10","2","0","150","0"}'],
    ['int8', '[9.223372036854775807e18, -92233720368547758080e-1]', '{"9223372036854775807","-9223372036854775808"}'],
    ['numeric', '[1.10, 1e400, 5]', '{"1.10","1e400","5"}'],
    [
      'text',
      String.raw`["", "NULL", "a,b", "{}", "\"", "\\", "\\\"\n"]`,
      '{"","NULL","a,b","{}","\\"","\\\\","\\\\\\"\n"}',
    ],
    ['bool', '[true, false]', '{"true","false"}'],
    ['jsonb', '["a", 1, {"b": [2.0]}]', String.raw`{"\"a\"","1","{\"b\":[2.0]}"}`],
  ]

  for (const [kind, json, text] of cases) t.equal(encode(parseJson(json), list(kind), '$.a'), text, json)
})

t.test('an element that does not fit is named by its place', async (t) => {
  const cases: readonly (readonly [kind: TypeKind, json: string, path: string])[] = [
    ['int2', '[1, 32768]', '$.a[1]'],
    ['int2', '[-32769]', '$.a[0]'],
    ['int4', '[1, 2147483648]', '$.a[1]'],
    ['int4', '[1, 2, 1.5]', '$.a[2]'],
    ['int8', '[9223372036854775808]', '$.a[0]'],
    ['int8', '[1e19]', '$.a[0]'],
    ['int8', '[1, 1e-1]', '$.a[1]'],
    ['int4', '[1e999999999999]', '$.a[0]'],
    ['int8', `[1.${'0'.repeat(1_000)}]`, '$.a[0]'],
    ['text', '["a", 1]', '$.a[1]'],
    ['bool', '[1]', '$.a[0]'],
    ['int4', '[{}]', '$.a[0]'],
  ]

  for (const [kind, json, path] of cases)
    t.throws(() => encode(parseJson(json), list(kind), '$.a'), { code: 'parse-failed', path }, json)
})

t.test('a list of any length is one text', (t) => {
  const type = list('int4')
  for (const length of [0, 1, 2, 999, 1000, 1001, 2000, 2001]) {
    const values = Array.from({ length }, (_, i) => (i % 7 === 3 ? null : i))
    const expected = `{${values.map((each) => each ?? 'NULL').join(',')}}`
    t.equal(encode(values, type, '$'), expected, `${length}`)
  }
  t.end()
})

t.test('a long list leaves the event loop to others, and is encoded once', async (t) => {
  const type = list('text')
  const values = Array.from({ length: 25_000 }, (_, i) => (i % 7 === 3 ? null : `a "${i}"`))
  const expected = encode([...values], type, '$')
  let turns = 0
  const count = () => void (turns++, (timer = setImmediate(count)))
  let timer = setImmediate(count)

  await encodeLongArray(values, type, '$', nextTurn)

  clearImmediate(timer)
  t.ok(turns >= 4, 'other work ran in between', { turns })
  values[0] = 'changed'
  t.equal(encode(values, type, '$'), expected, 'the text is kept')
  const refused = await encodeLongArray([...values, 1], type, '$.a', nextTurn).catch((error: unknown) => error)
  t.match(refused, { code: 'parse-failed', path: '$.a[25000]' })
})
