import assert from 'node:assert/strict'
import t from 'tap'
import { ServiceError } from '../../core/errors.js'
import {
  decodeUtf8,
  DEFAULT_LIMITS,
  type Json,
  type JsonObject,
  NumberText,
  parseJson,
  Rows,
  rowsOf,
  stringifyJson,
} from '../../core/json/parse.js'
import fc, { cases } from '../kit/property.js'

t.test('random documents are read as JSON.parse reads them', async () => {
  const documents = fc.json({ stringUnit: 'binary' }).filter((text) => !text.includes(String.raw`\u0000`))
  fc.assert(
    fc.property(documents, (text) => {
      assert.deepEqual(plain(parseJson(text)), JSON.parse(text))
    }),
  )
})

t.test('damaged documents are refused when JSON.parse refuses them, and read as it reads them otherwise', async () => {
  fc.assert(
    fc.property(damaged(fc.json()), (text) => {
      const ours = outcome(() => plain(parseJson(text)))
      const theirs = outcome(() => JSON.parse(text) as unknown)

      if (theirs.error !== undefined) assert.ok(ours.error !== undefined, 'must be refused')
      else if (ours.error === undefined) assert.deepEqual(ours.value, theirs.value)
      else assert.equal(ours.error.code, 'parse-failed')
    }),
    { numRuns: cases(3000) },
  )
})

t.test('a number is a JavaScript number only when that prints the same text', async (t) => {
  for (const text of ['0', '-1', '123456789012345', '-123456789012345', '9007199254740992', '0.5', '-2.25', '1e+21']) {
    t.equal(parseJson(text), Number(text), text)
  }
  const kept = ['-0', '1.10', '1.0', '9007199254740993', '12345678901234567890', '1e400', '1E5', '1e5', '-0.0', '0e0']
  for (const text of kept) t.same(parseJson(text), new NumberText(text), text)
  t.equal(JSON.stringify([parseJson('1.10')]), '["1.10"]', 'as a text where JavaScript writes it')
})

t.test('what is parsed and printed again keeps the text of every number', async () => {
  const digits = fc.stringMatching(/^-?(0|[1-9]\d{0,25})(\.\d{1,25})?([eE][+-]?\d{1,4})?$/)
  fc.assert(
    fc.property(fc.array(digits), (numbers) => {
      const text = `{"numbers":[${numbers.join()}],"last":[{}]}`
      assert.equal(stringifyJson(parseJson(text)), text)
    }),
  )
})

t.test('keys are printed in the order in which they were written', async (t) => {
  for (const text of [
    '{"b":1,"10":2,"a":3,"2":4,"1":5}',
    '{"2":1,"1":2}',
    '{"a":[{"x":{},"0":{"4294967295":1,"4294967294":2,"01":3,"1":4}}]}',
    '{"1":1}',
  ])
    t.equal(stringifyJson(parseJson(text)), text)
  const changed = parseJson('{"b":1,"1":2}') as JsonObject
  changed['c'] = 3
  t.equal(stringifyJson(changed), '{"1":2,"b":1,"c":3}', 'a key that is added later is not lost')
})

t.test('printing escapes strings and keys, and prints rows as they came', async (t) => {
  const text = String.raw`{"a \"b\"\n":["é",null,true,{"objects":[ {"n" : 1.10} ]}]}`

  t.equal(stringifyJson(parseJson(text, undefined, /./)), text)
})

t.test('escapes stand for their characters', async (t) => {
  t.equal(parseJson(String.raw`"\"\\\/\b\f\n\r\t\u0041\u00e9\uD83D\uDE00"`), '"\\/\b\f\n\r\tAé😀')
  t.same(parseJson(String.raw`{"\u0061":1}`), { a: 1 })
  t.equal(parseJson('"😀 raw"'), '😀 raw')
  t.equal(parseJson('"\uD83D\\uDE00"'), '😀', 'half raw, half escaped')
})

