import type { Test } from 'tap'
import { data, fails, invalid, modern as ask } from '../kit/graphql-steps.js'
import { permit, setUpLibrary } from '../kit/library.js'
import { area, type Case, like, type Step, text } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** What queries to `/v1/graphql` promise. */
const PROMISES = {
  'root.rows': 'the field of a table is a list of its rows, with the keys in the order of the selection',
  'root.empty': 'no rows are an empty list',
  'root.by-key': 'a row is found by its primary key, and is null if it does not exist',
  'root.by-composite-key': 'a key of several columns takes all of them',
  'root.keyless': 'a view is read like a table, but has no field by key',
  'root.schema': 'tables of other schemas have the name of the schema before their own',
  'root.untracked': 'untracked tables do not exist',
  'select.several': 'the fields of a query see the same data, and aliases name them',
  'select.same': 'the same field twice is one, with both selections',
  'select.generated': 'a generated column is a field',
  'page.limit-offset': 'limit and offset cut a page',
  'page.negative': 'limit and offset are not negative',
  'page.null': 'null as an argument is like no argument',
  'distinct.rows': 'distinct_on keeps the first row of each value',
  'distinct.order': 'distinct_on must be the beginning of order_by',
  'distinct.variable': 'distinct_on may come as a variable',
  'order.asc': 'asc puts null last',
  'order.asc-nulls-first': 'asc_nulls_first puts null first, asc_nulls_last last',
  'order.desc': 'desc puts null first',
  'order.desc-nulls-last': 'desc_nulls_last puts null last, desc_nulls_first first',
  'order.several': 'a list sorts by one column after the other',
  'order.relationship': 'rows are sorted by a column of a related row',
  'order.aggregate': 'rows are sorted by an aggregate of related rows',
  'order.variable': 'directions and whole orders may come as variables',
  'order.rank': 'rows are sorted by how well a text matches, the best first',
  'order.unknown': 'an unknown column, an unknown direction and the older form are refused',
  'where.eq': '_eq and _neq; rows with null are not returned by either',
  'where.order': '_gt, _lt, _gte, _lte',
  'where.in': '_in and _nin, also of nothing',
  'where.is-null': '_is_null true and false',
  'where.distinct': '_is_distinct and _is_not_distinct compare with null, too',
  'where.like': '_like, _nlike, _ilike, _nilike',
  'where.similar': '_similar and _nsimilar',
  'where.regex': '_regex, _iregex, _nregex, _niregex',
  'where.json': '_contains, _contained_in, _has_key, _has_keys_any and _has_keys_all on jsonb',
  'where.cast': '_cast compares the text of jsonb',
  'where.cast-missing': 'a missing or empty condition under _cast is refused',
  'where.array': '_contains, _contained_in and _overlaps on arrays',
  'where.matches': '_matches searches full text, in a language if one is given',
  'where.bool': 'a boolean column is compared',
  'where.combinators': '_and, _or and _not, which take one condition for a list of one',
  'where.combinators-empty': '_and of nothing is true, _or of nothing false',
  'where.several': 'all keys of an object must hold',
  'where.relationship': 'a relationship holds if a related row fulfils the condition',
  'where.aggregate-count': 'rows are found by the count of their related rows, filtered and of distinct values',
  'where.aggregate-bool': 'rows are found by bool_and and bool_or of related rows',
  'where.variable': 'values, lists and whole conditions may come as variables',
  'where.null': 'null and a missing variable within a condition are refused',
  'where.null-in-list': 'so is null in a list',
  'where.columns': 'there are no operators that compare two columns',
  'where.text-on-number': 'a text operator needs a text column',
  'relationship.object': 'an object relationship is an object or null, and takes no arguments',
  'relationship.array': 'an array relationship takes the arguments of the table',
  'relationship.deep': 'relationships of relationships',
  'relationship.aggregate': 'an array relationship has aggregates, with arguments of their own',
  'aggregate.count': 'rows and values are counted, distinct ones too',
  'aggregate.functions': 'sum, avg, min, max, stddev and variance of columns',
  'aggregate.text': 'min and max of text, and no sum of it',
  'aggregate.arguments': 'an aggregate takes the arguments of the table',
  'aggregate.nodes': 'nodes are the rows that were aggregated',
  'aggregate.empty': 'of no rows the count is 0 and the rest null',
  'json.path': 'a part of a json or jsonb column is selected by its path',
  'json.path-missing': 'a path that does not exist is null',
  'json.path-wrong': 'what is not a path is refused',
  'numbers.digits': 'bigint and numeric keep their digits, in responses and in documents',
  'numbers.as-text': 'a header makes numbers with many digits strings, for one request',
  'typename.everywhere': '__typename is known on every type',
  'permission.filter': 'a role reads the rows of its filter',
  'permission.columns': 'columns outside the permission do not exist: not selected, compared, sorted by or aggregated',
  'permission.limit': 'the limit of a permission holds, whatever is requested',
  'permission.by-key': 'a row outside the filter is null by key; without the key column there is no such field',
  'permission.aggregate': 'without allow_aggregations there are no aggregates',
  'permission.aggregate-rows': 'aggregates are of all rows of the filter; the limit holds for nodes',
  'permission.relationship': 'a relationship to a table without permission does not exist',
  'permission.related-filter': 'related rows are filtered, in conditions, orders and aggregates, too',
  'permission.role': 'a role without permissions has no fields',
  'permission.anonymous': 'a caller without credentials is anonymous',
  'permission.session': 'a filter compares with session variables, and a missing one is refused',
} as const

