import {
  buildClientSchema,
  getIntrospectionQuery,
  type GraphQLSchema,
  isEnumType,
  isInputObjectType,
  isObjectType,
  printSchema,
  validateSchema,
} from 'graphql'
import t from 'tap'
import { type As, testServer } from '../kit/server.js'

const SQL = `
create schema app_db;
create table app_db.week_days (day_name text primary key);
insert into app_db.week_days values ('monday'), ('tuesday'), ('sunday');
create table app_users (
  user_id serial primary key, full_name text not null unique, favourite_day text references app_db.week_days,
  extra_data jsonb not null default '{}', login_count int not null default 0, "orderBy" int, "aB" int, a_b int);
create table blog_posts (
  post_id int primary key, author_id int not null references app_users, post_title text not null, is_public bool not null default true);
create table line_items (line_no int, order_no int, item_name text, primary key (order_no, line_no));
create type mood_kind as enum ('calm', 'very_wild');
create table legacy_logs (log_id int primary key, log_text text, mood mood_kind);
insert into app_users (full_name, favourite_day, extra_data, login_count, "orderBy", "aB", a_b) values
  ('Ann', 'sunday', '{"deep_key": {"x": 1}}', 3, 1, 10, 20), ('Bob', 'monday', '{}', 1, 2, 11, 21), ('Cid', null, '{}', 2, 3, 12, 22);
insert into blog_posts values (1, 1, 'one', true), (2, 1, 'two', false), (3, 2, 'three', true);
create function search_posts(title_part text, at_most int default 10) returns setof blog_posts language sql stable as
  $$ select * from blog_posts where post_title like '%' || title_part || '%' order by post_id limit at_most $$;
create function post_stats(min_length int) returns table (blog_post text, title_length int) language sql stable as
  $$ select post_title, length(post_title) from blog_posts where length(post_title) >= min_length $$;
create function posts_of(user_row app_users) returns setof blog_posts language sql stable as
  $$ select * from blog_posts where author_id = user_row.user_id $$;
create function name_length(user_row app_users) returns int language sql stable as 'select length(user_row.full_name)';`

const METADATA = [
  { type: 'track_table', args: { table: { schema: 'app_db', name: 'week_days' }, is_enum: true } },
  ...['app_users', 'blog_posts', 'line_items'].map((args) => ({ type: 'track_table', args })),
  {
    type: 'track_table',
    version: 2,
    args: {
      table: 'legacy_logs',
      configuration: {
        custom_name: 'log_Entry',
        custom_root_fields: { select_by_pk: 'one_log' },
        column_config: { log_text: { custom_name: 'the_text' } },
      },
    },
  },
  {
    type: 'create_array_relationship',
    args: {
      table: 'app_users',
      name: 'blog_posts',
      using: { foreign_key_constraint_on: { table: 'blog_posts', column: 'author_id' } },
    },
  },
  {
    type: 'create_object_relationship',
    args: { table: 'blog_posts', name: 'author', using: { foreign_key_constraint_on: 'author_id' } },
  },
  { type: 'track_function', args: 'search_posts' },
  { type: 'track_function', args: 'post_stats' },
  { type: 'add_computed_field', args: { table: 'app_users', name: 'posts_of', definition: { function: 'posts_of' } } },
  {
    type: 'add_computed_field',
    args: { table: 'app_users', name: 'name_length', definition: { function: 'name_length' } },
  },
  {
    type: 'create_select_permission',
    args: {
      table: 'app_users',
      role: 'user',
      permission: { columns: ['user_id', 'favourite_day'], filter: { favourite_day: { $ne: 'monday' } } },
    },
  },
]