t.test('__proto__ and constructor are keys like any other', async (t) => {
  const text = '{"__proto__":{"polluted":1},"constructor":2,"toString":3}'
  const value = parseJson(text)

  t.equal((value as object).toString, 3)
  t.equal((parseJson('{}') as object).toString, undefined, 'nothing is inherited')
  t.equal('__proto__' in (parseJson('{}') as object), false)
  t.throws(() => Object.assign(Object.getPrototypeOf(parseJson('{}')) as object, { polluted: 1 }), TypeError)
  t.same(Object.keys(value ?? {}), ['__proto__', 'constructor', 'toString'])
  t.equal(stringifyJson(value), text)
  t.equal(stringifyJson(parseJson('{}')), '{}')
})

t.test('what is not JSON is refused with the place where it breaks', async (t) => {
  const cases: readonly (readonly [text: string, path: string, message: string])[] = [
    ['', '$', 'invalid json: expecting a value at line 1 column 1'],
    [' \n ', '$', 'invalid json: expecting a value at line 2 column 2'],
    ['\uFEFF{}', '$', 'invalid json: byte order mark at line 1 column 1'],
    ['{} {}', '$', 'invalid json: expecting the end at line 1 column 4'],
    ['1\u00a0', '$', 'invalid json: expecting the end at line 1 column 2'],
    ['{\n  "a": [1,\n    x]}', '$.a[1]', 'invalid json: expecting a value at line 3 column 5'],
    ['{"a":{"b c":tru}}', "$.a['b c']", 'invalid json: expecting a value at line 1 column 13'],
    ['{"a":1,}', '$', 'invalid json: expecting a key at line 1 column 8'],
    ['{a:1}', '$', 'invalid json: expecting a key at line 1 column 2'],
    ['{"a" 1}', '$', 'invalid json: expecting ":" at line 1 column 6'],
    ['{"a":1 "b":2}', '$', 'invalid json: expecting "," or "}" at line 1 column 8'],
    ['[1,]', '$[1]', 'invalid json: expecting a value at line 1 column 4'],
    ['[1}', '$', 'invalid json: expecting "," or "]" at line 1 column 3'],
    ['[[1],[2', '$[1]', 'invalid json: expecting "," or "]" at line 1 column 8'],
    ['[01]', '$', 'invalid json: expecting "," or "]" at line 1 column 3'],
    ['[-]', '$[0]', 'invalid json: expecting a digit at line 1 column 3'],
    ['[+1]', '$[0]', 'invalid json: expecting a value at line 1 column 2'],
    ['[1.]', '$[0]', 'invalid json: expecting a digit at line 1 column 4'],
    ['[1e+]', '$[0]', 'invalid json: expecting a digit at line 1 column 5'],
    ['["a\tb"]', '$[0]', 'invalid json: control character in a string at line 1 column 4'],
    ['["a\0b"]', '$[0]', 'invalid json: control character in a string at line 1 column 4'],
    ['["abc', '$[0]', 'invalid json: string without an end at line 1 column 6'],
    ['["abc\\', '$[0]', 'invalid json: unknown escape at line 1 column 6'],
    [String.raw`["\x41"]`, '$[0]', 'invalid json: unknown escape at line 1 column 3'],
    [String.raw`["\u12g4"]`, '$[0]', 'invalid json: expecting four hexadecimal digits at line 1 column 3'],
  ]
  for (const [text, path, message] of cases) {
    t.throws(() => parseJson(text), { status: 400, code: 'invalid-json', message, path }, JSON.stringify(text))
  }
})

