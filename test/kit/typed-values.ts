import fc from './property.js'

/** A type of PostgreSQL, and values of it as texts that PostgreSQL reads. */
export interface TypedValues {
  readonly sql: string
  /** SQL that makes the value of `$1`, a text; a cast to the type unless told otherwise. */
  readonly from?: string
  readonly of: fc.Arbitrary<string>
  /** Whether PostgreSQL has no `=` for it. */
  readonly incomparable?: true
  /** Whether `+` of 0 and the value is the value. */
  readonly adds?: true
}

export const TYPES_SQL = `
create schema ext;
create extension hstore schema ext; create extension citext schema ext; create extension ltree schema ext;
create type mood as enum ('calm', 'wild');
create type odd_mood as enum ('very calm', 'a "quote"', '$x');
create domain positive as numeric check (value > -1);
create domain word as text;
create domain any_json as jsonb;
create type place as (street text, no int, big int8, ok bool, at timestamptz);
create domain home as place;
create type trip as (name text, stops place[], meta jsonb, scores numeric[], mood mood);
create domain label as ext.hstore;
create type parcel as (name text, bag ext.hstore, label label, bags ext.hstore[], docs jsonb[], tree ext.ltree, ci ext.citext, span int4range);
create type crate as (no int, parcels parcel[], first parcel);
`

const one = (values: readonly string[]) => fc.constantFrom(...values)
const either = (arbitrary: fc.Arbitrary<string>, ...special: readonly string[]) =>
  fc.oneof({ weight: 3, arbitrary }, { weight: 1, arbitrary: one(special) })
const integer = (bits: bigint) =>
  either(
    fc.bigInt(-(2n ** bits), 2n ** bits - 1n).map(String),
    '0',
    '-1',
    String(-(2n ** bits)),
    String(2n ** bits - 1n),
  )
const decimal = fc.stringMatching(/^-?(0|[1-9]\d{0,25})(\.\d{1,12})?$/)
const float = (of: fc.Arbitrary<number>) =>
  either(
    of.map((value) => (Object.is(value, -0) ? '-0' : String(value))),
    'NaN',
    'Infinity',
    '-Infinity',
    '-0',
    '0',
  )
const ODD = [
  '',
  ' ',
  'NULL',
  'null',
  '{}',
  '[]',
  '{',
  '(',
  '\\',
  '"',
  "'",
  '$1',
  '\\N',
  'true',
  '1',
  '1.0',
  'NaN',
  '@x',
  '\t\r\n',
  '\u2028',
  'é',
  '👍🏽',
  '\ufeff',
  'x-service-user-id',
  'now',
  'default',
  ',',
]
const text = either(
  fc.string({ unit: 'binary', maxLength: 12 }).map((value) => value.replaceAll('\0', '')),
  ...ODD,
)
const quoted = (value: string) => `"${value.replaceAll(/["\\]/g, '\\$&')}"`
const arrayOf = (of: fc.Arbitrary<string>) =>
  fc.array(fc.option(of.map(quoted), { nil: 'NULL', freq: 5 }), { maxLength: 4 }).map((all) => `{${all.join(',')}}`)
const gridOf = (of: fc.Arbitrary<string>) =>
  fc.integer({ min: 1, max: 3 }).chain((width) =>
    fc
      .array(
        fc.array(of.map(quoted), { minLength: width, maxLength: width }).map((row) => `{${row.join(',')}}`),
        { minLength: 1, maxLength: 3 },
      )
      .map((rows) => `{${rows.join(',')}}`),
  )
const days = fc.integer({ min: -2_000_000, max: 2_000_000 })
const two = (n: number) => String(n).padStart(2, '0')
const dateOf = (n: number) => {
  const date = new Date(n * 86_400_000)
  const year = date.getUTCFullYear()
  const rest = `-${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}`
  return { day: `${String(year > 0 ? year : 1 - year).padStart(4, '0')}${rest}`, era: year > 0 ? '' : ' BC' }
}
const clock = fc.tuple(fc.integer({ min: 0, max: 86_399 }), fc.integer({ min: 0, max: 999_999 })).map(([s, us]) => {
  const hours = two(Math.floor(s / 3600))
  return `${hours}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}.${String(us).padStart(6, '0')}`
})
const date = either(
  days.map((n) => dateOf(n).day + dateOf(n).era),
  'infinity',
  '-infinity',
  '0001-01-01',
  '0001-12-31 BC',
)
const stamp = (zone: string) =>
  either(
    fc.tuple(days, clock).map(([n, time]) => `${dateOf(n).day} ${time}${zone}${dateOf(n).era}`),
    'infinity',
    '-infinity',
    `2024-02-29 23:59:59.999999${zone}`,
    `0044-03-15 12:00:00${zone} BC`,
  )