const SQL = `
create table pair (a int, b int, note text, primary key (a, b));
insert into pair values (1, 1, 'x'), (1, 2, 'y');
create view pairs as select * from pair;
create table untracked (id int primary key);
create schema other;
create table other.thing (id int primary key);
insert into other.thing values (1);
create table doc (id int primary key, data jsonb, plain json, body text, bigs bigint[]);
insert into doc values
  (1, '{"a": {"b": [10, 20]}, "c d": "needle"}', '{"k": [1, {"x": 2}]}', 'Red shoes, red laces', '{1,9007199254740993}'),
  (2, '{"a": 1, "z": [1, {"k": null}]}', null, 'A blue shoe and a red hat', null), (3, '[]', null, 'nothing', null);
insert into article (id, title) values (7, 'orphan');`

const ANN: As = { role: 'user', variables: { 'x-service-user-id': '1' } }
const STAFF: As = { role: 'staff' }

const ids = (...all: readonly number[]) => all.map((id) => ({ id }))
const authors = (where: string, ...found: readonly number[]): Step =>
  ask(`{ author(where: ${where}, order_by: {id: asc}) { id } }`, data({ author: ids(...found) }))
const docs = (where: string, ...found: readonly number[]): Step =>
  ask(`{ doc(where: ${where}, order_by: {id: asc}) { id } }`, data({ doc: ids(...found) }))
const ordered = (order: string, ...found: readonly number[]): Step =>
  ask(`{ author(order_by: ${order}) { id } }`, data({ author: ids(...found) }))
const articles = (order: string, ...found: readonly number[]): Step =>
  ask(`{ article(order_by: ${order}, where: {id: {_lt: 5}}) { id } }`, data({ article: ids(...found) }))
const aggregate = (args: string, selection: string, expected: object, as?: As): Step =>
  ask(
    `{ article_aggregate${args} { aggregate { ${selection} } } }`,
    data({ article_aggregate: { aggregate: expected } }),
    as ? { as } : {},
  )
const wrongWhere = (where: string, message: string | RegExp, path: string): Step =>
  ask(`{ author(where: ${where}) { id } }`, invalid(message, `$.selectionSet.author.args.where${path}`))
const part = (id: number, path: string, value: unknown, column = 'data'): Step =>
  ask(
    `query ($p: String) { doc_by_pk(id: ${id}) { part: ${column}(path: $p) } }`,
    data({ doc_by_pk: { part: value } }),
    { variables: { p: path } },
  )
const hidden = (document: string, as: As = ANN): Step => ask(document, invalid(/./), { as })

