import { EventEmitter } from 'node:events'
import type { ServerResponse } from 'node:http'
import { setImmediate as nextRound } from 'node:timers/promises'
import t from 'tap'
import { createHeld } from '../../core/http/traffic.js'
import { DEFAULT_LIMITS, type Json, parseJson, type Rows, rowsOfText, stringifyJson } from '../../core/json/parse.js'
import { bindInWorker, parseInWorker } from '../../core/long/pool.js'
import type { SqlType } from '../../core/ir.js'
import type { Session } from '../../core/session.js'
import { bindRows, mustRead, type RowsColumns } from '../../core/sql/bind-rows.js'
import { Turns } from '../../core/long/turns.js'
import { isDeepStrictEqual } from 'node:util'
import fc, { cases } from '../kit/property.js'

const ROWS = /^\/args\/objects$/
const limits = { ...DEFAULT_LIMITS, maxValues: 1000, setting: 'http.maxJsonValues' }
const client = { signal: new AbortController().signal }
const here = (text: string): Json => parseJson(text, limits, ROWS)
const there = (text: string): Promise<Json> => parseInWorker(Buffer.from(text), limits, ROWS, client)

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

t.test('long lists arrive in pieces, wherever they are, and other work runs between these', async (t) => {
  const all = { ...limits, maxValues: 1_000_000 }
  const list = (length: number, each: (i: number) => string) =>
    `[${Array.from({ length }, (_, i) => each(i)).join(',')}]`
  const kinds = [String, (i: number) => `${i}.50`, (i: number) => `"x${i}"`, (i: number) => (i % 2 ? 'null' : 'true')]
  const mixed = list(30_000, (i) => (kinds[i % 4] as (i: number) => string)(i))
  for (const [text, pieces] of [
    [list(9_999, String), 0],
    [list(10_000, String), 1],
    [list(20_000, String), 2],
    [list(100_001, String), 11],
    [`{"a":${mixed},"2":[],"b":{"c":[1,${mixed}]},"1":${mixed}}`, 9],
    [list(15_000, (i) => `[${i},${i}.10]`), 4],
    [list(100, (i) => `{"b":${i},"1":${list(500, String)}}`), 5],
    // The long one within a long one travels in pieces.
    [`[${mixed},${list(12_000, String).slice(1)}`, 3],
  ] as const) {
    let turns = 0
    let isDone = false
    const count = async (): Promise<void> => {
      while (!isDone) {
        await nextRound()
        turns++
      }
    }
    const counting = count()
    const value = await parseInWorker(Buffer.from(text), all, ROWS, client)
    isDone = true
    await counting

    t.ok(isDeepStrictEqual(value, parseJson(text, all, ROWS)), `${text.slice(0, 30)}: the same value`)
    t.equal(stringifyJson(value), text, 'the same order of keys')
    t.ok(turns > pieces, `${turns} turns`)
  }
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
  await t.rejects(parseInWorker(Buffer.from([0x22, 0xff, 0x22]), limits, ROWS, client), { code: 'invalid-json' })
})

t.test('any JSON has the same value there', async () => {
  await fc.assert(
    fc.asyncProperty(fc.json({ maxDepth: 6 }), async (text) => isDeepStrictEqual(await there(text), here(text))),
    { numRuns: cases(200) },
  )
})

const int: SqlType = { name: 'int4', kind: 'int4' } as SqlType
const COLUMNS: RowsColumns = [
  { name: 'n', type: int },
  { name: 'list', type: { name: 'int4[]', kind: 'array', element: int } as SqlType },
]

t.test('rows that are bound in a worker have the same text, and `bind` does not read them again', async (t) => {
  for (const text of [
    '[{"n":1.0,"list":[1,2.0]},{"n":2,"list":null},{"other":[1.0],"n":3e1}]',
    '[{"list":"{1,2}"},{"list":[[1],[2.0]]}]',
  ]) {
    const rows = rowsOfText(text, '$')
    const expected = bindRows(rows, COLUMNS)
    const sentRows = rowsOfText(text, '$')
    t.equal(mustRead(sentRows, COLUMNS), true)
    await bindInWorker(sentRows, COLUMNS, client)
    t.equal(mustRead(sentRows, COLUMNS), false)
    t.equal(bindRows(sentRows, COLUMNS), expected)
  }
})