const whole = fc.integer({ min: -99, max: 99 })
const interval = either(
  fc
    .tuple(whole, whole, whole, fc.integer({ min: -(10 ** 9), max: 10 ** 9 }))
    .map(([years, months, days, us]) => `${years} years ${months} mons ${days} days ${us} microseconds`),
  '0',
  '-1 mon 2 days -00:00:00.000001',
)
const hex = (length: number) => fc.stringMatching(new RegExp(`^[0-9a-f]{${length}}$`))
const uuid = hex(32).map((each) => each.replace(/(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'))
const name = fc.stringMatching(/^[a-z_][a-z0-9_]{0,5}$/)
/** Keys of objects, also those that JavaScript sorts first. */
const key = fc.oneof(
  { weight: 2, arbitrary: name },
  {
    weight: 1,
    arbitrary: one([
      '10',
      '2',
      '1',
      '01',
      '-1',
      '',
      ' ',
      '__proto__',
      'constructor',
      '$ref',
      'param',
      'é"',
      '4294967295',
    ]),
  },
)
const space = one(['', '', '', ' ', '\n'])
const json = (depth = 2): fc.Arbitrary<string> => {
  const leaf = fc.oneof(
    one(['null', 'true', 'false', '1.0', '1e2', '-0', '0.10', '9007199254740993', '1e400', '""', '"null"', '{}', '[]']),
    decimal,
    text.map((each) => JSON.stringify(each)),
  )
  if (depth === 0) return leaf
  const inner = json(depth - 1)
  const list = fc.tuple(space, fc.array(inner, { maxLength: 3 })).map(([s, all]) => `[${s}${all.join(`,${s}`)}${s}]`)
  const object = fc
    .tuple(space, fc.uniqueArray(fc.tuple(key, inner), { maxLength: 4, selector: ([each]) => each }))
    .map(([s, all]) => `{${s}${all.map(([k, v]) => `${JSON.stringify(k)}:${s}${v}`).join(`,${s}`)}${s}}`)
  return fc.oneof(leaf, list, object)
}
/** JSON text that jsonb stores: numbers are numeric. */
const jsonb = json().map((each) => each.replaceAll('1e400', '1e40'))
/** As an element of a list, the null of JSON is read like that of SQL. */
const isSome = (text: string) => text !== 'null'
const nullable = (of: fc.Arbitrary<string>) => fc.option(of, { nil: 'null', freq: 4 })
const asJson = (of: fc.Arbitrary<string>) => nullable(of.map((each) => JSON.stringify(each)))
const object = (fields: Readonly<Record<string, fc.Arbitrary<string>>>) =>
  fc.tuple(...Object.values(fields)).map(
    (values) =>
      `{${Object.keys(fields)
        .map((field, i) => `"${field}":${values[i] as string}`)
        .join(',')}}`,
  )
const place = object({
  street: asJson(text),
  no: nullable(integer(31n)),
  big: nullable(integer(63n)),
  ok: one(['true', 'false', 'null']),
  at: asJson(stamp('+02')),
})
const bag = fc
  .uniqueArray(fc.tuple(key, asJson(text)), { maxLength: 3, selector: ([each]) => each })
  .map((all) => `{${all.map(([k, v]) => `${JSON.stringify(k)}:${v}`).join(',')}}`)
const listOf = (of: fc.Arbitrary<string>) => fc.array(nullable(of), { maxLength: 3 }).map((all) => `[${all.join(',')}]`)
const trip = object({
  name: asJson(text),
  stops: nullable(listOf(place)),
  meta: nullable(jsonb),
  scores: nullable(listOf(decimal)),
  mood: asJson(one(['calm', 'wild'])),
})
const rangeOf = (of: fc.Arbitrary<number>) =>
  fc.oneof(
    fc.constant('empty'),
    fc.tuple(one(['[', '(']), fc.option(of), fc.option(of), one([']', ')'])).map(([open, a, b, close]) => {
      const [low, high] = a !== null && b !== null && a > b ? [b, a] : [a, b]
      return `${open}${low ?? ''},${high ?? ''}${close}`
    }),
  )
const small = fc.integer({ min: -1000, max: 1000 })
const point = fc.tuple(small, small).map(([x, y]) => `(${x / 8},${y / 8})`)
const mac = (n: number) => hex(n * 2).map((each) => each.match(/../g)?.join(':') as string)
const FROM_RECORD = (type: string) => `jsonb_populate_record(null::${type}, $1::jsonb)`

const parcel = object({
  name: asJson(text),
  bag,
  docs: fc.array(nullable(jsonb.filter(isSome)), { maxLength: 3 }).map((all) => `[${all.join(',')}]`),
  tree: asJson(one(['', 'a.b_1'])),
  ci: asJson(text),
})
const HSTORE = (of: string) =>
  `(select coalesce(ext.hstore(array_agg(key), array_agg(value)), '') from jsonb_each_text(${of}))`
const PARCEL = (
  of: string,
) => `(select row(o->>'name', ${HSTORE(`o->'bag'`)}, ${HSTORE(`o->'bag'`)}, array[${HSTORE(`o->'bag'`)}, null],
  (select coalesce(array_agg(case when d <> 'null' then d end order by n), '{}') from jsonb_array_elements(o->'docs') with ordinality as e(d, n)),
  (o->>'tree')::ext.ltree, (o->>'ci')::ext.citext, '[1,3)'::int4range)::parcel from (select ${of} as o) as x)`

export const TYPES: Readonly<Record<string, TypedValues>> = {
  i2: { sql: 'int2', of: integer(15n), adds: true },
  i4: { sql: 'int4', of: integer(31n), adds: true },
  i8: { sql: 'int8', of: integer(63n), adds: true },
  n: { sql: 'numeric', of: either(decimal, 'NaN', 'Infinity', '-Infinity', '1e-30', '1e100', '0.00'), adds: true },
  price: { sql: 'numeric(20, 4)', of: fc.stringMatching(/^-?(0|[1-9]\d{0,14})\.\d{4}$/), adds: true },
  f4: { sql: 'float4', of: either(float(fc.float()), '1e-45', '3.4028235e38'), adds: true },
  f8: { sql: 'float8', of: either(float(fc.double()), '5e-324', '1.7976931348623157e308'), adds: true },
  flag: { sql: 'bool', of: one(['true', 'false']) },
  s: { sql: 'text', of: text },
  vc: { sql: 'varchar(20)', of: text },
  ch: { sql: 'char(5)', of: one(['', 'a', 'a b', '"']) },
  nm: { sql: 'name', of: one(['', 'x', '"a"', 'é']) },
  bytes: { sql: 'bytea', of: fc.stringMatching(/^([0-9a-f]{2}){0,6}$/).map((each) => `\\x${each}`) },
  uid: { sql: 'uuid', of: uuid },
  day: { sql: 'date', of: date },
  hour: { sql: 'time', of: either(clock, '24:00:00') },
  zoned: { sql: 'timetz', of: clock.map((each) => `${each}+05:30`) },
  plain: { sql: 'timestamp', of: stamp('') },
  ts: { sql: 'timestamptz', of: stamp('+01') },
  dur: { sql: 'interval', of: interval },
  // The null of JSON is written as that of SQL.
  j: { sql: 'json', of: json().filter(isSome), incomparable: true },
  b: { sql: 'jsonb', of: jsonb.filter(isSome) },
  ji: { sql: 'any_json', of: jsonb.filter(isSome) },
  cash: { sql: 'money', of: fc.integer({ min: -(10 ** 9), max: 10 ** 9 }).map((n) => String(n / 100)) },
  mood: { sql: 'mood', of: one(['calm', 'wild']) },
  odd: { sql: 'odd_mood', of: one(['very calm', 'a "quote"', '$x']) },
  pos: { sql: 'positive', of: decimal.map((each) => each.replace('-', '')), adds: true },
  word: { sql: 'word', of: text },
  ip: { sql: 'inet', of: one(['10.0.0.1', '10.0.0.0/8', '::1', '2001:db8::/32']) },
  net: { sql: 'cidr', of: one(['10.0.0.0/8', '2001:db8::/32']) },
  mac: { sql: 'macaddr', of: mac(6) },
  mac8: { sql: 'macaddr8', of: mac(8) },
  bits: { sql: 'varbit', of: fc.stringMatching(/^[01]{0,9}$/) },
  bit3: { sql: 'bit(3)', of: fc.stringMatching(/^[01]{3}$/) },
  pt: { sql: 'point', of: point, incomparable: true },
  box: { sql: 'box', of: fc.tuple(point, point).map((all) => all.join(',')), incomparable: true },
  way: {
    sql: 'path',
    of: fc
      .tuple(one(['[]', '()']), fc.array(point, { minLength: 1, maxLength: 3 }))
      .map(([b, all]) => `${b[0] as string}${all.join(',')}${b[1] as string}`),
    incomparable: true,
  },
  poly: {
    sql: 'polygon',
    of: fc.array(point, { minLength: 1, maxLength: 3 }).map((all) => `(${all.join(',')})`),
    incomparable: true,
  },
  ring: { sql: 'circle', of: fc.tuple(point, fc.nat(99)).map(([p, r]) => `<${p},${r}>`), incomparable: true },
  doc: { sql: 'xml', of: one(['<a/>', '<a b="1">x &amp; y</a>', 'text only', '<a>\n</a>']), incomparable: true },
  vec: { sql: 'tsvector', of: one(['', "'a':1 'b c':2A", "'it''s':3,4"]) },
  tsq: { sql: 'tsquery', of: one(["'a' & 'b'", "!'x' | 'y':*", "'it''s'"]) },
  tree: { sql: 'ext.ltree', of: one(['', 'a', 'a.b_1.C']) },
  ci: { sql: 'ext.citext', of: text },
  bag: {
    sql: 'ext.hstore',
    from: `(select coalesce(ext.hstore(array_agg(key), array_agg(value)), '') from jsonb_each_text($1::jsonb))`,
    of: bag,
  },
  r4: { sql: 'int4range', of: rangeOf(small) },
  rn: { sql: 'numrange', of: rangeOf(small.map((n) => n / 4)) },
  rt: {
    sql: 'tstzrange',
    of: one([
      'empty',
      '[2024-01-01 00:00:00.000001+01,)',
      '(,infinity]',
      '["0044-03-15 00:00:00+00 BC","2024-01-01 00:00:00+00")',
    ]),
  },
  rd: { sql: 'daterange', of: one(['empty', '[2024-01-01,2024-02-01)', '(,)']) },
  mr: { sql: 'int4multirange', of: fc.array(rangeOf(small), { maxLength: 3 }).map((all) => `{${all.join(',')}}`) },
  i4s: { sql: 'int4[]', of: arrayOf(integer(31n)) },
  i8s: { sql: 'int8[]', of: arrayOf(integer(63n)) },
  ns: { sql: 'numeric[]', of: arrayOf(either(decimal, 'NaN')) },
  f8s: { sql: 'float8[]', of: arrayOf(float(fc.double())) },
  f4s: { sql: 'float4[]', of: arrayOf(float(fc.float())) },
  flags: { sql: 'bool[]', of: arrayOf(one(['true', 'false'])) },
  words: { sql: 'text[]', of: arrayOf(text) },
  grid: { sql: 'int4[][]', of: gridOf(integer(31n)) },
  wgrid: { sql: 'text[][]', of: gridOf(text) },
  uids: { sql: 'uuid[]', of: arrayOf(uuid) },
  tss: { sql: 'timestamptz[]', of: arrayOf(stamp('+01')) },
  days: { sql: 'date[]', of: arrayOf(date) },
  js: { sql: 'json[]', of: arrayOf(json().filter(isSome)), incomparable: true },
  bs: { sql: 'jsonb[]', of: arrayOf(jsonb.filter(isSome)) },
  moods: { sql: 'mood[]', of: arrayOf(one(['calm', 'wild'])) },
  odds: { sql: 'odd_mood[]', of: arrayOf(one(['very calm', 'a "quote"', '$x'])) },
  bytess: { sql: 'bytea[]', of: arrayOf(hex(4).map((each) => `\\x${each}`)) },
  ranges: { sql: 'int4range[]', of: arrayOf(rangeOf(small)) },
  bags: { sql: 'ext.hstore[]', of: arrayOf(one(['', 'a=>1', '"b c"=>NULL, d=>"\\""'])) },
  poss: { sql: 'positive[]', of: arrayOf(decimal.map((each) => each.replace('-', ''))) },
  dwords: { sql: 'word[]', of: arrayOf(text) },
  jis: { sql: 'any_json[]', of: arrayOf(jsonb.filter(isSome)) },
  pts: { sql: 'point[]', of: arrayOf(point), incomparable: true },
  place: { sql: 'place', from: FROM_RECORD('place'), of: place },
  home: { sql: 'home', from: FROM_RECORD('place'), of: place },
  places: {
    sql: 'place[]',
    from: `(select array_agg(p order by n) from jsonb_array_elements($1::jsonb) with ordinality as e(o, n) cross join lateral (select case when o = 'null' then null else jsonb_populate_record(null::place, o) end) as x(p))`,
    of: listOf(place).map((each) => (each === '[]' ? '[null]' : each)),
  },
  parcel: { sql: 'parcel', from: PARCEL('$1::jsonb'), of: parcel },
  parcels: { sql: 'parcel[]', from: `array[${PARCEL('$1::jsonb')}, null]`, of: parcel },
  crate: { sql: 'crate', from: `row(1, array[${PARCEL('$1::jsonb')}], ${PARCEL('$1::jsonb')})::crate`, of: parcel },
  trip: { sql: 'trip', from: FROM_RECORD('trip'), of: trip },
}