/** In order: later ones see what earlier ones left. */
const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'root.rows': [
    ask(
      '{ author(order_by: {id: asc}) { name id age } }',
      text(
        '{"data":{"author":[{"name":"Ann","id":1,"age":30},{"name":"Bob","id":2,"age":null},{"name":null,"id":3,"age":50}]}}',
      ),
    ),
  ],
  'root.empty': [authors('{id: {_eq: 99}}')],
  'root.by-key': [
    ask(
      '{ author_by_pk(id: 1) { name } none: author_by_pk(id: 99) { name } }',
      data({ author_by_pk: { name: 'Ann' }, none: null }),
    ),
    ask('{ author_by_pk { name } }', invalid(/id/, /^\$\.selectionSet\.author_by_pk/)),
  ],
  'root.by-composite-key': [
    ask('{ pair_by_pk(a: 1, b: 2) { note } }', data({ pair_by_pk: { note: 'y' } })),
    ask('{ pair_by_pk(a: 1) { note } }', invalid(/"b"/)),
  ],
  'root.keyless': [
    ask('{ pairs(where: {b: {_eq: 1}}) { note } }', data({ pairs: [{ note: 'x' }] })),
    ask('{ pairs_by_pk(a: 1, b: 1) { note } }', invalid(/pairs_by_pk/)),
  ],
  'root.schema': [
    ask('{ other_thing { id } }', data({ other_thing: [{ id: 1 }] })),
    ask('{ thing { id } }', invalid(/"thing"/)),
  ],
  'root.untracked': [ask('{ untracked { id } }', invalid(/untracked/, '$.selectionSet.untracked'))],
  'select.several': [
    ask(
      '{ all: author(limit: 1, order_by: {id: asc}) { number: id } b: author(offset: 2, order_by: {id: asc}) { id } article(limit: 0) { id } }',
      text('{"data":{"all":[{"number":1}],"b":[{"id":3}],"article":[]}}'),
    ),
  ],
  'select.same': [
    ask(
      '{ author_by_pk(id: 1) { id id articles(limit: 1, order_by: {id: asc}) { id } articles(limit: 1, order_by: {id: asc}) { title } } }',
      data({ author_by_pk: { id: 1, articles: [{ id: 1, title: 'a1' }] } }),
    ),
    ask('{ author { articles(limit: 1) { id } articles(limit: 2) { id } } }', invalid(/conflict/)),
    ask('{ author { a: id a: name } }', invalid(/"a" conflict/)),
  ],
  'select.generated': [ask('{ article_by_pk(id: 3) { twice } }', data({ article_by_pk: { twice: 6 } }))],
  'page.limit-offset': [
    ask('{ author(order_by: {id: asc}, limit: 1, offset: 1) { id } }', data({ author: ids(2) })),
    ask('{ author(limit: 0) { id } }', data({ author: [] })),
  ],
  'page.negative': [
    ask('{ author(limit: -1) { id } }', invalid(/non-negative/, '$.selectionSet.author.args.limit')),
    ask('{ author(offset: -1) { id } }', invalid(/non-negative/, '$.selectionSet.author.args.offset')),
  ],
  'page.null': [
    ask(
      '{ author(where: null, limit: null, offset: null, order_by: null, distinct_on: null) { id } }',
      data({ author: ids(1, 2, 3) }),
    ),
  ],
  'distinct.rows': [
    ask(
      '{ article(distinct_on: [author_id], order_by: [{author_id: asc}, {rating: desc}]) { id } }',
      data({ article: ids(5, 6, 7) }),
    ),
    ask(
      '{ article(distinct_on: published, order_by: [{published: asc}, {id: asc}]) { id } }',
      data({ article: ids(2, 1) }),
    ),
  ],
  'distinct.order': [
    ask(
      '{ article(distinct_on: [author_id], order_by: {rating: desc}) { id } }',
      invalid(/./, '$.selectionSet.article.args.distinct_on'),
    ),
    ask(
      '{ author(distinct_on: doc) { id } }',
      like({ data: undefined, errors: [{ message: /"doc" is of type json/ }] }),
    ),
  ],
  'distinct.variable': [
    ask(
      'query ($d: [article_select_column!]) { article(distinct_on: $d) { published } }',
      like({ data: { article: { length: 2 } } }),
      {
        variables: { d: ['published'] },
      },
    ),
    ask(
      'query ($d: [article_select_column!]) { article(distinct_on: $d) { id } }',
      like({ data: { article: { length: 2 } } }),
      { variables: { d: ['published'] } },
    ),
    ask('query ($d: [article_select_column!]) { article(distinct_on: $d) { id } }', invalid(/./, '$.variables.d[0]'), {
      variables: { d: ['rating'] },
      as: ANN,
    }),
  ],
  'order.asc': [ordered('{age: asc}', 1, 3, 2), ordered('{id: asc}', 1, 2, 3)],
  'order.asc-nulls-first': [ordered('{age: asc_nulls_first}', 2, 1, 3), ordered('{age: asc_nulls_last}', 1, 3, 2)],
  'order.desc': [ordered('{age: desc}', 2, 3, 1), ordered('{id: desc}', 3, 2, 1)],
  'order.desc-nulls-last': [ordered('{age: desc_nulls_last}', 3, 1, 2), ordered('{age: desc_nulls_first}', 2, 3, 1)],
  'order.several': [articles('[{author_id: asc}, {rating: desc}]', 3, 1, 4, 2)],
  'order.relationship': [articles('[{author: {name: desc}}, {id: asc}]', 2, 4, 1, 3)],
  'order.aggregate': [
    ordered('[{articles_aggregate: {count: asc}}, {id: desc}]', 3, 2, 1),
    ordered('{articles_aggregate: {max: {rating: desc_nulls_last}}}', 2, 1, 3),
    articles('[{author: {articles_aggregate: {sum: {rating: desc}}}}, {id: asc}]', 2, 4, 1, 3),
  ],
  'order.variable': [
    ask(
      'query ($o: [author_order_by!], $d: order_by!) { author(order_by: $o, limit: 1) { id } b: author(order_by: {id: $d}, limit: 1) { id } }',
      data({ author: ids(3), b: ids(3) }),
      { variables: { o: [{ id: 'desc' }], d: 'desc' } },
    ),
  ],
  'order.rank': [
    ask(
      '{ doc(where: {body: {_matches: "red"}}, order_by: {body_rank: {query: "red"}}) { id } }',
      data({ doc: ids(1, 2) }),
    ),
    ask(
      '{ doc(where: {body: {_matches: "red"}}, order_by: {body_rank: {query: "red", order: asc}}) { id } }',
      data({ doc: ids(2, 1) }),
    ),
  ],
  'order.unknown': [
    ask('{ author(order_by: {nope: asc}) { id } }', invalid(/nope/)),
    ask('{ author(order_by: {id: up}) { id } }', invalid(/"up"/)),
    ask('{ author(order_by: ["-id"]) { id } }', invalid(/author_order_by/)),
  ],
  'where.eq': [authors('{name: {_eq: "Ann"}}', 1), authors('{name: {_neq: "Ann"}}', 2)],
  'where.order': [
    authors('{age: {_gt: 30}}', 3),
    authors('{age: {_lt: 50}}', 1),
    authors('{age: {_gte: 30}}', 1, 3),
    authors('{age: {_lte: 30}}', 1),
    authors('{born: {_lt: "1970-01-03"}}', 1),
  ],
  'where.in': [
    authors('{id: {_in: [1, 3]}}', 1, 3),
    authors('{id: {_nin: [1]}}', 2, 3),
    authors('{id: {_in: []}}'),
    authors('{id: {_nin: []}}', 1, 2, 3),
    authors('{id: {_in: 2}}', 2),
  ],
  'where.is-null': [authors('{name: {_is_null: true}}', 3), authors('{name: {_is_null: false}}', 1, 2)],
  'where.distinct': [authors('{name: {_is_distinct: "Ann"}}', 2, 3), authors('{name: {_is_not_distinct: "Ann"}}', 1)],
  'where.like': [
    authors('{name: {_like: "A%"}}', 1),
    authors('{name: {_like: "a%"}}'),
    authors('{name: {_nlike: "A%"}}', 2),
    authors('{name: {_ilike: "b%"}}', 2),
    authors('{name: {_nilike: "B%"}}', 1),
  ],
  'where.similar': [authors('{name: {_similar: "(Ann|Bob)"}}', 1, 2), authors('{name: {_nsimilar: "A%"}}', 2)],
  'where.regex': [
    authors('{name: {_regex: "^A"}}', 1),
    authors('{name: {_regex: "^a"}}'),
    authors('{name: {_iregex: "^a"}}', 1),
    authors('{name: {_nregex: "^A"}}', 2),
    authors('{name: {_niregex: "^b"}}', 1),
  ],
  'where.json': [
    docs('{data: {_contains: {a: 1}}}', 2),
    docs('{data: {_contained_in: {a: 1, z: [1, {k: null}], y: 2}}}', 2),
    docs('{data: {_has_key: "c d"}}', 1),
    docs('{data: {_has_keys_any: ["c d", "z"]}}', 1, 2),
    docs('{data: {_has_keys_all: ["a", "z"]}}', 2),
  ],
  'where.cast': [
    docs('{data: {_cast: {String: {_like: "%needle%"}}}}', 1),
    ask('query ($w: String) { doc(where: {data: {_cast: {String: {_ilike: $w}}}}) { id } }', data({ doc: ids(2) }), {
      variables: { w: '%NULL%' },
    }),
    ask('{ doc(where: {data: {_cast: {Int: {_eq: 1}}}}) { id } }', invalid(/Int/)),
  ],
  'where.cast-missing': [
    ask(
      'query ($to: String_comparison_exp) { doc(where: {data: {_cast: {String: $to}}}) { id } }',
      invalid(/./, '$.selectionSet.doc.args.where.data._cast'),
    ),
    ask(
      'query ($to: String_comparison_exp) { doc(where: {data: {_cast: {String: $to}}}) { id } }',
      invalid(/./, '$.selectionSet.doc.args.where.data._cast.String'),
      { variables: { to: {} } },
    ),
  ],
  'where.array': [
    authors('{tags: {_contains: ["b"]}}', 1),
    authors('{tags: {_contained_in: ["a", "b", "c"]}}', 1, 2),
    authors('{tags: {_overlaps: ["b", "x"]}}', 1),
    authors('{tags: {_eq: []}}', 2),
  ],
  'where.matches': [
    docs('{body: {_matches: "red shoe"}}', 1, 2),
    docs('{body: {_matches: {query: "shoes", language: "simple"}}}', 1),
    ask('query ($q: full_text_query!) { doc(where: {body: {_matches: $q}}) { id } }', data({ doc: ids(2) }), {
      variables: { q: { query: 'blue', language: 'english' } },
    }),
    ask('query ($q: String!) { doc(where: {body: {_matches: {query: $q}}}) { id } }', data({ doc: ids(2) }), {
      variables: { q: 'hat' },
    }),
  ],
  'where.bool': [authors('{flag: {_eq: false}}', 2)],
  'where.combinators': [
    authors('{_or: [{id: {_eq: 1}}, {_and: [{id: {_gt: 1}}, {_not: {age: {_is_null: true}}}]}]}', 1, 3),
    authors('{_not: {id: {_eq: 1}}}', 2, 3),
    authors('{_or: {id: {_eq: 2}}}', 2),
  ],
  'where.combinators-empty': [
    authors('{_and: []}', 1, 2, 3),
    authors('{_or: []}'),
    authors('{}', 1, 2, 3),
    authors('{_not: {}}'),
  ],
  'where.several': [authors('{id: {_gt: 1, _lt: 3}}', 2), authors('{id: {_gt: 1}, age: {_eq: 50}}', 3)],
  'where.relationship': [
    authors('{articles: {rating: {_gt: 50}}}', 2),
    authors('{articles: {}}', 1, 2),
    authors('{_not: {articles: {}}}', 3),
    ask(
      '{ article(where: {author: {name: {_eq: "Bob"}}}, order_by: {id: asc}) { id } }',
      data({ article: ids(2, 4, 6) }),
    ),
  ],
  'where.aggregate-count': [
    authors('{articles_aggregate: {count: {predicate: {_gte: 3}}}}', 1, 2),
    authors('{articles_aggregate: {count: {predicate: {_eq: 3}, filter: {published: {_eq: true}}}}}', 1),
    authors(
      '{articles_aggregate: {count: {predicate: {_eq: 1}, arguments: [published], distinct: true, filter: {rating: {_gt: 20}}}}}',
      1,
      2,
    ),
    ask(
      'query ($n: Int!) { author(where: {articles_aggregate: {count: {predicate: {_gt: $n}, arguments: [rating], distinct: true, filter: {rating: {_gt: 50}}}}}) { id } }',
      data({ author: ids(2) }),
      { variables: { n: 0 } },
    ),
  ],
  'where.aggregate-bool': [
    authors('{articles_aggregate: {bool_and: {arguments: published, predicate: {_eq: true}}}}', 1),
    authors('{articles_aggregate: {bool_or: {arguments: published, predicate: {_eq: false}}}}', 2),
  ],
  'where.variable': [
    ask(
      'query ($id: Int!, $in: [Int!]!) { author(where: {id: {_in: [2, $id]}, _not: {id: {_in: $in}}}) { id } }',
      data({ author: ids(3) }),
      { variables: { id: 3, in: [2] } },
    ),
    ask('query ($w: author_bool_exp) { author(where: $w) { id } }', data({ author: ids(2) }), {
      variables: { w: { articles_aggregate: { count: { predicate: { _gt: 0 } } }, _not: { name: { _in: ['Ann'] } } } },
    }),
  ],
  'where.null': [
    wrongWhere('{id: {_eq: null}}', /unexpected null value/, '.id._eq'),
    ask(
      'query ($x: Int) { author(where: {id: {_eq: $x}}) { id } }',
      invalid(/unexpected null value/, '$.selectionSet.author.args.where.id._eq'),
    ),
    ask(
      'query ($x: [Int!]) { author(where: {id: {_nin: $x}}) { id } }',
      invalid(/unexpected null value/, '$.selectionSet.author.args.where.id._nin'),
      { variables: { x: null } },
    ),
    ...(
      [
        ['Int_comparison_exp', '{id: $e}'],
        ['author_bool_exp', '{_not: $e}'],
        ['[author_bool_exp!]', '{_or: $e}'],
        ['[author_bool_exp!]', '{_and: $e}'],
        ['Int_comparison_exp', '{_or: [{id: $e}, {id: {_eq: 1}}]}'],
        ['article_bool_exp', '{articles: $e}'],
        ['Int_comparison_exp', '{articles: {id: $e}}'],
      ] as const
    ).flatMap(([type, where]) =>
      [undefined, { e: null }].map((variables) =>
        ask(
          `query ($e: ${type}) { author(where: ${where}) { id } }`,
          fails('validation-failed', /null|expecting an object/),
          {
            variables,
          },
        ),
      ),
    ),
  ],
  'where.null-in-list': [wrongWhere('{id: {_in: [1, null]}}', /null/i, '.id._in')],
  'where.columns': [wrongWhere('{id: {_ceq: "age"}}', /_ceq/, '.id._ceq')],
  'where.text-on-number': [wrongWhere('{id: {_like: "1"}}', /_like/, '.id._like')],
  'relationship.object': [
    ask(
      '{ article(where: {id: {_gt: 5}}, order_by: {id: asc}) { author { name } } }',
      data({ article: [{ author: { name: 'Bob' } }, { author: null }] }),
    ),
    ask('{ article { author(limit: 1) { name } } }', invalid(/limit/)),
  ],
  'relationship.array': [
    ask(
      '{ author_by_pk(id: 1) { articles(order_by: {rating: desc}) { id } a: articles(where: {id: {_gt: 2}}, order_by: {id: asc}) { id } b: articles(order_by: {id: desc}, limit: 1, offset: 1) { id } c: articles(distinct_on: published) { published } } }',
      data({ author_by_pk: { articles: ids(5, 3, 1), a: ids(3, 5), b: ids(3), c: [{ published: true }] } }),
    ),
    ask('{ author_by_pk(id: 3) { articles { id } } }', data({ author_by_pk: { articles: [] } })),
  ],
  'relationship.deep': [
    ask(
      '{ author_by_pk(id: 2) { articles(limit: 1, order_by: {id: asc}) { author { articles(limit: 1, order_by: {id: desc}) { id } } } } }',
      data({ author_by_pk: { articles: [{ author: { articles: ids(6) } }] } }),
    ),
  ],
  'relationship.aggregate': [
    ask(
      '{ author(order_by: {id: asc}) { articles_aggregate(where: {rating: {_gt: 20}}) { aggregate { count min { id } } } first: articles_aggregate(limit: 1, order_by: {id: asc}) { nodes { id } } } }',
      data({
        author: [
          { articles_aggregate: { aggregate: { count: 2, min: { id: 3 } } }, first: { nodes: ids(1) } },
          { articles_aggregate: { aggregate: { count: 2, min: { id: 4 } } }, first: { nodes: ids(2) } },
          { articles_aggregate: { aggregate: { count: 0, min: { id: null } } }, first: { nodes: [] } },
        ],
      }),
    ),
  ],
  'aggregate.count': [
    aggregate('', 'count ratings: count(columns: rating) authors: count(columns: [author_id], distinct: true)', {
      count: 7,
      ratings: 6,
      authors: 2,
    }),
    ask(
      'query ($c: [article_select_column!]) { article_aggregate { aggregate { count(columns: $c, distinct: true) } } }',
      data({ article_aggregate: { aggregate: { count: 2 } } }),
      { variables: { c: ['published'] } },
    ),
  ],
  'aggregate.functions': [
    aggregate(
      '(where: {id: {_in: [1, 3]}})',
      'sum { rating } avg { rating } min { rating } max { rating } stddev { rating } stddev_pop { rating } stddev_samp { rating } variance { rating } var_pop { rating } var_samp { rating }',
      {
        sum: { rating: 40 },
        avg: { rating: 20 },
        min: { rating: 10 },
        max: { rating: 30 },
        stddev: { rating: 10 * Math.SQRT2 },
        stddev_pop: { rating: 10 },
        stddev_samp: { rating: 10 * Math.SQRT2 },
        variance: { rating: 200 },
        var_pop: { rating: 100 },
        var_samp: { rating: 200 },
      },
    ),
  ],
  'aggregate.text': [
    aggregate('', 'min { title } max { title }', { min: { title: 'a1' }, max: { title: 'orphan' } }),
    ask('{ article_aggregate { aggregate { sum { title } } } }', invalid(/sum/)),
  ],
  'aggregate.arguments': [
    aggregate('(limit: 2, offset: 1, order_by: {id: asc})', 'count sum { id }', { count: 2, sum: { id: 5 } }),
    aggregate('(distinct_on: author_id, where: {author_id: {_is_null: false}})', 'count', { count: 2 }),
  ],
  'aggregate.nodes': [
    ask(
      '{ article_aggregate(where: {rating: {_gt: 40}}, order_by: {id: desc}) { nodes { id author { name } } } }',
      data({
        article_aggregate: {
          nodes: [
            { id: 6, author: { name: 'Bob' } },
            { id: 5, author: { name: 'Ann' } },
          ],
        },
      }),
    ),
  ],
  'aggregate.empty': [
    aggregate('(where: {id: {_lt: 0}})', 'count sum { rating } max { title }', {
      count: 0,
      sum: { rating: null },
      max: { title: null },
    }),
  ],
  'json.path': [
    part(1, '$.a.b[1]', 20),
    part(1, 'a.b[0]', 10),
    part(1, "$['c d']", 'needle'),
    part(1, '["c d"]', 'needle'),
    part(2, '$.z[1]', { k: null }),
    part(1, 'a', { b: [10, 20] }),
    part(1, 'k[1].x', 2, 'plain'),
    part(3, '$', []),
    ask('{ doc_by_pk(id: 3) { data(path: null) } }', data({ doc_by_pk: { data: [] } })),
  ],
  'json.path-missing': [part(1, 'none.at.all', null), part(2, 'a.b', null)],
  'json.path-wrong': ['$.', 'a..b', '[', '[x]', '$a', "['x", 'a[', 'a]'].map((p) =>
    ask(
      'query ($p: String) { doc { data(path: $p) } }',
      invalid(/is not a path/, '$.selectionSet.doc.selectionSet.data.args.path'),
      { variables: { p } },
    ),
  ),
  'numbers.digits': [
    ask('{ author_by_pk(id: 1) { big num } }', text('{"data":{"author_by_pk":{"big":9007199254740993,"num":1.10}}}')),
    authors('{big: {_eq: 9007199254740993}}', 1),
    authors('{big: {_eq: 9007199254740992}}'),
    ask(
      '{ author_aggregate { aggregate { max { big } } } }',
      text('{"data":{"author_aggregate":{"aggregate":{"max":{"big":9007199254740993}}}}}'),
    ),
  ],
  'numbers.as-text': [
    ask(
      '{ author_by_pk(id: 1) { big num age } }',
      text('{"data":{"author_by_pk":{"big":"9007199254740993","num":"1.10","age":30}}}'),
      { headers: { 'x-service-digits-as-text': 'true' } },
    ),
    ask('{ doc_by_pk(id: 1) { bigs } }', text('{"data":{"doc_by_pk":{"bigs":["1","9007199254740993"]}}}'), {
      headers: { 'x-service-digits-as-text': 'true' },
    }),
    ask(
      '{ author_aggregate { aggregate { count sum { id big num } max { big } avg { age } } } }',
      data({
        author_aggregate: {
          aggregate: {
            count: 3,
            sum: { id: '6', big: '9007199254740995', num: '3.10' },
            max: { big: '9007199254740993' },
            avg: { age: 40 },
          },
        },
      }),
      { headers: { 'x-service-digits-as-text': 'true' } },
    ),
    ask('{ author_by_pk(id: 1) { big } }', text('{"data":{"author_by_pk":{"big":9007199254740993}}}'), {
      headers: { 'x-service-digits-as-text': 'false' },
    }),
    ask('{ author_by_pk(id: 1) { big } }', fails('parse-failed', /neither true nor false/, '$', 400), {
      headers: { 'x-service-digits-as-text': 'yes' },
    }),
  ],
  'typename.everywhere': [
    ask(
      '{ __typename author(limit: 1) { __typename articles(limit: 1) { t: __typename } } article_aggregate { __typename aggregate { __typename max { __typename id } } } }',
      data({
        __typename: 'query_root',
        author: [{ __typename: 'author', articles: [{ t: 'article' }] }],
        article_aggregate: {
          __typename: 'article_aggregate',
          aggregate: { __typename: 'article_aggregate_fields', max: { __typename: 'article_max_fields', id: 7 } },
        },
      }),
    ),
  ],
  'permission.filter': [
    ask(
      '{ article(where: {id: {_gt: 1}}, order_by: {id: asc}) { id title } }',
      data({
        article: [
          { id: 3, title: 'a3' },
          { id: 5, title: 'a5' },
        ],
      }),
      { as: ANN },
    ),
  ],
  'permission.columns': [
    hidden('{ article { rating } }'),
    hidden('{ article(where: {rating: {_gt: 1}}) { id } }'),
    hidden('{ article(order_by: {rating: asc}) { id } }'),
    hidden('{ article(distinct_on: rating) { id } }'),
    hidden('{ article_aggregate { aggregate { max { title } } } }', STAFF),
    hidden('{ article_aggregate { aggregate { count(columns: title) } } }', STAFF),
    hidden('{ author(order_by: {articles_aggregate: {max: {title: asc}}}) { id } }', STAFF),
    hidden(
      '{ author(where: {articles_aggregate: {count: {predicate: {_gt: 1}, filter: {title: {_eq: "x"}}}}}) { id } }',
      STAFF,
    ),
  ],
  'permission.limit': [
    ask('{ article(limit: 5, order_by: {id: asc}) { id } }', data({ article: ids(1, 3) }), { as: ANN }),
    ask('{ article(limit: 1, order_by: {id: asc}) { id } }', data({ article: ids(1) }), { as: ANN }),
    ask('{ article(order_by: {id: desc}) { id } }', data({ article: ids(5, 3) }), { as: ANN }),
  ],
  'permission.by-key': [
    ask(
      '{ a: article_by_pk(id: 3) { title } b: article_by_pk(id: 2) { title } }',
      data({ a: { title: 'a3' }, b: null }),
      { as: ANN },
    ),
    ask('{ note { body } }', data({ note: [] }), { as: ANN }),
    hidden('{ note_by_pk(id: 1) { body } }'),
  ],
  'permission.aggregate': [
    hidden('{ article_aggregate { aggregate { count } } }'),
    hidden('{ author(order_by: {articles_aggregate: {count: asc}}) { id } }'),
    hidden('{ author { articles_aggregate { aggregate { count } } } }'),
    hidden('{ author(where: {articles_aggregate: {count: {predicate: {_gt: 0}}}}) { id } }'),
    aggregate('', 'count', { count: 3 }, STAFF),
  ],
  'permission.aggregate-rows': [
    ask(
      '{ article_aggregate(order_by: {id: asc}) { aggregate { count sum { rating } } nodes { id } } }',
      data({ article_aggregate: { aggregate: { count: 3, sum: { rating: 90 } }, nodes: ids(1, 3) } }),
      { as: STAFF },
    ),
  ],
  'permission.relationship': [
    hidden('{ author { pets { id } } }'),
    hidden('{ author(where: {pets: {}}) { id } }'),
    hidden('{ article { author { name } } }', STAFF),
  ],
  'permission.related-filter': [
    ask(
      '{ author(order_by: {id: asc}) { id articles(order_by: {id: asc}) { id } } }',
      data({
        author: [
          { id: 1, articles: ids(1, 3) },
          { id: 2, articles: [] },
          { id: 3, articles: [] },
        ],
      }),
      { as: ANN },
    ),
    ask('{ author(where: {articles: {id: {_gt: 0}}}) { id } }', data({ author: ids(1) }), { as: ANN }),
    ask(
      '{ pet(order_by: [{master: {articles_aggregate: {count: desc_nulls_last}}}, {id: asc}]) { id master { articles_aggregate { aggregate { count } } } } }',
      data({
        pet: [
          { id: 2, master: { articles_aggregate: { aggregate: { count: 3 } } } },
          { id: 1, master: { articles_aggregate: { aggregate: { count: 0 } } } },
        ],
      }),
      { as: STAFF },
    ),
    ask(
      '{ pet(where: {master: {articles_aggregate: {count: {predicate: {_gt: 0}}}}}) { id } }',
      data({ pet: ids(2) }),
      { as: STAFF },
    ),
  ],
  'permission.role': [hidden('{ article { id } }', { role: 'nobody' }), hidden('{ doc { id } }')],
  'permission.anonymous': [{ ...ask('{ article { id } }', invalid(/"article"/)), bare: true }],
  'permission.session': [
    ask('{ author(where: {id: {_gt: 0}}) { id } }', data({ author: ids(2) }), {
      as: { role: 'self', variables: { 'x-service-user-id': '2' } },
    }),
    ask('{ author { id } }', fails('not-found', 'x-service-user-id header is expected but not found'), {
      as: { role: 'self' },
    }),
  ],
}