t.test('JSON that cannot be stored faithfully is refused with its path', async (t) => {
  const cases: readonly (readonly [text: string, path: string, message: RegExp])[] = [
    ['{"a":[{"b":1,"c":2,"b":3}]}', '$.a[0].b', /duplicate key/],
    [String.raw`{"a":null,"\u0061":1}`, '$.a', /duplicate key/],
    ['{"__proto__":1,"__proto__":2}', '$.__proto__', /duplicate key/],
    ['{"a":["\uD800"]}', '$.a[0]', /lone surrogate/],
    ['{"a":["\uDC00\uD800"]}', '$.a[0]', /lone surrogate/],
    ['{"a":["\uDC00\uDC00"]}', '$.a[0]', /lone surrogate/],
    [String.raw`{"a":["\ud800x"]}`, '$.a[0]', /lone surrogate/],
    [String.raw`{"a":["\udc00"]}`, '$.a[0]', /lone surrogate/],
    [String.raw`{"a":{"\ud800":1}}`, '$.a', /lone surrogate/],
    [String.raw`{"a":"x\u0000"}`, '$.a', /U\+0000/],
    [String.raw`{"a":{"\u0000":1}}`, '$.a', /U\+0000/],
  ]
  for (const [text, path, message] of cases) {
    t.throws(() => parseJson(text), { status: 400, code: 'parse-failed', message, path }, JSON.stringify(text))
  }
})

