import { buildClientSchema, getIntrospectionQuery, type GraphQLSchema, isEnumType, validateSchema } from 'graphql'
import t, { type Test } from 'tap'
import { type As, testServer } from '../kit/server.js'

t.test('the enums of PostgreSQL', async (t) => {
  const { server, data, errors, schema } = await serve(t)
  await server.must('run_sql', {
    sql: `create type mood as enum ('calm', 'wild'); create type size as enum ('S', 'very large'); create type flag as enum ('true');
      create schema other; create type other.mood as enum ('other', 'calm');
      create domain feeling as mood;
      create table cat (id int primary key, mood mood not null default 'calm', moods mood[], feeling feeling, size size, flag flag,
        odd other.mood);
      create table mood_log (mood mood primary key, note text);
      insert into cat values (1, 'calm', '{calm,wild}', 'wild', 'S', 'true', 'other'), (2, 'wild', null, null, 'very large', null, null);
      create function cats_in(m mood) returns setof cat language sql stable as 'select * from cat where mood = m'`,
  })
  await server.must('bulk', [
    ...['cat', 'mood_log'].map((args) => ({ type: 'track_table', args })),
    { type: 'track_function', args: 'cats_in' },
    {
      type: 'create_select_permission',
      args: { table: 'cat', role: 'user', permission: { columns: ['id', 'size', 'mood'], filter: { mood: 'calm' } } },
    },
  ])

  await t.test('are enums, unless a value is no name in GraphQL', async (t) => {
    const seen = await schema()
    t.same(valuesIn(seen, 'mood'), ['calm', 'wild', 'other'], 'of all enums with the name')
    t.same(valuesIn(await schema({ role: 'user' }), 'mood'), ['calm', 'wild'], 'of the columns that the role sees')
    t.same([valuesIn(seen, 'size'), valuesIn(seen, 'flag')], [undefined, undefined])
    t.match(
      (await server.fetch('/v1alpha1/graphql/schema')).body.schema,
      /scalar mood/,
      'the older dialect keeps the scalars',
    )
  })

  await t.test('as values in the document and in variables', async (t) => {
    const ids = { cat: [{ id: 2, mood: 'wild' }] }
    for (const where of [
      '{mood: {_eq: wild}}',
      '{mood: {_in: [wild]}}',
      '{mood: {_eq: "wild"}}',
      '{mood: {_gt: calm}}',
    ]) {
      t.same(await data(`{ cat(where: ${where}) { id mood } }`), ids, where)
    }
    t.same(await data('query q($m: mood!) { cat(where: {mood: {_eq: $m}}) { id mood } }', { m: 'wild' }), ids)
    t.same(await data('query q($m: [mood!]) { cat(where: {mood: {_in: $m}}) { id mood } }', { m: ['wild'] }), ids)
    t.same(await data('query q($m: mood = wild) { cat(where: {mood: {_eq: $m}}) { id mood } }'), ids)
    t.same(
      await data('query q($w: mood_comparison_exp!) { cat(where: {mood: $w}) { id mood } }', { w: { _nin: ['calm'] } }),
      ids,
    )
    t.same(await data('{ cats_in(args: {m: wild}) { id mood } }'), { cats_in: ids.cat })
    t.same(await data('{ cat(where: {moods: {_contains: [wild]}}) { id moods feeling } }'), {
      cat: [{ id: 1, moods: ['calm', 'wild'], feeling: 'wild' }],
    })
    t.same(await data('{ cat(where: {odd: {_eq: other}}) { odd size flag } }'), {
      cat: [{ odd: 'other', size: 'S', flag: 'true' }],
    })
  })

  await t.test('written', async (t) => {
    t.same(
      await data(
        'mutation m($m: mood!, $all: [cat_insert_input!]!) { insert_cat(objects: $all) { returning { mood moods } } one: insert_cat_one(object: {id: 4, mood: $m, moods: [calm, $m]}) { mood moods } update_cat_by_pk(pk_columns: {id: 4}, _set: {mood: calm, moods: [wild]}) { mood moods } log: insert_mood_log_one(object: {mood: $m}) { mood } update_mood_log_by_pk(pk_columns: {mood: wild}, _set: {note: "n"}) { note } delete_mood_log_by_pk(mood: $m) { mood } }',
        { m: 'wild', all: [{ id: 3, mood: 'wild', moods: ['calm'] }] },
      ),
      {
        insert_cat: { returning: [{ mood: 'wild', moods: ['calm'] }] },
        one: { mood: 'wild', moods: ['calm', 'wild'] },
        update_cat_by_pk: { mood: 'calm', moods: ['wild'] },
        log: { mood: 'wild' },
        update_mood_log_by_pk: { note: 'n' },
        delete_mood_log_by_pk: { mood: 'wild' },
      },
    )
  })

  await t.test('and what is no value', async (t) => {
    t.match(await errors('{ cat(where: {mood: {_eq: angry}}) { id } }'), [
      {
        message: /"angry" does not exist in "mood" enum/,
        extensions: { path: '$.selectionSet.cat.args.where.mood._eq' },
      },
    ])
    t.match(await errors('query q($m: mood!) { cat(where: {mood: {_eq: $m}}) { id } }', { m: 'angry' }), [
      { message: 'expecting a value of the enum mood!', extensions: { path: '$.variables.m' } },
    ])
    t.match(await errors('query q($m: [mood!]) { cat(where: {mood: {_in: $m}}) { id } }', { m: ['calm', 'angry'] }), [
      { extensions: { path: '$.variables.m[1]' } },
    ])
    t.match(await errors('query q($m: mood!) { cat(where: {mood: {_eq: $m}}) { id } }', { m: 5 }), [
      { extensions: { path: '$.variables.m' } },
    ])
    t.match(await errors('{ cat(where: {mood: {_eq: other}}) { id } }'), [{ extensions: { code: 'data-exception' } }])
  })

  await t.test('a new value is one in the next request', async (t) => {
    await server.must('run_sql', { sql: `alter type mood add value 'sad'` })
    t.same(await data('{ cat(where: {mood: {_eq: sad}}) { id } }'), { cat: [] })
  })
})