/** Its promises, with a case for each. */
export const graphqlReads = area('graphql-reads', {
  promises: PROMISES,
  cases: CASES,
  start,
  pages: {
    'plugins/graphql/README.md': {
      GraphQL: {
        '`POST /v1/graphql`, `GET` for queries': 'root.rows',
      },
      '`/v1/graphql`': {
        '`t`': ['root.rows', 'where.eq', 'order.asc', 'distinct.rows', 'page.limit-offset', 'permission.filter'],
        '`t_by_pk`': ['root.by-key', 'root.by-composite-key', 'permission.by-key'],
        '`t_aggregate { aggregate { count(columns, distinct) sum avg min max stddev... } nodes { } }`': [
          'aggregate.count',
          'aggregate.functions',
          'aggregate.arguments',
          'aggregate.nodes',
          'permission.aggregate',
        ],
      },
    },
  },
})

async function start(t: Test) {
  const server = await testServer(t)
  const published = { filter: { published: true }, limit: 2 }
  await setUpLibrary(server, [
    { type: 'run_sql', args: { sql: `${SQL} insert into pet values (1, 'Rex', 3, 2), (2, 'Tom', 4, 1)` } },
    ...['pair', 'pairs', 'doc', { schema: 'other', name: 'thing' }].map((table) => ({
      type: 'track_table',
      args: table,
    })),
    permit('select', 'article', 'user', { columns: ['id', 'title', 'author_id'], ...published }),
    permit('select', 'author', 'user', { columns: ['id', 'name'], filter: {} }),
    permit('select', 'note', 'user', { columns: ['body'], filter: {} }),
    permit('select', 'article', 'staff', { columns: ['id', 'rating'], ...published, allow_aggregations: true }),
    permit('select', 'author', 'staff', { columns: ['id'], filter: {} }),
    permit('select', 'pet', 'staff', { columns: ['id'], filter: {} }),
    permit('select', 'author', 'self', { columns: ['id'], filter: { id: 'X-SERVICE-USER-ID' } }),
  ])
  return server
}
