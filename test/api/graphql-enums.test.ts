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
