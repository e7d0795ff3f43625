import t from 'tap'
import { parseInWorker } from '../../core/http/parse-pool.js'
import { DEFAULT_LIMITS, type Json, parseJson, stringifyJson } from '../../core/json/parse.js'
import { isDeepStrictEqual } from 'node:util'
import fc, { cases } from '../kit/property.js'

const ROWS = /^\/args\/objects$/
const limits = { ...DEFAULT_LIMITS, maxValues: 1000, setting: 'http.maxJsonValues' }
const here = (text: string): Json => parseJson(text, limits, ROWS)
const there = (text: string): Promise<Json> => parseInWorker(Buffer.from(text), limits, ROWS)

t.test('a body that is parsed in a worker has the same value', async (t) => {
  for (const text of [
    '{"args":{"objects":[{"a":1.10,"b":[1,2]},{"c":null}],"where":{"n":{"$in":[1.10,-0,12345678901234567890,"é\\u0061"]}}}}',
    '{"__proto__":{"constructor":1},"toString":[true,false,null],"1":{},"0":[]}',
    '{"b":[{"x":1,"10":2,"2":{"1":1,"0":1.0}}],"1":2}',
    '[]',
    '1.0',
    '"\\ud83d\\ude00"',
  ]) {
    const [one, other] = [here(text), await there(text)]
    t.equal(stringifyJson(other), stringifyJson(one))
    t.same(stringifyJson(other).match(/"\d+"/g), text.match(/"\d+"/g), `${text}: the same order of keys`)
    t.ok(isDeepStrictEqual(other, one), `${text}: the same classes`)
  }
  const [one, other] = [here('{"a":{}}'), await there('{"a":{}}')] as { a: object }[]
  t.equal(Object.getPrototypeOf(other?.a), Object.getPrototypeOf(one?.a), 'objects inherit nothing')
})

t.test('a body that is refused in a worker has the same error', async (t) => {
  for (const text of [
    '[1,',
    '{"a":1,"a":2}',
    '["\\ud800"]',
    `[${'1,'.repeat(1000)}1]`,
    '{"args":{"objects":[1]}}',
    '\ufeff1',
  ]) {
    let expected: unknown
    try {
      here(text)
    } catch (error) {
      expected = error
    }
    const { status, code, message, path } = expected as Record<string, unknown>
    await t.rejects(there(text), { status, code, message, path } as unknown as Error, text.slice(0, 20))
  }
  await t.rejects(parseInWorker(Buffer.from([0x22, 0xff, 0x22]), limits, ROWS), { code: 'invalid-json' })
})

t.test('any JSON has the same value there', async () => {
  await fc.assert(
    fc.asyncProperty(fc.json({ maxDepth: 6 }), async (text) => isDeepStrictEqual(await there(text), here(text))),
    { numRuns: cases(200) },
  )
})