t.test('names by the convention graphql-default', async (t) => {
  const older = await testServer(t)
  await older.must('run_sql', { sql: SQL })
  await older.must('bulk', METADATA)
  const config = { plugins: { graphql: { namingConvention: 'graphql-default' } } }
  const server = await testServer(t, { databaseUrl: older.databaseUrl, config })
  t.teardown(() => server.close())
  const asker = (on: typeof server) => async (query: string, variables?: object, as?: As) => {
    const { body } = await on.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query, variables }) }, as)
    return body
  }
  const [ask, askOlder] = [asker(server), asker(older)]
  const data = async (...args: Parameters<typeof ask>) => {
    const { data, errors } = await ask(...args)
    if (!data) throw new Error(JSON.stringify(errors))
    return data
  }
  const schema = async (as?: As): Promise<GraphQLSchema> =>
    buildClientSchema(await data(getIntrospectionQuery(), {}, as))

  await t.test('the schema', async (t) => {
    const seen = await schema()
    t.same(validateSchema(seen), [])
    const fields = (name: string) => {
      const type = seen.getType(name)
      return isObjectType(type) || isInputObjectType(type) ? Object.keys(type.getFields()).sort() : type
    }
    const values = (name: string) => {
      const type = seen.getType(name)
      return isEnumType(type) ? type.getValues().map(({ name: value }) => value) : type
    }
    const root = (type: string, end: RegExp) => (fields(type) as string[]).filter((name) => end.test(name))
    t.same(root('query_root', /users/i), ['appUsers', 'appUsersAggregate', 'appUsersByPk'])
    t.same(root('query_root', /log_|_log/i), ['log_Entry', 'log_EntryAggregate', 'one_log'])
    t.same(root('query_root', /search/i), ['searchPosts', 'searchPostsAggregate'])
    t.same(root('query_root', /week/i), ['appDbWeekDays', 'appDbWeekDaysAggregate', 'appDbWeekDaysByPk'])
    t.same(root('mutation_root', /users/i), [
      'deleteAppUsers',
      'deleteAppUsersByPk',
      'insertAppUsers',
      'insertAppUsersOne',
      'updateAppUsers',
      'updateAppUsersByPk',
      'updateAppUsersMany',
    ])
    t.same(root('mutation_root', /^insertLog_/), ['insertLog_Entry', 'insertLog_EntryOne'])
    t.same(
      fields('AppUsers'),
      [
        'a_b',
        'aB',
        'blog_posts',
        'blogPostsAggregate',
        'extraData',
        'favouriteDay',
        'fullName',
        'loginCount',
        'name_length',
        'orderBy',
        'posts_of',
        'userId',
      ].sort(),
    )
    t.same(fields('log_Entry'), ['logId', 'mood', 'the_text'])
    t.same(fields('AppUsersMutationResponse'), ['affectedRows', 'returning'])
    t.same(fields('AppUsersOnConflict'), ['constraint', 'updateColumns', 'where'])
    t.same(fields('SearchPostsArgs'), ['atMost', 'titlePart'])
    t.match(fields('AppUsersAggregateFields'), ['avg', 'count', 'max', 'min', 'stddev', 'stddevPop', 'stddevSamp'])
    t.match(fields('JsonbComparisonExp'), ['_cast', '_containedIn', '_contains', '_eq'])
    t.same(fields('AppUsersPkColumnsInput'), ['userId'])
    t.same(fields('BlogPostsAggregateBoolExp'), ['bool_and', 'bool_or', 'count'])
    t.same(values('OrderBy'), [
      'ASC',
      'ASC_NULLS_FIRST',
      'ASC_NULLS_LAST',
      'DESC',
      'DESC_NULLS_FIRST',
      'DESC_NULLS_LAST',
    ])
    t.same(values('AppDbWeekDaysEnum'), ['MONDAY', 'SUNDAY', 'TUESDAY'])
    t.same(values('mood_kind'), ['calm', 'very_wild'], 'the enums of PostgreSQL are scalars in Hasura')
    t.same(values('AppUsersConstraint'), ['app_users_pkey', 'app_users_full_name_key'])
    t.match(values('AppUsersUpdateColumn'), ['userId', 'fullName', 'favouriteDay'])
    const printed = printSchema(seen)
    const words = new Set(printed.match(/\b[a-z]+(_[a-z0-9]+)+\b/g))
    for (const kept of ['query_root', 'mutation_root', 'bool_and', 'bool_or', 'mood_kind', 'very_wild'])
      words.delete(kept)
    for (const given of ['blog_posts', 'posts_of', 'name_length', 'the_text', 'one_log', 'a_b']) words.delete(given)
    t.same(
      [...words].filter((word) => !word.endsWith('_pkey') && !word.endsWith('_key')),
      [],
    )
  })

  await t.test('the other convention is not accepted, nor is this one elsewhere', async (t) => {
    for (const query of [
      '{ app_users { user_id } }',
      '{ appUsers(order_by: {userId: ASC}) { userId } }',
      '{ appUsers { user_id } }',
    ]) {
      t.match(await ask(query), { errors: [{ extensions: { code: 'validation-failed' } }] }, query)
    }
    t.match(await askOlder('{ appUsers { userId } }'), { errors: [{ extensions: { code: 'validation-failed' } }] })
    const plain =
      '{ app_users(order_by: {user_id: desc}, limit: 1, where: {favourite_day: {_is_null: true}}) { user_id favourite_day } }'
    t.same((await askOlder(plain)).data, { app_users: [{ user_id: 3, favourite_day: null }] })
    const alpha = JSON.stringify({ query: '{ app_users(order_by: ["-user_id"], limit: 1) { user_id } }' })
    t.same((await server.fetch('/v1alpha1/graphql', { method: 'POST', body: alpha })).body.data, {
      app_users: [{ user_id: 3 }],
    })
    t.same(await server.must('select', { table: 'app_users', columns: ['favourite_day'], where: { user_id: 1 } }), [
      { favourite_day: 'sunday' },
    ])
  })

  await t.test('queries', async (t) => {
    t.same(
      await data(`{ appUsers(where: {favouriteDay: {_isNull: false}, _or: [{loginCount: {_gte: 2}}, {userId: {_eq: 9}}]},
        orderBy: [{fullName: DESC_NULLS_LAST}]) { __typename userId fullName orderBy aB a_b } }`),
      { appUsers: [{ __typename: 'AppUsers', userId: 1, fullName: 'Ann', orderBy: 1, aB: 10, a_b: 20 }] },
    )
    const ranked = `query ($m: FullTextQuery!) { appUsers(where: {fullName: {_matches: $m}},
      orderBy: [{fullNameRank: {query: "ann", order: ASC}}]) { userId } }`
    t.same(await data(ranked, { m: { query: 'ann' } }), { appUsers: [{ userId: 1 }] })
    t.same(await data('{ appUsersByPk(userId: 2) { fullName favouriteDay } }'), {
      appUsersByPk: { fullName: 'Bob', favouriteDay: 'MONDAY' },
    })
    t.same(
      await data(
        '{ appUsers(distinctOn: loginCount, orderBy: {loginCount: ASC}) { loginCount extraData(path: "deep_key.x") } }',
      ),
      {
        appUsers: [
          { loginCount: 1, extraData: null },
          { loginCount: 2, extraData: null },
          { loginCount: 3, extraData: 1 },
        ],
      },
    )
    t.same(
      await data(`{ appUsers(orderBy: [{blogPostsAggregate: {max: {postId: DESC_NULLS_LAST}}}],
          where: {blogPostsAggregate: {count: {predicate: {_gt: 0}, arguments: [postId], filter: {isPublic: {_eq: true}}}}}) {
        userId blogPostsAggregate(where: {postTitle: {_ilike: "%O%"}}) { __typename aggregate { __typename count(columns: [postId])
          stddevPop { postId } max { postTitle } } nodes { postTitle } } } }`),
      {
        appUsers: [
          {
            userId: 2,
            blogPostsAggregate: {
              __typename: 'BlogPostsAggregate',
              aggregate: {
                __typename: 'BlogPostsAggregateFields',
                count: 0,
                stddevPop: { postId: null },
                max: { postTitle: null },
              },
              nodes: [],
            },
          },
          {
            userId: 1,
            blogPostsAggregate: {
              __typename: 'BlogPostsAggregate',
              aggregate: {
                __typename: 'BlogPostsAggregateFields',
                count: 2,
                stddevPop: { postId: 0.5 },
                max: { postTitle: 'two' },
              },
              nodes: [{ postTitle: 'one' }, { postTitle: 'two' }],
            },
          },
        ],
      },
    )
    t.same(
      await data(
        '{ blogPosts(orderBy: {author: {fullName: DESC}}, limit: 1) { author { fullName blog_posts { postId } } } }',
      ),
      {
        blogPosts: [{ author: { fullName: 'Bob', blog_posts: [{ postId: 3 }] } }],
      },
    )
    t.same(
      await data(
        '{ appUsers(orderBy: {postsOfAggregate: {stddevSamp: {postId: ASC_NULLS_LAST}}}, limit: 1) { posts_of(orderBy: {postId: DESC}) { postId } name_length } }',
      ),
      { appUsers: [{ posts_of: [{ postId: 2 }, { postId: 1 }], name_length: 3 }] },
    )
    t.same(
      await data(
        '{ postStats(args: {minLength: 3}, where: {titleLength: {_gt: 3}}, orderBy: {blogPost: ASC}) { blogPost titleLength __typename } }',
      ),
      { postStats: [{ blogPost: 'three', titleLength: 5, __typename: 'PostStatsResult' }] },
    )
    t.same(
      await data(
        '{ searchPosts(args: {titlePart: "o", atMost: 1}, orderBy: {postId: DESC}) { postId } searchPostsAggregate(args: {titlePart: "t"}) { aggregate { count } } }',
      ),
      {
        searchPosts: [{ postId: 1 }],
        searchPostsAggregate: { aggregate: { count: 2 } },
      },
    )
    t.same(await data('{ log_Entry { logId the_text } one_log(logId: 1) { logId } }'), { log_Entry: [], one_log: null })
    const variables = {
      w: { extraData: { _hasKeysAny: ['deep_key'], _containedIn: { deep_key: { x: 1 } } } },
      o: [{ userId: 'DESC' }],
    }
    t.same(
      await data(
        'query ($w: AppUsersBoolExp!, $o: [AppUsersOrderBy!]) { appUsers(where: $w, orderBy: $o) { userId } }',
        variables,
      ),
      { appUsers: [{ userId: 1 }] },
    )
  })

  await t.test('values of an enum table', async (t) => {
    const ids = { appUsers: [{ userId: 1, favouriteDay: 'SUNDAY' }] }
    for (const where of [
      '{favouriteDay: {_eq: SUNDAY}}',
      '{favouriteDay: {_in: [SUNDAY, TUESDAY]}}',
      '{favouriteDay: {_neq: MONDAY}}',
    ]) {
      t.same(await data(`{ appUsers(where: ${where}) { userId favouriteDay } }`), ids, where)
    }
    const query =
      'query ($d: AppDbWeekDaysEnum!, $l: [AppDbWeekDaysEnum!]!) { appUsers(where: {favouriteDay: {_eq: $d, _in: $l}}) { userId favouriteDay } }'
    t.same(await data(query, { d: 'SUNDAY', l: ['SUNDAY'] }), ids)
    t.match(await ask(query, { d: 'sunday', l: [] }), { errors: [{ extensions: { code: 'validation-failed' } }] })
    t.same(await data('{ appUsersAggregate { aggregate { max { favouriteDay } } } }'), {
      appUsersAggregate: { aggregate: { max: { favouriteDay: 'SUNDAY' } } },
    })
    t.same(await data('{ appUsers { favouriteDay } }', {}, { role: 'user' }), {
      appUsers: [{ favouriteDay: 'SUNDAY' }],
    })
  })

  await t.test('mutations', async (t) => {
    t.same(
      await data(
        `mutation ($rows: [AppUsersInsertInput!]!) { insertAppUsers(objects: $rows, onConflict: {constraint: app_users_full_name_key,
          updateColumns: [loginCount, favouriteDay]}) { __typename affectedRows returning { fullName favouriteDay loginCount } } }`,
        {
          rows: [
            { fullName: 'Ann', loginCount: 30, favouriteDay: 'TUESDAY' },
            { fullName: 'Dan', favouriteDay: 'MONDAY' },
          ],
        },
      ),
      {
        insertAppUsers: {
          __typename: 'AppUsersMutationResponse',
          affectedRows: 2,
          returning: [
            { fullName: 'Ann', favouriteDay: 'TUESDAY', loginCount: 30 },
            { fullName: 'Dan', favouriteDay: 'MONDAY', loginCount: 0 },
          ],
        },
      },
    )
    const stored = { table: 'app_users', columns: ['favourite_day'], where: { full_name: 'Dan' } }
    t.same(await server.must('select', stored), [{ favourite_day: 'monday' }])
    t.same(
      await data(`mutation { insertAppUsersOne(object: {fullName: "Eve", favouriteDay: SUNDAY, blog_posts: {
        data: [{postId: 8, postTitle: "eight"}], onConflict: {constraint: blog_posts_pkey, updateColumns: [postTitle]}}}) {
        fullName favouriteDay blog_posts { postTitle author { fullName } } } }`),
      {
        insertAppUsersOne: {
          fullName: 'Eve',
          favouriteDay: 'SUNDAY',
          blog_posts: [{ postTitle: 'eight', author: { fullName: 'Eve' } }],
        },
      },
    )
    t.match(
      await ask(
        'mutation { insertAppUsersOne(object: {fullName: "Fay", blog_posts: {data: [{postId: 9, postTitle: "x", authorId: 1}]}}) { userId } }',
      ),
      { errors: [{ message: /determines the value of "authorId"/ }] },
    )
    t.same(
      await data(`mutation { updateAppUsers(where: {fullName: {_eq: "Bob"}}, _set: {favouriteDay: SUNDAY}, _inc: {loginCount: 5},
        _append: {extraData: {a: {b: 1}, c: 2}}) { returning { favouriteDay loginCount } } }`),
      { updateAppUsers: { returning: [{ favouriteDay: 'SUNDAY', loginCount: 6 }] } },
    )
    t.same(
      await data(`mutation { updateAppUsersByPk(pkColumns: {userId: 2}, _deleteKey: {extraData: "c"}) { extraData }
        updateAppUsersMany(updates: [{where: {userId: {_eq: 2}}, _deleteAtPath: {extraData: ["a", "b"]}}]) { affectedRows } }`),
      { updateAppUsersByPk: { extraData: { a: { b: 1 } } }, updateAppUsersMany: [{ affectedRows: 1 }] },
    )
    t.same(
      await data('mutation { insertLineItems(objects: {orderNo: 1, lineNo: 2, itemName: "x"}) { affectedRows } }'),
      {
        insertLineItems: { affectedRows: 1 },
      },
    )
    t.same(
      await data(
        'mutation { deleteLineItemsByPk(orderNo: 1, lineNo: 2) { itemName } deleteBlogPosts(where: {postId: {_eq: 8}}) { affectedRows } }',
      ),
      {
        deleteLineItemsByPk: { itemName: 'x' },
        deleteBlogPosts: { affectedRows: 1 },
      },
    )
    t.match(await ask('{ appUsers(distinctOn: userId, orderBy: {fullName: ASC}) { userId } }'), {
      errors: [{ extensions: { path: '$.selectionSet.appUsers.args.distinctOn' } }],
    })
  })

  await t.test('names that would be taken', async (t) => {
    await server.must('run_sql', {
      sql: 'create table "blogPosts" (id int primary key); create table "order" (by int primary key)',
    })
    await server.must(
      'bulk',
      ['blogPosts', 'order'].map((args) => ({ type: 'track_table', args })),
    )
    const seen = await schema()
    t.same(validateSchema(seen), [])
    t.match(printSchema(seen), /type Order {/)
    const configuration = { custom_name: 'appUsers' }
    t.match((await server.query('set_table_customization', { table: 'line_items', configuration })).body, {
      error: /"appUsers" is taken in GraphQL by table "app_users"/,
      path: '$.args.configuration.custom_name',
    })
    await older.must('set_table_customization', { table: 'line_items', configuration })
  })
})