t.test('enum tables', async (t) => {
  const { server, data, errors, schema } = await serve(t)
  await server.must('run_sql', {
    sql: `create table color (value text primary key, comment text); insert into color values ('red', 'warm'), ('blue', null);
      create table car (id int primary key, color text not null references color, name text);
      create table bad_word (word text primary key); insert into bad_word values ('a b');
      create table keyless (word text); create table nothing (word text primary key);
      create table numbered (id int primary key); create table wide (a text primary key, b text, c text);
      insert into car values (1, 'red', 'a'), (2, 'blue', 'b')`,
  })
  await server.must('bulk', [
    { type: 'track_table', args: { table: 'color', is_enum: true } },
    { type: 'track_table', args: 'car' },
    {
      type: 'create_select_permission',
      args: {
        table: 'car',
        role: 'user',
        permission: { columns: ['id', 'color'], filter: { color: { $ne: 'blue' } } },
      },
    },
  ])

  await t.test('are the types of the columns that reference them', async (t) => {
    for (const as of [undefined, { role: 'user' }]) {
      t.same(valuesIn(await schema(as), 'color_enum'), ['blue', 'red'])
    }
    t.same(await data('{ car(where: {color: {_eq: red}}) { id color } }'), { car: [{ id: 1, color: 'red' }] })
    t.same(
      await data(
        'query q($c: [color_enum!]!) { car(where: {color: {_in: $c}}) { id } color(order_by: {value: asc}) { value } }',
        {
          c: ['blue'],
        },
      ),
      { car: [{ id: 2 }], color: [{ value: 'blue' }, { value: 'red' }] },
    )
    t.same(
      await data(
        'mutation m($c: color_enum!) { insert_car_one(object: {id: 3, color: $c}) { color } update_car_by_pk(pk_columns: {id: 3}, _set: {color: blue}) { color } }',
        { c: 'red' },
      ),
      { insert_car_one: { color: 'red' }, update_car_by_pk: { color: 'blue' } },
    )
    t.match(await errors('{ car(where: {color: {_eq: green}}) { id } }'), [{ message: /"green" does not exist/ }])
    t.match(
      await errors('mutation m($o: car_insert_input!) { insert_car_one(object: $o) { id } }', {
        o: { id: 9, color: 'green' },
      }),
      [{ extensions: { code: 'constraint-violation' } }],
    )
    t.notMatch((await server.fetch('/v1alpha1/graphql/schema')).body.schema, /color_enum/)
    t.same(
      await server.must('select', { table: 'car', columns: ['color'], where: { id: 1, color: { $like: 'r%' } } }),
      [{ color: 'red' }],
    )
  })

  await t.test('are read again on reload', async (t) => {
    await server.must('insert', { table: 'color', objects: [{ value: 'green' }] })
    await server.must('reload_metadata', {})
    t.same(await data('{ car(where: {color: {_eq: green}}) { id } }'), { car: [] })
    await server.must('run_sql', { sql: `insert into color values ('grey')` })
    t.same(await data('{ car(where: {color: {_eq: grey}}) { id } }'), { car: [] })
  })

  await t.test('are a part of the metadata', async (t) => {
    const exported = await server.must('export_metadata', {})
    t.match(exported.tables, [{ table: 'car' }, { table: 'color', is_enum: true }])
    t.notOk('is_enum' in exported.tables[0])
    await server.must('replace_metadata', exported)
    t.same(await server.must('export_metadata', {}), exported)
    t.same(valuesIn(await schema(), 'color_enum'), ['blue', 'green', 'grey', 'red'])
    await server.must('set_table_customization', { table: 'color', configuration: { custom_name: 'paint' } })
    t.same(valuesIn(await schema(), 'paint_enum'), ['blue', 'green', 'grey', 'red'])
    await server.must('set_table_is_enum', { table: 'color', is_enum: false })
    t.equal((await schema()).getType('paint_enum'), undefined)
    t.same(await data('{ car(where: {color: {_eq: "red"}}) { id } }'), { car: [{ id: 1 }] })
    await server.must('set_table_is_enum', { table: 'color', is_enum: true })
    t.same(await data('{ car(where: {color: {_eq: red}}) { id } }'), { car: [{ id: 1 }] })
  })

  await t.test('and what is none', async (t) => {
    const reasons = {
      keyless: /primary key/,
      numbered: /primary key/,
      wide: /only one column/,
      nothing: /no rows/,
      bad_word: /"a b" is not/,
    }
    for (const [table, message] of Object.entries(reasons)) {
      t.match(await server.query('track_table', { table, is_enum: true }), {
        status: 400,
        body: { code: 'unexpected-payload', path: '$.args.table', error: message },
      })
    }
    t.match(await server.query('track_table', { name: 'wide', is_enum: true }), {
      status: 400,
      body: { path: '$.args' },
    })
    t.match(await server.query('set_table_is_enum', { table: 'missing', is_enum: true }), {
      status: 400,
      body: { code: 'not-exists', path: '$.args.table' },
    })
    t.same((await server.must('export_metadata', {})).tables.length, 2)
    t.match(await server.query('run_sql', { sql: `insert into color values ('light blue')` }), {
      status: 400,
      body: { code: 'dependency-error', error: /enum color/ },
    })
    await server.must('insert', { table: 'color', objects: [{ value: 'light blue' }] })
    await server.must('reload_metadata', {})
    t.same(await server.must('get_inconsistent_metadata', {}), {
      is_consistent: false,
      inconsistent_objects: [
        {
          name: 'enum color',
          reason: '"color" cannot be an enum: "light blue" is not a valid value of an enum in GraphQL',
        },
      ],
    })
    t.same(await data('{ car(where: {color: {_eq: "red"}}) { id } }'), { car: [{ id: 1 }] })
    await server.must('drop_inconsistent_metadata', {})
    t.notOk((await server.must('export_metadata', {})).tables[1].is_enum)
  })
})

async function serve(t: Test) {
  const server = await testServer(t)
  const ask = async (query: string, variables?: object, as?: As) =>
    (await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query, variables }) }, as)).body
  const data = async (query: string, variables?: object, as?: As) => {
    const body = await ask(query, variables, as)
    if (!body.data) throw new Error(JSON.stringify(body))
    return body.data
  }
  const errors = async (query: string, variables?: object, as?: As) => (await ask(query, variables, as)).errors
  /** The schema of a role, which must be valid. */
  const schema = async (as?: As): Promise<GraphQLSchema> => {
    const built = buildClientSchema(await data(getIntrospectionQuery(), undefined, as))
    t.same(validateSchema(built), [])
    return built
  }
  return { server, data, errors, schema }
}

function valuesIn(schema: GraphQLSchema, name: string): readonly string[] | undefined {
  const type = schema.getType(name)
  return isEnumType(type) ? type.getValues().map((value) => value.name) : undefined
}
