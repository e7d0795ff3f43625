import fc from 'fast-check'
import { NAMES } from './town.js'
import type { Mutation } from './tree.js'

/** Stands in values only, so it may never be found in a log. */
export const MARKER = 'mark-5f1d0c9b-value'

const quoted = (text: string): string => JSON.stringify(text)
const nested = (open: string, inner: string, close: string, levels: number): string =>
  `${open.repeat(levels)}${inner}${close.repeat(levels)}`

/** Strings. */
const TEXTS: readonly string[] = [
  ['NaN', 'Infinity', '-Infinity', '', ' ', 'a', MARKER, `${MARKER} \u00e9`, '1', '1.5', 'true', 'null'],
  ['\u{1F600}', '\u202e', '\ufeff', '\uffff', 'x'.repeat(70_000), 'n'.repeat(64), '\u00e9'.repeat(40)],
  ["'; drop table person; --", '$1', '$$', 'X-Service-User-Id', 'x-service-none', 'X-SERVICE-', '%', '%\\', '\\'],
  ['(', '[', '*', '(?', 'a{99999}', '(a+)+$', '{1,2', '{}', '{"a",NULL}', '[1,2)', '[2,1)', 'empty', '\\x0', '\\xzz'],
  ['2020-13-45', 'infinity', '-infinity', 'now', 'epoch', '294277-01-01', '0001-01-01 BC', '1 decade', 'P1Y', '::1'],
  ['1.2.3.4/33', '10101', 'b1', 'calm', 'angry', 'wild', 'public', 'pg_catalog', 'person', 'pg_temp'],
].flat()
/** JSON texts, and some that are none. */
const LEAVES: readonly string[] = [
  ['null', 'true', 'false', '0', '-0', '-1', '1', '2', '0.1', '1e400', '-1e400', '1e-400', '1E5', '1.0'],
  ['32768', '2147483648', '9007199254740993', '9223372036854775807', '9223372036854775808', '18446744073709551616'],
  ['9'.repeat(500), `0.${'3'.repeat(20_000)}`, '1e131072', '1e16384', 'NaN', 'Infinity', '01', '+1', '.5', '0x10'],
  ['"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"a\\u0000b"', '"\\u0001"', '"\\x"', '"\\u12"', "'a'", '"a'],
  ...TEXTS.map(quoted),
].flat()

const SHAPES: readonly string[] = [
  ['[]', '{}', '[[]]', '[null]', '[{}]', '[1,"a",null,true]', '{"":null}', '{" ":1}', '{"a":1,"a":2}', '{,}', '[1,]'],
  ['{"__proto__":{"polluted":1}}', '{"constructor":{"prototype":{"polluted":1}}}', '{"toString":1}', '{"length":9}'],
  ['{"schema":"pg_catalog","name":"pg_class"}', '{"schema":"svc_catalog","name":"svc_table"}', '{"name":null}'],
  ['{"$in":[]}', '{"$in":[null]}', '{"$in":[1,"a",[]]}', '{"$nin":"x"}', '{"$eq":null}', '{"$gt":{}}', '{"$nope":1}'],
  ['{"$and":[]}', '{"$or":[]}', '{"$not":{}}', '{"$not":null}', '{"$or":{}}', '{"$exists":{"_table":"town"}}'],
  ['{"$like":"%"}', '{"$is_null":1}', '{"$ceq":"name"}', '{"$ceq":1}', '{"$contains":{}}', '{"$has_keys_any":[1]}'],
  nested('[', '', ']', 40),
  nested('[', '', ']', 100),
  nested('[', '', '', 5000),
  nested('{"a":', '1', '}', 40),
  nested('{"$not":', '{}', '}', 30),
  nested('{"$not":', '{}', '}', 60),
  nested('{"$or":[', '{"id":1}', ']}', 29),
  nested('{"town":{"people":', '{"id":1}', '}}', 20),
  `[${Array.from({ length: 1200 }, () => '{"type":"count","args":{"table":"town"}}').join()}]`,
  `[${Array.from({ length: 2500 }, (_, i) => `{"id":${i}}`).join()}]`,
  `{"$or":[${Array.from({ length: 1900 }, (_, i) => `{"id":${i}}`).join()}]}`,
  `{"$in":[${Array.from({ length: 5000 }, (_, i) => i).join()}]}`,
  `{${Array.from({ length: 1100 }, (_, i) => `"k${i}":1`).join()}}`,
  `[${Array.from({ length: 1001 }, (_, i) => `{"k${i}":1}`).join()}]`,
  `[${Array.from({ length: 300 }, (_, i) => `{"name":"n${i}","${i % 2 ? 'id' : 'age'}":${i}}`).join()}]`,
].flat()

const KEYS: readonly string[] = [
  ['', ' ', '__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'valueOf', '0', '-1', 'a.b', "a'b"],
  ['"', '\\', '$', '_', '$where', 'x'.repeat(63), 'x'.repeat(64), 'x'.repeat(300), '\u00e9'.repeat(32), 'a"; --'],
  ['\u{1F600}', '\ufeff', 'ID', 'Name', 'ctid', 'xmin', 'tableoid', 'r', 'o', 'row_to_json', 'null', 'objects'],
]
  .flat()
  .map(quoted)

const name = fc.constantFrom(...NAMES).map(quoted)
/** The text of a value. */
export const hostileValue: fc.Arbitrary<string> = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...LEAVES) },
  { weight: 3, arbitrary: fc.constantFrom(...SHAPES) },
  { weight: 4, arbitrary: name },
  { weight: 1, arbitrary: fc.tuple(name, fc.constantFrom(...LEAVES)).map(([key, value]) => `{${key}:${value}}`) },
  { weight: 1, arbitrary: fc.array(fc.constantFrom(...LEAVES), { maxLength: 4 }).map((list) => `[${list.join()}]`) },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 3 }).map((value) => JSON.stringify(value)) },
  { weight: 1, arbitrary: fc.double().map(String) },
  { weight: 1, arbitrary: fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }).map(String) },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 30 }).map(quoted) },
)
const hostileKey: fc.Arbitrary<string> = fc.oneof(
  { weight: 3, arbitrary: name },
  { weight: 2, arbitrary: fc.constantFrom(...KEYS) },
  { weight: 1, arbitrary: fc.constantFrom('"\\u0000"', '"\\ud800"', 'a', "'a'", '1', '"a') },
)

export const mutation: fc.Arbitrary<Mutation> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('replace'), text: hostileValue }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('rename'), key: hostileKey }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('add'), key: hostileKey, text: hostileValue }) },
  { weight: 2, arbitrary: fc.constant({ kind: 'remove' }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('repeat'), times: fc.constantFrom(2, 2, 3, 20, 1001) }),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom<Mutation>(
      { kind: 'wrap', open: '[', close: ']' },
      { kind: 'wrap', open: '{"$not":', close: '}' },
      { kind: 'wrap', open: '{"town":', close: '}' },
      { kind: 'wrap', open: '{"$or":[', close: ']}' },
      { kind: 'wrap', open: '['.repeat(70), close: ']'.repeat(70) },
      { kind: 'wrap', open: '/* */', close: '' },
      { kind: 'wrap', open: '', close: ',' },
    ),
  },
) as fc.Arbitrary<Mutation>