t.test('64 levels of nesting pass and 65 are refused', async (t) => {
  const arrays = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)
  const objects = (levels: number) => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`
  const refusal = { code: 'parse-failed', message: 'more than 64 levels of nesting' }

  t.doesNotThrow(() => parseJson(arrays(64)))
  t.throws(() => parseJson(arrays(65)), { ...refusal, path: `$${'[0]'.repeat(64)}` })
  t.doesNotThrow(() => parseJson(objects(64)))
  t.throws(() => parseJson(objects(65)), { ...refusal, path: `$${'.a'.repeat(64)}` })
  t.throws(() => parseJson('[[[]]]', { maxDepth: 2, maxKeys: 9, maxContainers: 9 }), {
    message: 'more than 2 levels of nesting',
  })
  const few = { maxDepth: 9, maxKeys: 9, maxContainers: 3 }
  t.same(parseJson('[[1,2,3],[]]', few), [[1, 2, 3], []])
  t.throws(() => parseJson('[[],[],{}]', few), { path: '$[2]', message: 'more than 3 objects and arrays' })
})

t.test('levels around rows count for what is in the rows', async (t) => {
  const document = (levels: number) => `{"objects":[{"a":${'['.repeat(levels)}${']'.repeat(levels)}}]}`

  t.doesNotThrow(() => parseJson(document(61), undefined, /./))
  t.throws(() => parseJson(document(62), undefined, /./), {
    message: 'more than 64 levels of nesting',
    path: `$.objects[0].a${'[0]'.repeat(61)}`,
  })
})

t.test('five million open brackets are refused without reading them', async (t) => {
  t.throws(() => parseJson('['.repeat(5_000_000)), { code: 'parse-failed', path: `$${'[0]'.repeat(64)}` })
})

t.test('1000 keys in one object pass and 1001 are refused', async (t) => {
  const object = (keys: number) => `{${Array.from({ length: keys }, (_, i) => `"k${i}":${i}`).join()}}`
  const refusal = { code: 'parse-failed', message: /more than 1000/ }

  t.doesNotThrow(() => parseJson(object(1000)))
  t.throws(() => parseJson(`[${object(1001)}]`), { ...refusal, path: '$[0]' })
  t.doesNotThrow(() => rowsOfText(`[${object(1000)},${object(1000)}]`))
  t.throws(() => rowsOfText(`[{},${object(1001)}]`), { ...refusal, path: '$.objects[1]' })
  t.throws(() => rowsOfText(`[{"a":${object(1001)}}]`), { ...refusal, path: '$.objects[0].a' })
})

t.test('rows with more than 1000 different keys together are refused', async (t) => {
  const rows = (count: number) => `[${Array.from({ length: count }, (_, i) => `{"k${i}":1}`).join()}]`

  t.equal(rowsOfText(rows(1000)).columns.size, 1000)
  t.throws(() => rowsOfText(rows(1001)), { code: 'parse-failed', path: '$.objects[1000]' })
})

t.test('only an array under "objects" whose path matches is kept as rows', async (t) => {
  const text =
    '{"args":[{"objects":[{"a":{"objects":[]}}]},{"objects":{"objects":[[]]}},{"other":[]},{"objects":1}],"x":{"objects":[{}]}}'

  const value = parseJson(text, undefined, /^\/args\/\d+\/(objects|other)$/) as { args: JsonObject[]; x: JsonObject }

  t.same(
    [...value.args.map(({ objects, other }) => objects ?? other), value.x['objects']].map(
      (each) => each instanceof Rows,
    ),
    [true, false, false, false, false],
  )
  t.same(plain(value), JSON.parse(text))
})

t.test('the number of values in a text is limited, those in rows not counted', async (t) => {
  const limits = { ...DEFAULT_LIMITS, maxValues: 5, setting: 'the.setting' }
  const rows = `{"objects":[${'{"a":[1,2]},'.repeat(99)}{}]}`
  for (const text of ['[1,2,3,4]', '{"a":{"b":[null,true]}}', rows]) {
    t.doesNotThrow(() => parseJson(text, limits, /./), text.slice(0, 30))
  }
  for (const text of ['[1,2,3,4,5]', '[[],[],[],[],[]]', '{"a":{"b":[null,true,""]}}', `[${rows},1,1,1]`]) {
    t.throws(() => parseJson(text, limits, /./), { status: 413, code: 'payload-too-large', message: /the\.setting/ })
  }
})

t.test('rows know their text, their columns and the first row of each kind', async (t) => {
  const rows = rowsOfText('[ {"id":1,"a":"x"} ,{"a":null,"id":-2.5},\n{"id":true,"a":[1]},{"id":-0,"a":{"id":1}} ]')

  t.equal(rows.source, '[ {"id":1,"a":"x"} ,{"a":null,"id":-2.5},\n{"id":true,"a":[1]},{"id":-0,"a":{"id":1}} ]')
  t.equal(rows.count, 4)
  t.equal(rows.uniform, true)
  t.same([...rows.columns.keys()], ['id', 'a'])
  t.same(rows.columns.get('id'), {
    present: 4,
    first: { null: -1, boolean: 2, integer: 0, number: 1, string: -1, composite: -1 },
  })
  t.same(rows.columns.get('a'), {
    present: 4,
    first: { null: 1, boolean: -1, integer: -1, number: -1, string: 0, composite: 2 },
  })
})

t.test('rows are grouped by their keys, whatever the order of these', async (t) => {
  const rows = rowsOfText(String.raw`[{"a":1,"b":2}, {"b":3} ,{"b":4,"a":1.10},{},{"\u0062":5}]`)

  t.equal(rows.uniform, false)
  t.same(
    rows.groups('$').map(({ keys, indices, rows: { source, uniform } }) => ({ keys, indices, source, uniform })),
    [
      { keys: ['a', 'b'], indices: [0, 2], source: '[{"a":1,"b":2},{"b":4,"a":1.10}]', uniform: true },
      { keys: ['b'], indices: [1, 4], source: String.raw`[{"b":3},{"\u0062":5}]`, uniform: true },
      { keys: [], indices: [3], source: '[{}]', uniform: true },
    ],
  )
})

t.test('rows read within wide limits can be grouped', async (t) => {
  const wide = Array.from({ length: 1500 }, (_, i) => `"k${i}":${'['.repeat(80)}${']'.repeat(80)}`).join()
  const limits = { maxDepth: 100, maxKeys: 2000, maxContainers: 9 }
  const value = parseJson(`{"objects":[{},{${wide}}]}`, limits, /./)

  t.same(
    rowsIn(value)
      .groups('$')
      .map(({ keys }) => keys.length),
    [0, 1500],
  )
})

t.test('no rows are uniform and have no groups', async (t) => {
  const rows = rowsOfText('[ ]')

  t.match(rows, { source: '[ ]', count: 0, uniform: true })
  t.same(rows.groups('$'), [])
})

t.test('rows tell the same as the parsed array', async () => {
  fc.assert(
    fc.property(rowArrays(), fc.nat(2), (values, indent) => {
      const text = JSON.stringify(values, null, indent)
      const rows = rowsOfText(text)

      assert.equal(rows.source, text)
      assert.deepEqual(summary(rows), expectedSummary(JSON.parse(text) as Record<string, unknown>[]))
    }),
    { numRuns: cases(500) },
  )
})

t.test('damaged rows give the error that the same text gives outside of rows', async () => {
  fc.assert(
    fc.property(damaged(rowArrays().map((rows) => JSON.stringify(rows))), (text) => {
      const document = `{"objects":[${text.slice(1)}}`
      const inRows = outcome(() => plain(parseJson(document, undefined, /./)))
      const outside = outcome(() => plain(parseJson(document)))

      if (inRows.error?.message !== 'expecting an object') assert.deepEqual(inRows, outside)
    }),
    { numRuns: cases(3000) },
  )
})

t.test('errors in rows have the path of the row and the key', async (t) => {
  const cases: readonly (readonly [text: string, code: string, path: string])[] = [
    ['[{"a":1},{"a":1},{"a":"\uD800"}]', 'parse-failed', '$.objects[2].a'],
    ['[{"a":1},{"a":1,"a":2}]', 'parse-failed', '$.objects[1].a'],
    [String.raw`[{"a":1},{"a":1,"\u0061":2}]`, 'parse-failed', '$.objects[1].a'],
    ['[{"a":[{"b":1,"b":2}]}]', 'parse-failed', '$.objects[0].a[0].b'],
    ['[{"a":1},{"a":nul}]', 'invalid-json', '$.objects[1].a'],
    ['[{"a":1},{"a" 1}]', 'invalid-json', '$.objects[1]'],
    ['[{"a":1},]', 'invalid-json', '$.objects[1]'],
  ]
  for (const [text, code, path] of cases) t.throws(() => rowsOfText(text), { code, path }, JSON.stringify(text))
})

t.test('a row that is not an object is refused', async (t) => {
  for (const row of ['1', 'null', '[]', '"{}"']) {
    t.throws(() => rowsOfText(`[{"a":1},${row}]`), {
      status: 400,
      code: 'parse-failed',
      message: 'expecting an object',
      path: '$.objects[1]',
    })
  }
})

t.test('rows can be made from values', async (t) => {
  const rows = rowsOf([{ id: new NumberText('1.10') }, { id: 2, name: null }], '$.objects')

  t.equal(rows.source, '[{"id":1.10},{"id":2,"name":null}]')
  t.match(rows, { count: 2, uniform: false })
  t.match(rows.columns.get('name'), { present: 1, first: { null: 1 } })
  t.throws(() => rowsOf([{}, 1], '$.args.rows'), { message: 'expecting an object', path: '$.args.rows[1]' })
  t.throws(() => rowsOf([{ a: '\uD800' }], '$.args.rows'), { code: 'parse-failed', path: '$.args.rows[0].a' })
})

t.test('a body that is not UTF-8 is refused', async (t) => {
  t.equal(decodeUtf8(Buffer.from('{"a":"é😀"}')), '{"a":"é😀"}')
  for (const bytes of [[0xff], [0xc3], [0xed, 0xa0, 0x80], [0xc0, 0x80]]) {
    t.throws(() => decodeUtf8(Buffer.from(bytes)), {
      status: 400,
      code: 'invalid-json',
      message: 'the body is not valid UTF-8',
      path: '$',
    })
  }
})

function rowsOfText(text: string): Rows {
  return rowsIn(parseJson(`{"objects":${text}}`, undefined, /./))
}

function rowsIn(value: Json): Rows {
  assert.ok(value !== null && typeof value === 'object' && 'objects' in value)
  assert.ok(value.objects instanceof Rows)
  return value.objects
}

/** What `JSON.parse` would have made. */
function plain(value: Json): unknown {
  if (value === null || typeof value !== 'object') return value
  if (value instanceof NumberText) return Number(value.text)
  if (value instanceof Rows) return JSON.parse(value.source) as unknown
  if (Array.isArray(value)) return value.map(plain)
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]))
}

interface Outcome {
  readonly value?: unknown
  readonly error?: { readonly code: string | undefined; readonly path: string | undefined; readonly message: string }
}

function outcome(read: () => unknown): Outcome {
  try {
    return { value: read() }
  } catch (error) {
    assert.ok(error instanceof Error)
    const { code, path } = error instanceof ServiceError ? error : {}
    return { error: { code, path, message: error.message } }
  }
}

/** Texts with one to three places overwritten, cut or filled with something that JSON has a meaning for. */
function damaged(texts: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const pieces = fc.constantFrom(
    ...Array.from('{}[]:,"\\-+.eE019 tn\n\t\0\uDC00\uD800'),
    '\\u',
    '\\ud800',
    '\\u0000',
    'null',
    '"a":',
  )
  const damage = fc.record({ where: fc.double({ min: 0, max: 1, noNaN: true }), cut: fc.nat(2), piece: pieces })
  return fc.tuple(texts, fc.array(damage, { minLength: 1, maxLength: 3 })).map(([text, damages]) =>
    damages.reduce((broken, { where, cut, piece }) => {
      const place = Math.floor(where * broken.length)
      return broken.slice(0, place) + piece + broken.slice(place + cut)
    }, text),
  )
}

function rowArrays(): fc.Arbitrary<Record<string, unknown>[]> {
  const names = fc.constantFrom('a', 'b', 'c', '__proto__', 'a "quoted" é')
  return fc.array(fc.dictionary(names, fc.jsonValue({ maxDepth: 2 }), { maxKeys: 4 }), { maxLength: 12 })
}

function summary(rows: Rows) {
  return {
    count: rows.count,
    uniform: rows.uniform,
    columns: [...rows.columns],
    groups: rows.groups('$').map((group) => ({
      keys: group.keys,
      indices: group.indices,
      values: JSON.parse(group.rows.source) as unknown,
      count: group.rows.count,
      columns: [...group.rows.columns.keys()].toSorted(),
    })),
  }
}

function expectedSummary(values: readonly Record<string, unknown>[]) {
  const names = [...new Set(values.flatMap((row) => Object.keys(row)))]
  const keysOf = (row: Record<string, unknown>) => names.filter((name) => Object.hasOwn(row, name))
  const keySets = [...new Set(values.map((row) => JSON.stringify(keysOf(row))))]
  return {
    count: values.length,
    uniform: keySets.length < 2,
    columns: names.map((name) => {
      const firstOf = (kind: string) =>
        values.findIndex((row) => Object.hasOwn(row, name) && kindOf(row[name]) === kind)
      const kinds = ['null', 'boolean', 'integer', 'number', 'string', 'composite']
      const present = values.filter((row) => Object.hasOwn(row, name)).length
      return [name, { present, first: Object.fromEntries(kinds.map((kind) => [kind, firstOf(kind)])) }]
    }),
    groups: keySets.map((keySet) => {
      const indices = [...values.keys()].filter((i) => JSON.stringify(keysOf(values[i] ?? {})) === keySet)
      const keys = JSON.parse(keySet) as string[]
      const members = indices.map((i) => values[i])
      return { keys, indices, values: members, count: indices.length, columns: keys.toSorted() }
    }),
  }
}

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (typeof value === 'number') return /^-?\d+$/.test(JSON.stringify(value)) ? 'integer' : 'number'
  return typeof value === 'object' ? 'composite' : typeof value
}
