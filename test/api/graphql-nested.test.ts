import tap from 'tap'
import { type As, testServer } from '../kit/server.js'

const SQL = `
create table author (id serial primary key, name text not null unique, age int);
create table article (id serial primary key, title text not null unique, author_id int not null references author);
create table tag (article_id int not null references article, name text not null, primary key (article_id, name));`

tap.test('rows inserted with their related rows', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SQL })
  const relate = (kind: string, table: string, name: string, on: unknown) => ({
    type: `create_${kind}_relationship`,
    args: { table, name, using: { foreign_key_constraint_on: on } },
  })
  const permit = (type: string, table: string, permission: object) => ({
    type: `create_${type}_permission`,
    args: { table, role: 'user', permission },
  })
  await server.must('bulk', [
    ...['author', 'article', 'tag'].map((table) => ({ type: 'track_table', args: table })),
    relate('object', 'article', 'author', 'author_id'),
    relate('array', 'author', 'articles', { table: 'article', column: 'author_id' }),
    relate('array', 'article', 'tags', { table: 'tag', column: 'article_id' }),
    relate('object', 'tag', 'article', 'article_id'),
    permit('select', 'author', { columns: ['id', 'name'], filter: {} }),
    permit('select', 'article', { columns: ['title'], filter: {} }),
    permit('select', 'tag', { columns: ['name'], filter: {} }),
    permit('insert', 'author', { check: { age: { $gt: 17 } } }),
    permit('insert', 'article', { check: { author: { name: { $ne: 'Mallory' } } } }),
  ])
  const user: As = { role: 'user' }
  const ask = async (query: string, variables?: object, as?: As) =>
    (await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query, variables }) }, as)).body
  const counts = async () => {
    const { data } = await ask(
      '{ author_aggregate { aggregate { count } } article_aggregate { aggregate { count } } tag_aggregate { aggregate { count } } }',
    )
    return Object.values(data as Record<string, { aggregate: { count: number } }>).map(
      ({ aggregate }) => aggregate.count,
    )
  }

  await t.test('down two levels, in the order of the rows', async (t) => {
    const objects = [
      {
        name: 'Ann',
        articles: { data: [{ title: 'a1', tags: { data: [{ name: 'x' }, { name: 'y' }] } }, { title: 'a2' }] },
      },
      { name: 'Bob' },
      { name: 'Cid', age: 5, articles: { data: { title: 'c1', tags: { data: [{ name: 'x' }] } } } },
    ]
    const query =
      'mutation m($o: [author_insert_input!]!) { insert_author(objects: $o) { affected_rows returning { name age articles(order_by: {title: asc}) { title tags(order_by: {name: asc}) { name } } } } }'
    t.same(await ask(query, { o: objects }), {
      data: {
        insert_author: {
          affected_rows: 9,
          returning: [
            {
              name: 'Ann',
              age: null,
              articles: [
                { title: 'a1', tags: [{ name: 'x' }, { name: 'y' }] },
                { title: 'a2', tags: [] },
              ],
            },
            { name: 'Bob', age: null, articles: [] },
            { name: 'Cid', age: 5, articles: [{ title: 'c1', tags: [{ name: 'x' }] }] },
          ],
        },
      },
    })
  })

  await t.test('up, in the document itself, with a conflict', async (t) => {
    const query =
      'mutation m($t: String!) { insert_tag_one(object: {name: "z", article: {data: {title: $t, author: {data: {name: "Ann"}, on_conflict: {constraint: author_name_key, update_columns: [name]}}}}}) { name article { title author { id name } } } }'
    t.same(await ask(query, { t: 'd1' }), {
      data: { insert_tag_one: { name: 'z', article: { title: 'd1', author: { id: 1, name: 'Ann' } } } },
    })
  })

  await t.test('a conflict of a related row with a condition', async (t) => {
    const insert = (title: string, where: object) =>
      ask('mutation m($o: tag_insert_input!) { insert_tag_one(object: $o) { article { author { name age } } } }', {
        o: {
          name: 'z',
          article: {
            data: {
              title,
              author: {
                data: { name: 'Cid', age: 99 },
                on_conflict: { constraint: 'author_name_key', update_columns: ['age'], where },
              },
            },
          },
        },
      })
    t.match((await insert('w1', { age: { _gt: 50 } })).errors, [{ message: /on_conflict skipped a row/ }])
    t.same((await insert('w2', { _or: [{ age: { _in: [5, 6] } }] })).data, {
      insert_tag_one: { article: { author: { name: 'Cid', age: 99 } } },
    })
    t.match((await insert('w3', { nothing: { _gt: 50 } })).errors, [{ message: /nothing/ }])
    t.match((await insert('w4', { age: 5 })).errors, [{ message: /unexpected literal value/ }])
  })

  await t.test('all of it or nothing', async (t) => {
    const before = await counts()
    const failed = await ask(
      'mutation { insert_author(objects: [{name: "Dan", articles: {data: [{title: "d2"}, {title: "a1"}]}}]) { affected_rows } }',
    )
    t.match(failed.errors, [{ message: /Uniqueness violation/ }])
    t.same(await counts(), before)
  })

  await t.test('the permissions of every table hold', async (t) => {
    const before = await counts()
    const insert = (name: string, age: number, more = '') =>
      `mutation { insert_author(objects: [{name: "${name}", age: ${age}, articles: {data: [{title: "of ${name}"${more}}]}}]) { affected_rows returning { name articles { title } } } }`
    t.match((await ask(insert('Eve', 17), undefined, user)).errors, [{ extensions: { code: 'permission-error' } }])
    t.match(
      (await ask(insert('Mallory', 20), undefined, user)).errors,
      [{ extensions: { code: 'permission-error' } }],
      'a check looks at the rows that came along',
    )
    t.match((await ask(insert('Eve', 20, ', tags: {data: [{name: "q"}]}'), undefined, user)).errors, [
      { extensions: { code: 'validation-failed' } },
    ])
    const viaVariable = await ask(
      'mutation m($o: [author_insert_input!]!) { insert_author(objects: $o) { affected_rows } }',
      { o: [{ name: 'Eve', age: 20, articles: { data: [{ title: 'of Eve', tags: { data: [{ name: 'q' }] } }] } }] },
      user,
    )
    t.match(viaVariable.errors, [{ extensions: { code: 'permission-denied' } }])
    t.same(await counts(), before)
    t.same(await ask(insert('Eve', 20), undefined, user), {
      data: { insert_author: { affected_rows: 2, returning: [{ name: 'Eve', articles: [{ title: 'of Eve' }] }] } },
    })
  })

  await t.test('what is refused', async (t) => {
    const errors = async (o: unknown) =>
      (
        await ask('mutation m($o: [author_insert_input!]!) { insert_author(objects: $o) { affected_rows } }', {
          o: [o],
        })
      ).errors[0]
    t.match(await errors({ name: 'x', articles: [] }), {
      message: /data/,
      extensions: { path: '$.selectionSet.insert_author.args.objects[0].articles' },
    })
    t.match(await errors({ name: 'x', articles: { data: [5] } }), {
      extensions: { path: '$.selectionSet.insert_author.args.objects[0].articles.data' },
    })
    t.match(await errors({ name: 'x', articles: { data: [{ nope: 1 }] } }), { message: /nope/ })
    t.match(await errors({ name: 'x', articles: { data: [{ title: 'q' }, { title: 5 }] } }), {
      extensions: { path: '$.selectionSet.insert_author.args.objects[0].articles.data[1].title' },
    })
    t.match(await errors({ name: 'Ann', articles: { data: [{ title: 'q' }] }, extra: 1 }), { message: /extra/ })
    t.match(await errors({ name: 'x', articles: { data: [{ title: 'q' }, { title: 'r', author_id: 1 }] } }), {
      message: 'the relationship "articles" determines the value of "author_id"; leave it out',
      extensions: {
        code: 'validation-failed',
        path: '$.selectionSet.insert_author.args.objects[0].articles.data[1].author_id',
      },
    })
    t.match(
      await errors({ name: 'x', articles: { data: [{ title: 'q', tags: { data: { name: 'a', article_id: 1 } } }] } }),
      {
        extensions: {
          path: '$.selectionSet.insert_author.args.objects[0].articles.data[0].tags.data.article_id',
        },
      },
    )
    const up = await ask(
      'mutation { insert_tag(objects: [{name: "u", article_id: 1, article: {data: {title: "u", author_id: 1}}}]) { affected_rows } }',
    )
    t.match(up.errors, [
      {
        message: 'the relationship "article" determines the value of "article_id"; leave it out',
        extensions: { path: '$.selectionSet.insert_tag.args.objects[0].article_id' },
      },
    ])
  })
})
