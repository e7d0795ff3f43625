import t from 'tap'
import { splitSql, type SqlPart } from '../../core/cli/split-sql.js'
import { summaryOf } from '../../core/db/query-summary.js'
import fc, { cases } from '../kit/property.js'

const STATEMENTS = [
  'select 1',
  '-1',
  "select ';', 'it''s', E'a\\';b', e'a''\\';', name'x;', u&'\\0061;' from \"a;b\"",
  "select 'a\\'",
  'select $$;\n$ ;$$, $a$ $$ ; $b$ $a$, $1, a$b$c, $é$;$é$ || 1$2',
  'select 1 -- ; it\'s "one" /* $$\n + 1',
  'select /* ; /* nested; */ \' " $x$ */ 2 / 3 - 4',
  'create rule r as on insert to t do also (insert into a values (1); delete from b)',
  'create or replace function f(begin_at int) returns int begin atomic select case when 1 = 2 then 3 end; select 4; end',
  'CREATE PROCEDURE p() BEGIN ATOMIC insert into t values (1); END',
  'begin',
  'end',
  "comment on table t is 'é 🐘;\n;'",
]
const GAPS = ['\n', ' \n\t', '-- a comment; of one line\n', '/* one; /* two */ */ ', ';;\n']
const DATA = ['1\ta\n', '\\N\t;\n', '\\.x\n', ' \\.\n', "it's $$ \\\\.\n", 'é\n']

const statement = fc
  .constantFrom(...STATEMENTS)
  .map((text): Piece => ({ source: `${text};`, parts: [{ kind: 'statement', text }] }))
const copy = fc.array(fc.constantFrom(...DATA), { maxLength: 5 }).map((lines): Piece => {
  const text = 'COPY public."t;" (a, b)\nFROM stdin'
  const data = lines.join('')
  return {
    source: `${text};\n${data}\\.\n`,
    parts: [{ kind: 'copy', text }, { kind: 'data', text: data }, { kind: 'end-of-data' }],
  }
})
const command = fc
  .constantFrom('\\restrict abc', "\\connect it's;")
  .map((text): Piece => ({ source: `\n${text}\n`, parts: [{ kind: 'command', text }] }))
const gap = fc
  .array(fc.constantFrom(...GAPS), { maxLength: 3 })
  .map((gaps): Piece => ({ source: `\n${gaps.join('')}`, parts: [] }))

t.test('splitting what was joined gives the parts back, wherever the pieces are cut', async (t) => {
  const pieces = fc.array(fc.oneof(statement, copy, command, gap), { maxLength: 8 })
  const property = fc.asyncProperty(
    pieces,
    fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1 }),
    async (all, cuts) => {
      const source = all.map((piece) => piece.source).join('')

      const found = joined(await parts(cut(source, cuts)))

      t.same(
        found.map((part) => ('text' in part ? { kind: part.kind, text: part.text } : part)),
        all.flatMap((piece) => piece.parts).filter(({ text }) => text !== ''),
        JSON.stringify(source),
      )
      for (const { text, line } of found) {
        if (line !== undefined)
          t.ok(
            source
              .split('\n')
              .slice(line - 1)
              .join('\n')
              .includes(text!.split('\n')[0]!),
            `line ${line} of ${text}`,
          )
      }
      return t.passing()
    },
  )
  await fc.assert(property, { numRuns: cases(500) })
})

t.test('every part knows its line', async (t) => {
  const found = await parts(['-- one\n\n/* two\n*/ select\n1;\nCOPY t FROM stdin;\n1\n2\n\\.\n  \\x\nselect 2'])

  t.same(
    found.map((part) => ('line' in part ? [part.kind, part.line] : part.kind)),
    [['statement', 4], ['copy', 6], 'data', 'end-of-data', ['command', 10], ['statement', 11]],
  )
})

t.test('what has no end is an error with its line', async (t) => {
  for (const [text, message] of [
    ["select 1;\nselect 'a", "line 2: ' is not closed"],
    ['\n\nselect $x$ $$', 'line 3: $x$ is not closed'],
    ['/* /* */', 'line 1: /* is not closed'],
    ['copy t from stdin;\n1\n', 'line 3: the data of COPY must end with a line \\.'],
    ['copy t from stdin', 'line 1: the data of COPY must end with a line \\.'],
    ['copy t from stdin;', 'line 1: the data of COPY must end with a line \\.'],
  ] as const) {
    await t.rejects(parts([text]), { message })
  }
  t.same(await parts(['-- nothing']), [])
  t.same(await parts(['select 1 -- last']), [{ kind: 'statement', text: 'select 1 -- last', line: 1, column: 1 }])
})

interface Piece {
  readonly source: string
  readonly parts: readonly { readonly kind: SqlPart['kind']; readonly text?: string }[]
}