t.test('a cell that is refused in a worker has the same error', async (t) => {
  for (const text of ['[{"n":1.5}]', '[{"n":1.0},{"list":[1,"x"]},{"list":[1,{}]}]', '[{"list":[1.0,[true]]}]']) {
    const rows = rowsOfText(text, '$')
    let expected: unknown
    try {
      bindRows(rows, COLUMNS)
    } catch (error) {
      expected = error
    }
    const { status, code, message, path } = expected as Record<string, unknown>
    t.match(path, /^\$\.args\.objects\[/)
    await t.rejects(bindInWorker(rows, COLUMNS, client), { status, code, message, path } as unknown as Error, text)
  }
})

t.test('rows with different keys that were parsed in a worker are grouped there', async (t) => {
  const both = async (text: string) => [here(text), await there(text)] as unknown as { args: { objects: Rows } }[]
  const [one, other] = await both(`{"args":{"objects":[{"a":"${'x'.repeat(70_000)}"},{"b":[2]},{"a":3}]}}`)
  const plain = (rows: Rows | undefined) =>
    rows?.groups('$').map((each) => ({ ...each, indices: Array.from(each.indices) }))
  t.same(plain(other?.args.objects), plain(one?.args.objects))
  t.equal(other?.args.objects.groups('$'), other?.args.objects.groups('$'), 'once')
  t.equal(other?.args.objects.values, one?.args.objects.values)
  const sets = Array.from({ length: 1001 }, (_, i) => `{"k${i % 40}":1,"l${Math.floor(i / 40)}":1}`).join()
  for (const each of await both(`{"args":{"objects":[${sets},{"k":"${'x'.repeat(70_000)}"}]}}`))
    t.throws(() => each.args.objects.groups('$.x'), {
      code: 'unexpected-payload',
      path: '$.x',
      message: /1000 different/,
    })
})

t.test('callers take turns, and one that is gone leaves its place', async (t) => {
  const turns = new Turns()
  const done: string[] = []
  const gone = new AbortController()
  const take = async (name: string, caller: string | undefined, signal?: AbortSignal) => {
    const end = await turns.take(caller, signal)
    done.push(name)
    setImmediate(end)
  }
  const crowd = ['a1', 'a2', 'a3', 'a4'].map((name) => take(name, 'a'))
  const left = take('c1', 'c', gone.signal)
  const others = [take('b1', 'b'), take('admin', undefined), take('b2', 'b')]
  gone.abort()
  await t.rejects(left, { code: 'client-gone' })
  await Promise.all([...crowd, ...others])
  t.same(done, ['a1', 'a2', 'b1', 'admin', 'a3', 'b2', 'a4'])
})

t.test('long bodies of a caller wait while others of it are in progress, those of others do not', async (t) => {
  const held = createHeld({
    maxAnswerBytes: 1,
    maxAnonymousAnswerBytes: 1,
    streamMaxAgeMs: 1,
    streamMinBytesPerSecond: 1,
  })
  const started: string[] = []
  const begin = (name: string, caller: string | undefined, bytes: number) => {
    const res = new EventEmitter() as ServerResponse
    const session = { role: 'user', caller } as Session
    held.turn(session, res, bytes, 60_000).then(
      () => started.push(name),
      () => {},
    )
    return () => res.emit('close')
  }
  const KIB = 1024
  const ends = [
    begin('a1', 'a', 200 * KIB),
    begin('a2', 'a', 50 * KIB),
    begin('a3', 'a', 200 * KIB),
    begin('a4', 'a', 900 * KIB),
    begin('a5', 'a', 10),
    begin('b1', 'b', 900 * KIB),
    begin('admin', undefined, 900 * KIB),
  ]
  await nextRound()
  t.same(started.splice(0).sort(), ['a1', 'a2', 'admin', 'b1'])
  ends[0]?.()
  await nextRound()
  t.same(started.splice(0), ['a3'], 'the next one fits')
  ends[2]?.()
  await nextRound()
  t.same(started.splice(0), [], 'a longer one waits for all')
  ends[1]?.()
  await nextRound()
  t.same(started.splice(0), ['a4'])
  ends[3]?.()
  await nextRound()
  t.same(started.splice(0), ['a5'])
})