async function parts(chunks: Iterable<string>): Promise<SqlPart[]> {
  const all: SqlPart[] = []
  for await (const part of splitSql(chunks)) all.push(part)
  return all
}

/** Joins data, which come in as many parts as the text. */
function joined(all: readonly SqlPart[]): { kind: string; text?: string; line?: number; column?: number }[] {
  return all.reduce<{ kind: string; text?: string; line?: number; column?: number }[]>((done, part) => {
    const last = done.at(-1)
    if (part.kind === 'data' && last?.kind === 'data') last.text += part.text
    else done.push({ ...part })
    return done
  }, [])
}

function* cut(text: string, sizes: readonly number[]): Generator<string> {
  for (let at = 0, i = 0; at < text.length; i++) {
    const size = sizes[i % sizes.length] as number
    yield text.slice(at, at + size)
    at += size
  }
}

/** SQL with its summary, and its text without literals if that is another. `hidden` is a value wherever it stands. */
const SUMMARIES: readonly (readonly [sql: string, summary: string, text?: string])[] = [
  ['select * from ledger', 'SELECT ledger'],
  ['select * from "public"."ledger" as "hidden" where "id" = $1', 'SELECT ledger'],
  [
    'SELECT a FROM shop."Led""ger" JOIN LATERAL (select 1 from b) x ON true',
    'SELECT shop.Led"ger b',
    'SELECT a FROM shop."Led""ger" JOIN LATERAL (select ? from b) x ON true',
  ],
  ['select * from a, b as c, only d left join e using (id)', 'SELECT a b d e'],
  ['select extract(year from day), trim(both from day) from a where a is distinct from b', 'SELECT a'],
  [
    'select * from unnest($1::text[]) as t(x), generate_series(1, 2) g',
    'SELECT',
    'select * from unnest($1::text[]) as t(x), generate_series(?, ?) g',
  ],
  ['select * from a for update of a', 'SELECT a'],
  ['insert into a (b, c) values ($1, $2) on conflict (b) do update set c = excluded.c', 'INSERT a'],
  [
    'with w as (insert into a (b) select b from c returning *), n(x) as materialized (select 1 from w) select * from w, n',
    'INSERT a c',
    'with w as (insert into a (b) select b from c returning *), n(x) as materialized (select ? from w) select * from w, n',
  ],
  ['with recursive w as (select id from a union select id from w) select * from w', 'SELECT a'],
  ['update a set b = c.b from c where a.id = c.id', 'UPDATE a c'],
  ['delete from only a using b where a.id = b.id', 'DELETE a b'],
  [
    'merge into a using b on true when matched then update set c = 1',
    'MERGE a b',
    'merge into a using b on true when matched then update set c = ?',
  ],
  ['(select 1 from a)', 'SELECT a', '(select ? from a)'],
  ['begin; set local x = 1', 'BEGIN; SET', 'begin; set local x = ?'],
  ['begin read only', 'BEGIN'],
  ['create table if not exists s.a (b int references c)', 'CREATE s.a'],
  ['create index on a using btree (b)', 'CREATE'],
  ["alter role x password 'hidden'", 'ALTER', 'alter role x password ?'],
  [
    "select 'hid''den', e'hid\\'den', $$hidden$$, $x$hid$$den$x$, u&'hidden', x'1f', -1.5e3, .5 from a",
    'SELECT a',
    'select ?, ?, ?, ?, ?, ?, -?, ? from a',
  ],
  ['select /* hidden /* hidden */ hidden */ a --hidden\n from b', 'SELECT b', 'select   a  \n from b'],
  ["hidden from 'x", '', 'hidden from ?'],
  ["select 'hidden", 'SELECT', 'select ?'],
  ['select /* hidden', 'SELECT', 'select'],
  ['', ''],
]

t.test('a summary of SQL has its verbs and tables, and no values', async (t) => {
  for (const [sql, summary, text = sql] of SUMMARIES) {
    const found = summaryOf(sql)
    t.same({ summary: found.summary, text: found.text }, { summary, text }, sql)
  }
  t.match(summaryOf('select * from a'), { verb: 'SELECT', table: 'a' })
  t.match(summaryOf('select * from a, b'), { verb: 'SELECT', table: undefined })
  const many = Array.from({ length: 100 }, (_, i) => `table_${i}`)
  t.match(summaryOf(`select * from ${many.join()}`).summary, /^SELECT table_0 .{200,240} table_\d+$/)
})

t.test('a summary can be made of any start of any text', async (t) => {
  const pieces = fc.array(
    fc.constantFrom(...STATEMENTS, ...SUMMARIES.map(([sql]) => sql), ...GAPS, "'", '"', '$$', '(', ')'),
  )
  fc.assert(
    fc.property(pieces, fc.nat(300), (all, cut) => {
      const { summary } = summaryOf(all.join('').slice(0, cut))
      return summary.length <= 255
    }),
    { numRuns: cases(300) },
  )
  t.pass()
})
