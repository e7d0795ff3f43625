import { buildSchema } from 'graphql'
import type { Test } from 'tap'
import { alpha as ask, alphaFails as fails, counted, data, rawTo } from '../kit/graphql-steps.js'
import { permit, setUpLibrary } from '../kit/library.js'
import { area, type Case, is, like, query, refused, type Step, text } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** What `/v1alpha1/graphql` promises of schemas, reads, writes and permissions. */
const PROMISES = {
  'schema.endpoint': 'GET /v1alpha1/graphql/schema answers the schema as text under the key schema',
  'schema.admin': 'to admin alone',
  'schema.query-root': 'a field for each table: where, limit, offset, order_by, a list of its type',
  'schema.mutation-root': 'insert_, update_ and delete_ for each table',
  'schema.response': 'affected_rows and returning',
  'schema.input': 'one input type for each table',
  'schema.relationship': 'relationships are fields, those to many rows with the arguments of the root',
  'schema.bool-exp': 'conditions on columns and relationships, _and, _or, _not',
  'schema.comparison': 'the operators of each type',
  'schema.public': 'tables of public alone',
  'schema.tracked': 'tracked tables alone',
  'schema.view': 'a view offers the writes that PostgreSQL makes to it',
  'schema.generated': 'a generated column is no input',
  'select.all': 'a table is a list of its rows',
  'select.alias': 'an alias is the key of the result',
  'select.limit-offset': 'limit and offset cut a page',
  'select.null-arguments': 'null as an argument is as none',
  'select.negative': 'limit and offset are not negative',
  'select.several': 'a query has several fields',
  'select.empty': 'no rows are an empty list',
  'where.eq': '{name: {_eq: value}}',
  'where.neq': '_neq; rows with null are not returned',
  'where.order': '_gt, _lt, _gte, _lte',
  'where.in': '_in and _nin',
  'where.like': '_like, _nlike, _ilike, _nilike',
  'where.similar': '_similar, _nsimilar',
  'where.is-null': '_is_null true and false',
  'where.jsonb': '_contains on jsonb',
  'where.several': 'several keys all hold',
  'where.combinators': '_and, _or and _not',
  'where.combinators-empty': '_and of nothing is true, _or of nothing is false',
  'where.relationship': 'a relationship holds when some related row does',
  'where.one-for-list': 'one value stands for a list of one',
  'where.null': 'a comparison with null is refused, so that a condition never falls away',
  'where.null-variable': 'also when the variable is null or missing',
  'where.null-in-list': 'and in a list',
  'where.unknown-operator': 'an operator that the type does not have is refused',
  'where.text-on-number': 'a text operator needs a text column',
  'order.plus': '"+col" ascends',
  'order.minus': '"-col" descends',
  'order.plain': '"col" ascends',
  'order.several': 'a list orders by one after the other',
  'order.text': 'one text stands for a list of one',
  'order.relationship': '"+author.name" goes through object relationships',
  'order.unknown': 'an unknown column is refused',
  'order.form': 'so is a text of another form',
  'order.array-relationship': 'an array relationship cannot be sorted by',
  'order.variable': 'a variable may say what to order by',
  'relationship.object': 'an object relationship is an object or null',
  'relationship.object-arguments': 'it takes no arguments',
  'relationship.array': 'an array relationship takes where, order_by, limit, offset',
  'relationship.deep': 'relationships of relationships',
  'insert.rows': 'rows are inserted and counted',
  'insert.returning': 'returning has the rows, with their relationships',
  'insert.default': 'a missing key takes the default',
  'insert.null': 'null is null',
  'insert.one': 'one object stands for a list of one',
  'insert.empty': 'no rows are refused',
  'insert.required': 'objects are required',
  'insert.variable': 'rows come as a variable',
  'insert.unknown-column': 'an unknown column is refused',
  'update.set': '_set changes the rows of where',
  'update.variable': '_set may come as a variable',
  'update.null': '_set of null sets null',
  'update.empty': '_set of nothing is refused',
  'update.required': 'where and _set are required',
  'update.all': 'where: {} is every row',
  'delete.rows': 'delete_ deletes the rows of where and returns them',
  'delete.required': 'where is required',
  'mutation.order': 'the fields of a mutation are run in order',
  'mutation.atomic': 'a request is one transaction',
  'mutation.no-match': 'no rows are 0 and an empty list',
  'permission.default': 'without a permission only admin sees a table',
  'permission.unknown-role': 'a role without permissions has no fields and no mutations',
  'permission.anonymous': 'a caller without credentials is anonymous',
  'permission.role-not-held': 'a role that the caller does not hold is 403',
  'permission.filter': 'rows are those of the role',
  'permission.columns': 'columns outside the permission are not there',
  'permission.where': 'not in conditions',
  'permission.order': 'not in order_by',
  'permission.relationship': 'nor are tables behind relationships',
  'permission.related-filter': 'related rows are filtered, in conditions too',
  'permission.limit': 'the limit of a permission holds',
  'permission.insert': 'the check holds',
  'permission.update': 'the filter of an update holds',
  'permission.update-column': 'a column that may be inserted and not updated is refused as permission',
  'permission.returning': 'returning has the rows that the role sees',
  'permission.no-delete': 'what is not permitted is not there',
  'permission.no-mutations': 'a role that may only read has no mutations',
  'permission.session': 'X-SERVICE-USER-ID is the caller; a missing variable is refused',
  'database.unique': 'a duplicate is postgres-error',
  'database.check': 'so is a check of the table',
  'database.value': 'and a value that PostgreSQL cannot read',
  'numbers.out': 'numbers keep their digits in answers',
  'numbers.in': 'and in documents and variables',
  'schema.valid': 'the schema that it answers is a valid one',
} as const

const SQL = `
insert into article (id, title) values (7, 'orphan');
create table untracked (id int primary key);
create view body as select body from note;
create view bodies as select body, count(*) from note group by body;
create schema other;
create table other.thing (id int primary key);`

const ANN: As = { role: 'user', variables: { 'x-service-user-id': '1' } }
const READER: As = { role: 'reader' }
const NOBODY: As = { role: 'nobody' }

const body = rawTo('/v1alpha1/graphql')
const invalid = (error: string | RegExp, path?: string | RegExp) => fails('validation-failed', error, path)
const schema = (part: RegExp | string): Step => ({
  path: '/v1alpha1/graphql/schema',
  method: 'GET',
  expected: like({ schema: part }),
})
const noSchema = (part: RegExp): Step => schema(new RegExp(`^(?![\\s\\S]*${part.source})`))
/** A block of the schema, with all its fields. */
const block = (head: string, fields: readonly string[]): Step =>
  schema(`${head} {\n${fields.map((each) => `  ${each}\n`).join('')}}`)
const quoted = (line: string): string => line.replaceAll(/[()[\]{}|.+*?^$]/g, String.raw`\$&`)
/** A line of a block. */
const inBlock = (head: string, line: string): Step => schema(new RegExp(`${head} \\{[^}]*\n  ${quoted(line)}\n`))
const authors = (where: string, ...ids: readonly number[]): Step =>
  ask(`{ author(where: ${where}, order_by: ["id"]) { id } }`, data({ author: ids.map((id) => ({ id })) }))
const wrongWhere = (where: string, error: string | RegExp, path: string): Step =>
  ask(`{ author(where: ${where}) { id } }`, invalid(error, path))
const ordered = (order: string, ...ids: readonly number[]): Step =>
  ask(`{ article(order_by: ${order}, where: {id: {_lt: 5}}) { id } }`, data({ article: ids.map((id) => ({ id })) }))
const WHERE_ARGS = (table: string) => `(where: ${table}_bool_exp, limit: Int, offset: Int, order_by: [String])`

/** In order: later ones see what earlier ones left. */
const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'schema.endpoint': [schema(/^\S[\s\S]*type query_root/)],
  'schema.admin': [
    {
      path: '/v1alpha1/graphql/schema',
      method: 'GET',
      as: ANN,
      expected: refused('access-denied', 'only the role admin may do this', '$'),
    },
    {
      path: '/v1alpha1/graphql/schema',
      method: 'GET',
      bare: true,
      expected: refused('access-denied', 'only the role admin may do this', '$'),
    },
  ],
  'schema.query-root': ['article', 'author'].map((table) =>
    inBlock('type query_root', `${table}${WHERE_ARGS(table)}: [${table}]`),
  ),
  'schema.mutation-root': ['article', 'author'].flatMap((table) =>
    [
      `insert_${table}(objects: [${table}_input!]!): ${table}_mutation_response`,
      `update_${table}(where: ${table}_bool_exp!, _set: ${table}_input!): ${table}_mutation_response`,
      `delete_${table}(where: ${table}_bool_exp!): ${table}_mutation_response`,
    ].map((line) => inBlock('type mutation_root', line)),
  ),
  'schema.response': [block('type author_mutation_response', ['affected_rows: Int!', 'returning: [author]!'])],
  'schema.input': [
    block('input author_input', [
      'id: Int',
      'name: String',
      'code: String',
      'age: Int',
      'big: bigint',
      'num: numeric',
      'made: timestamptz',
      'born: date',
      'uid: uuid',
      'flag: Boolean',
      'tags: [String]',
      'data: jsonb',
      'doc: json',
    ]),
    noSchema(/_insert_input/),
    noSchema(/_set_input/),
  ],
  'schema.relationship': [
    block('type author', [
      'id: Int',
      'name: String',
      'code: String',
      'age: Int',
      'big: bigint',
      'num: numeric',
      'made: timestamptz',
      'born: date',
      'uid: uuid',
      'flag: Boolean',
      'tags: [String]',
      'data: jsonb',
      'doc: json',
      `articles${WHERE_ARGS('article')}: [article]`,
      `pets${WHERE_ARGS('pet')}: [pet]`,
    ]),
    schema(/type article \{[^}]*\n {2}author: author\n/),
  ],
  'schema.bool-exp': [
    schema(
      /input article_bool_exp \{\n {2}_and: \[article_bool_exp\]\n {2}_not: article_bool_exp\n {2}_or: \[article_bool_exp\]\n {2}author: author_bool_exp\n {2}id: integer_comparison_exp\n/,
    ),
    schema(/input author_bool_exp \{[^}]* articles: article_bool_exp\n/),
  ],
  'schema.comparison': [
    ...['_eq', '_neq', '_gt', '_lt', '_gte', '_lte'].map((op) =>
      schema(new RegExp(`input integer_comparison_exp \\{[^}]*\\n  ${op}: Int\\n`)),
    ),
    ...['_in', '_nin'].map((op) =>
      schema(new RegExp(`input integer_comparison_exp \\{[^}]*\\n  ${op}: \\[Int!?\\]\\n`)),
    ),
    ...['_eq', '_like', '_nlike', '_ilike', '_nilike', '_similar', '_nsimilar'].map((op) =>
      schema(new RegExp(`input text_comparison_exp \\{[^}]*\\n  ${op}: String\\n`)),
    ),
    ...['boolean', 'real', 'varchar', 'bigint', 'numeric', 'timestamptz', 'jsonb'].map((type) =>
      schema(new RegExp(`input ${type}_comparison_exp \\{[^}]*\\n  _is_null: Boolean\\n`)),
    ),
  ],
  'schema.public': [noSchema(/thing/)],
  'schema.tracked': [
    noSchema(/untracked/),
    ask(
      '{ untracked { id } }',
      invalid('field "untracked" not found in type: \'query_root\'', '$.selectionSet.untracked'),
    ),
  ],
  'schema.view': [
    schema(/delete_body\(/),
    noSchema(/delete_bodies\(/),
    query('delete', { table: 'bodies', where: {} }, refused('unexpected-payload', '"bodies" does not support deletes')),
    query('insert', { table: 'note', objects: [{ id: 1 }, { id: 2 }] }, is({ affected_rows: 2 })),
    query('delete', { table: 'body', where: {} }, is({ affected_rows: 2 })),
  ],
  'schema.generated': [schema(/type article \{[^}]*twice: Int/), noSchema(/input article_input \{[^}]*twice/)],
  'select.all': [ask('{ author { id } }', data({ author: [{ id: 1 }, { id: 2 }, { id: 3 }] }))],
  'select.alias': [ask('{ all: author(limit: 1) { number: id } }', text('{"data":{"all":[{"number":1}]}}'))],
  'select.limit-offset': [
    ask('{ author(order_by: ["+id"], limit: 1, offset: 1) { id } }', data({ author: [{ id: 2 }] })),
  ],
  'select.null-arguments': [
    ask(
      '{ author(where: null, limit: null, offset: null, order_by: null) { id } }',
      data({ author: [{ id: 1 }, { id: 2 }, { id: 3 }] }),
    ),
  ],
  'select.negative': [
    ask('{ author(limit: -1) { id } }', invalid(/non-negative/, '$.selectionSet.author.args.limit')),
    ask('{ author(offset: -1) { id } }', invalid(/non-negative/, '$.selectionSet.author.args.offset')),
  ],
  'select.several': [
    ask(
      '{ a: author(limit: 1) { id } b: author(offset: 2) { id } article(limit: 0) { id } }',
      data({ a: [{ id: 1 }], b: [{ id: 3 }], article: [] }),
    ),
  ],
  'select.empty': [authors('{id: {_eq: 99}}')],
  'where.eq': [authors('{name: {_eq: "Ann"}}', 1)],
  'where.neq': [authors('{name: {_neq: "Ann"}}', 2)],
  'where.order': [
    authors('{age: {_gt: 30}}', 3),
    authors('{age: {_lt: 50}}', 1),
    authors('{age: {_gte: 30}}', 1, 3),
    authors('{age: {_lte: 30}}', 1),
  ],
  'where.in': [
    authors('{id: {_in: [1, 3]}}', 1, 3),
    authors('{id: {_nin: [1]}}', 2, 3),
    authors('{id: {_in: []}}'),
    authors('{id: {_nin: []}}', 1, 2, 3),
  ],
  'where.like': [
    authors('{name: {_like: "A%"}}', 1),
    authors('{name: {_nlike: "A%"}}', 2),
    authors('{name: {_ilike: "B%"}}', 2),
    authors('{code: {_nilike: "A"}}', 2),
  ],
  'where.similar': [authors('{name: {_similar: "(Ann|Bob)"}}', 1, 2), authors('{name: {_nsimilar: "A%"}}', 2)],
  'where.is-null': [authors('{name: {_is_null: true}}', 3), authors('{name: {_is_null: false}}', 1, 2)],
  'where.jsonb': [
    ask('query ($j: jsonb) { author(where: {data: {_contains: $j}}) { id } }', data({ author: [{ id: 2 }] }), {
      variables: { j: { k: 2 } },
    }),
  ],
  'where.several': [authors('{id: {_gt: 1, _lt: 3}}', 2), authors('{id: {_gt: 1}, age: {_eq: 50}}', 3)],
  'where.combinators': [
    authors('{_or: [{id: {_eq: 1}}, {_and: [{id: {_gt: 1}}, {_not: {age: {_eq: 50}}}]}]}', 1),
    authors('{_not: {id: {_eq: 1}}}', 2, 3),
  ],
  'where.combinators-empty': [authors('{_and: []}', 1, 2, 3), authors('{_or: []}'), authors('{}', 1, 2, 3)],
  'where.relationship': [
    authors('{articles: {rating: {_gt: 50}}}', 2),
    ask(
      '{ article(where: {author: {name: {_eq: "Bob"}}}, order_by: "id") { id } }',
      data({ article: [{ id: 2 }, { id: 4 }, { id: 6 }] }),
    ),
  ],
  'where.one-for-list': [authors('{id: {_in: 1}}', 1), authors('{_or: {id: {_eq: 2}}}', 2)],
  'where.null': [
    wrongWhere('{id: {_eq: null}}', /unexpected null value/, '$.selectionSet.author.args.where.id._eq'),
    ask('mutation { delete_author(where: {id: {_eq: null}}) { affected_rows } }', invalid(/unexpected null value/)),
    counted('author', 3),
  ],
  'where.null-variable': [{}, { x: null }].flatMap((variables) => [
    ask(
      'query ($x: Int) { author(where: {id: {_eq: $x}}) { id } }',
      invalid(/unexpected null value/, '$.selectionSet.author.args.where.id._eq'),
      { variables },
    ),
    ask(
      'mutation ($x: Int) { delete_author(where: {id: {_eq: $x}}) { affected_rows } }',
      invalid(/unexpected null value/),
      { variables },
    ),
    ask(
      'mutation ($x: Int) { update_author(where: {id: {_eq: $x}}, _set: {age: 1}) { affected_rows } }',
      invalid(/unexpected null value/),
      { variables },
    ),
    counted('author', 3),
  ]),
  'where.null-in-list': [
    wrongWhere('{id: {_in: [1, null]}}', /null/i, '$.selectionSet.author.args.where.id._in'),
    wrongWhere('{id: {_in: null}}', /unexpected null value/, '$.selectionSet.author.args.where.id._in'),
  ],
  'where.unknown-operator': [
    wrongWhere(
      '{id: {_nope: 1}}',
      'field "_nope" not found in type: \'integer_comparison_exp\'',
      '$.selectionSet.author.args.where.id._nope',
    ),
  ],
  'where.text-on-number': [
    wrongWhere(
      '{id: {_like: "1"}}',
      'field "_like" not found in type: \'integer_comparison_exp\'',
      '$.selectionSet.author.args.where.id._like',
    ),
  ],
  'order.plus': [
    ordered('["+id"]', 1, 2, 3, 4),
    ask(
      '{ article(order_by: ["+author_id"], where: {id: {_in: [2, 3]}}) { id } }',
      data({ article: [{ id: 3 }, { id: 2 }] }),
    ),
  ],
  'order.minus': [ordered('["-id"]', 4, 3, 2, 1)],
  'order.plain': [ordered('["id"]', 1, 2, 3, 4)],
  'order.several': [ordered('["+author_id", "-rating"]', 3, 1, 4, 2)],
  'order.text': [ordered('"-id"', 4, 3, 2, 1)],
  'order.relationship': [ordered('["-author.name", "+id"]', 2, 4, 1, 3), ordered('["+author.name", "id"]', 1, 3, 2, 4)],
  'order.unknown': [
    ask('{ author(order_by: ["+id", "+nope"]) { id } }', invalid(/nope/, '$.selectionSet.author.args.order_by[1]')),
  ],
  'order.form': [
    ask('{ author(order_by: ["* id"]) { id } }', invalid(/./, '$.selectionSet.author.args.order_by[0]')),
    ask('{ author(order_by: [""]) { id } }', invalid(/./, '$.selectionSet.author.args.order_by[0]')),
    ask('{ author(order_by: [{id: asc}]) { id } }', invalid(/String/)),
  ],
  'order.array-relationship': [
    ask(
      '{ author(order_by: ["articles.id"]) { id } }',
      invalid(/array relationship/, '$.selectionSet.author.args.order_by[0]'),
    ),
  ],
  'order.variable': [
    ask('query ($o: [String]) { author(order_by: $o, limit: 1) { id } }', data({ author: [{ id: 3 }] }), {
      variables: { o: ['-id'] },
    }),
    ask('query ($o: String) { author(order_by: [$o], limit: 1) { id } }', data({ author: [{ id: 3 }] }), {
      variables: { o: '-id' },
    }),
  ],
  'relationship.object': [
    ask(
      '{ article(where: {id: {_gt: 4}}, order_by: "id") { author { name } } }',
      data({ article: [{ author: { name: 'Ann' } }, { author: { name: 'Bob' } }, { author: null }] }),
    ),
  ],
  'relationship.object-arguments': [
    ask(
      '{ article { author(limit: 1) { name } } }',
      invalid('no such argument "limit" is expected', '$.selectionSet.article.selectionSet.author.args.limit'),
    ),
  ],
  'relationship.array': [
    ask(
      '{ author(where: {id: {_eq: 1}}) { articles(order_by: ["+rating"]) { id } a: articles(where: {id: {_gt: 2}}) { id } b: articles(order_by: "-id", limit: 1) { id } c: articles(order_by: "id", offset: 1) { id } } }',
      data({
        author: [
          {
            articles: [{ id: 1 }, { id: 3 }, { id: 5 }],
            a: [{ id: 3 }, { id: 5 }],
            b: [{ id: 5 }],
            c: [{ id: 3 }, { id: 5 }],
          },
        ],
      }),
    ),
  ],
  'relationship.deep': [
    ask(
      '{ author(where: {id: {_eq: 2}}) { articles(limit: 1, order_by: "id") { author { articles(limit: 1, order_by: "-id") { id } } } } }',
      data({ author: [{ articles: [{ author: { articles: [{ id: 6 }] } }] }] }),
    ),
  ],
  'insert.rows': [
    ask(
      'mutation { insert_author(objects: [{id: 10, name: "Dan"}, {id: 11}]) { affected_rows } }',
      text('{"data":{"insert_author":{"affected_rows":2}}}'),
    ),
  ],
  'insert.returning': [
    ask(
      'mutation { insert_article(objects: [{id: 11, author_id: 10}, {id: 10, author_id: 10}]) { returning { id author { name } } affected_rows } }',
      text(
        '{"data":{"insert_article":{"returning":[{"id":11,"author":{"name":"Dan"}},{"id":10,"author":{"name":"Dan"}}],"affected_rows":2}}}',
      ),
    ),
  ],
  'insert.default': [
    ask(
      'mutation { insert_article(objects: [{id: 12}, {id: 13, title: "t"}]) { returning { title published } } }',
      data({
        insert_article: {
          returning: [
            { title: 'untitled', published: false },
            { title: 't', published: false },
          ],
        },
      }),
    ),
  ],
  'insert.null': [
    ask(
      'mutation { insert_author(objects: [{id: 12, name: null}]) { returning { name } } }',
      data({ insert_author: { returning: [{ name: null }] } }),
    ),
    ask(
      'mutation { insert_article(objects: [{id: 14, title: null}]) { affected_rows } }',
      fails('postgres-error', /^Not-NULL violation/),
    ),
  ],
  'insert.one': [
    ask(
      'mutation { insert_author(objects: {id: 13}) { affected_rows } }',
      data({ insert_author: { affected_rows: 1 } }),
    ),
  ],
  'insert.empty': [
    ask(
      'mutation { insert_author(objects: []) { affected_rows } }',
      invalid('objects should not be empty', '$.selectionSet.insert_author.args.objects'),
    ),
  ],
  'insert.required': [
    ask(
      'mutation { insert_author { affected_rows } }',
      invalid('the required argument "objects" is missing', '$.selectionSet.insert_author'),
    ),
    ask(
      'mutation { insert_author(objects: null) { affected_rows } }',
      invalid(/null/, '$.selectionSet.insert_author.args.objects'),
    ),
  ],
  'insert.variable': [
    ask(
      'mutation ($o: [author_input!]!) { insert_author(objects: $o) { returning { id data tags } } }',
      data({ insert_author: { returning: [{ id: 14, data: { x: [1] }, tags: ['p'] }] } }),
      { variables: { o: [{ id: 14, data: { x: [1] }, tags: ['p'] }] } },
    ),
    ask(
      'mutation ($n: String) { insert_author(objects: [{id: 15, name: $n}]) { returning { name } } }',
      data({ insert_author: { returning: [{ name: 'v' }] } }),
      { variables: { n: 'v' } },
    ),
  ],
  'insert.unknown-column': [
    ask(
      'mutation { insert_author(objects: [{id: 16, nope: 1}]) { affected_rows } }',
      invalid('field "nope" not found in type: \'author_input\'', '$.selectionSet.insert_author.args.objects[0].nope'),
    ),
    ask(
      'mutation ($o: [author_input!]!) { insert_author(objects: $o) { affected_rows } }',
      { status: 400, like: { errors: [{ error: /"nope"/ }] } },
      { variables: { o: [{ id: 16, nope: 1 }] } },
    ),
    ask(
      'mutation { insert_article(objects: [{id: 16, twice: 1}]) { affected_rows } }',
      invalid('field "twice" not found in type: \'article_input\''),
    ),
  ],
  'update.set': [
    ask(
      'mutation { update_author(where: {id: {_eq: 10}}, _set: {name: "Eve", age: 7}) { affected_rows returning { id name age } } }',
      data({ update_author: { affected_rows: 1, returning: [{ id: 10, name: 'Eve', age: 7 }] } }),
    ),
  ],
  'update.variable': [
    ask(
      'mutation ($n: String, $s: author_input!) { update_author(where: {name: {_eq: $n}}, _set: $s) { affected_rows __typename } }',
      data({ update_author: { affected_rows: 1, __typename: 'author_mutation_response' } }),
      { variables: { n: 'Eve', s: { age: 7 } } },
    ),
  ],
  'update.null': [
    ask(
      'mutation { update_author(where: {id: {_eq: 10}}, _set: {age: null}) { returning { name age } } }',
      data({ update_author: { returning: [{ name: 'Eve', age: null }] } }),
    ),
  ],
  'update.empty': [
    ask(
      'mutation { update_author(where: {}, _set: {}) { affected_rows } }',
      invalid(/./, /^\$\.selectionSet\.update_author/),
    ),
  ],
  'update.required': [
    ask(
      'mutation { update_author(where: {}) { affected_rows } }',
      invalid('the required argument "_set" is missing', '$.selectionSet.update_author'),
    ),
    ask(
      'mutation { update_author(_set: {age: 1}) { affected_rows } }',
      invalid('the required argument "where" is missing', '$.selectionSet.update_author'),
    ),
  ],
  'update.all': [
    ask(
      'mutation { update_author(where: {}, _set: {tags: ["all"]}) { affected_rows } }',
      data({ update_author: { affected_rows: 9 } }),
    ),
  ],
  'delete.rows': [
    ask(
      'mutation { delete_article(where: {id: {_in: [10, 11]}}) { affected_rows returning { id author { name } } } }',
      data({
        delete_article: {
          affected_rows: 2,
          returning: [
            { id: 11, author: { name: 'Eve' } },
            { id: 10, author: { name: 'Eve' } },
          ],
        },
      }),
    ),
    ask(
      'mutation { a: delete_article(where: {id: {_gt: 9}}) { affected_rows } b: delete_author(where: {id: {_gt: 9}}) { affected_rows } }',
      data({ a: { affected_rows: 2 }, b: { affected_rows: 6 } }),
    ),
  ],
  'delete.required': [
    ask(
      'mutation { delete_author { affected_rows } }',
      invalid('the required argument "where" is missing', '$.selectionSet.delete_author'),
    ),
    counted('author', 3),
  ],
  'mutation.order': [
    ask(
      'mutation { z: insert_author(objects: {id: 20, name: "z"}) { affected_rows } a: update_author(where: {id: {_eq: 20}}, _set: {name: "a"}) { returning { name } } b: delete_author(where: {name: {_eq: "a"}}) { returning { id } } }',
      text('{"data":{"z":{"affected_rows":1},"a":{"returning":[{"name":"a"}]},"b":{"returning":[{"id":20}]}}}'),
    ),
  ],
  'mutation.atomic': [
    ask(
      'mutation { a: insert_author(objects: {id: 20}) { affected_rows } b: insert_author(objects: {id: 20}) { affected_rows } }',
      fails('postgres-error', /^Uniqueness violation/),
    ),
    ask(
      'mutation { a: insert_author(objects: {id: 20}) { affected_rows } b: insert_article(objects: {id: 90, author_id: 999}) { affected_rows } }',
      fails('postgres-error', /^Foreign key violation/),
    ),
    counted('author', 3),
  ],
  'mutation.no-match': [
    ask(
      'mutation { update_author(where: {id: {_eq: 99}}, _set: {age: 1}) { affected_rows returning { id } } }',
      data({ update_author: { affected_rows: 0, returning: [] } }),
    ),
  ],
  'permission.default': [
    ask('{ author { id } }', invalid('field "author" not found in type: \'query_root\''), { as: ANN }),
    ask(
      'mutation { insert_author(objects: {id: 9}) { affected_rows } }',
      invalid('field "insert_author" not found in type: \'mutation_root\''),
      { as: ANN },
    ),
  ],
  'permission.unknown-role': [
    ask('{ article { id } }', invalid('field "article" not found in type: \'query_root\''), { as: NOBODY }),
    ask('mutation { delete_article(where: {}) { affected_rows } }', invalid('no mutations exist', '$.query'), {
      as: NOBODY,
    }),
    ask('{ __typename }', data({ __typename: 'query_root' }), { as: NOBODY }),
  ],
  'permission.anonymous': [
    { ...ask('{ article { id } }', invalid('field "article" not found in type: \'query_root\'')), bare: true },
  ],
  'permission.role-not-held': [
    {
      ...ask('{ article { id } }', refused('access-denied', /user/, '$', 403)),
      bare: true,
      headers: { 'x-service-role': 'user' },
    },
  ],
  'permission.filter': [
    ask('{ article(order_by: "id") { id } }', data({ article: [{ id: 1 }, { id: 3 }, { id: 5 }] }), { as: ANN }),
  ],
  'permission.columns': [
    ask('{ article { id rating } }', invalid('field "rating" not found in type: \'article\''), { as: ANN }),
  ],
  'permission.where': [
    ask(
      '{ article(where: {rating: {_gt: 1}}) { id } }',
      invalid('field "rating" not found in type: \'article_bool_exp\''),
      { as: ANN },
    ),
  ],
  'permission.order': [
    ask(
      '{ article(order_by: "rating") { id } }',
      { status: 400, like: { errors: [{ error: /rating/ }] } },
      { as: ANN },
    ),
  ],
  'permission.relationship': [
    ask('{ article { author { id } } }', invalid('field "author" not found in type: \'article\''), { as: ANN }),
    ask(
      '{ article(order_by: "author.id") { id } }',
      { status: 400, like: { errors: [{ error: /author/ }] } },
      { as: ANN },
    ),
  ],
  'permission.related-filter': [
    ask(
      '{ author(order_by: "id") { id articles { id } } }',
      data({
        author: [
          { id: 1, articles: [{ id: 1 }, { id: 3 }] },
          { id: 2, articles: [] },
          { id: 3, articles: [] },
        ],
      }),
      { as: READER },
    ),
    ask('{ author(where: {articles: {id: {_gt: 0}}}) { id } }', data({ author: [{ id: 1 }] }), { as: READER }),
  ],
  'permission.limit': [
    ask('{ article(limit: 5, order_by: "id") { id } }', data({ article: [{ id: 1 }, { id: 3 }] }), { as: READER }),
  ],
  'permission.insert': [
    ask(
      'mutation { insert_article(objects: {id: 30, author_id: 2}) { affected_rows } }',
      fails('postgres-error', /^the row would not pass the insert check of role "\w+" on "\w+"$/),
      { as: ANN },
    ),
    ask(
      'mutation { insert_article(objects: {id: 30, author_id: 1, published: false}) { affected_rows } }',
      data({ insert_article: { affected_rows: 1 } }),
      { as: ANN },
    ),
  ],
  'permission.update': [
    ask(
      'mutation { update_article(where: {}, _set: {title: "mine"}) { affected_rows } }',
      data({ update_article: { affected_rows: 4 } }),
      { as: ANN },
    ),
  ],
  'permission.update-column': [
    ask(
      'mutation { update_article(where: {}, _set: {rating: 1}) { affected_rows } }',
      fails('permission-denied', /"rating"/),
      { as: ANN },
    ),
  ],
  'permission.returning': [
    ask(
      'mutation { update_article(where: {id: {_in: [3, 4, 30]}}, _set: {title: "mine"}) { affected_rows returning { id } } }',
      data({ update_article: { affected_rows: 2, returning: [{ id: 3 }] } }),
      { as: ANN },
    ),
    ask(
      'mutation { insert_article(objects: [{id: 31, author_id: 1}, {id: 32, author_id: 1, published: true}]) { affected_rows returning { id } } }',
      data({ insert_article: { affected_rows: 2, returning: [{ id: 32 }] } }),
      { as: ANN },
    ),
  ],
  'permission.no-delete': [
    ask(
      'mutation { delete_article(where: {}) { affected_rows } }',
      invalid('field "delete_article" not found in type: \'mutation_root\''),
      { as: ANN },
    ),
  ],
  'permission.no-mutations': [
    ask('mutation { delete_article(where: {}) { affected_rows } }', invalid('no mutations exist', '$.query'), {
      as: READER,
    }),
  ],
  'permission.session': [
    ask(
      'mutation { update_article(where: {}, _set: {title: "x"}) { affected_rows } }',
      fails('not-found', 'x-service-user-id header is expected but not found'),
      { as: { role: 'user' } },
    ),
  ],
  'database.unique': [
    ask(
      'mutation { insert_author(objects: {id: 1}) { affected_rows } }',
      fails(
        'postgres-error',
        'Uniqueness violation. duplicate key value violates unique constraint "author_pkey"',
        /^\$\.selectionSet\.insert_author/,
      ),
    ),
  ],
  'database.check': [
    ask(
      'mutation { insert_article(objects: {id: 1000}) { affected_rows } }',
      fails('postgres-error', /^Check constraint violation\. /),
    ),
  ],
  'database.value': [
    wrongWhere(
      '{made: {_gt: "yesteryear"}}',
      /invalid input syntax for type timestamp/,
      '$.selectionSet.author.args.where.made._gt',
    ),
  ].map((step) => ({ ...step, expected: fails('postgres-error', /invalid input syntax/) })),
  'numbers.out': [
    ask(
      '{ author(where: {id: {_eq: 1}}) { big num } }',
      text('{"data":{"author":[{"big":9007199254740993,"num":1.10}]}}'),
    ),
  ],
  'numbers.in': [
    authors('{big: {_eq: 9007199254740993}}', 1),
    authors('{big: {_eq: 9007199254740992}}'),
    body(
      '{"query": "query ($b: bigint) { author(where: {big: {_eq: $b}}) { id } }", "variables": {"b": 9007199254740993}}',
      data({ author: [{ id: 1 }] }),
    ),
  ],
  'schema.valid': async (t, server) => {
    t.ok(buildSchema((await server.fetch('/v1alpha1/graphql/schema')).body.schema))
  },
}

/** Its promises, with a case for each. */
export const graphqlAlpha = area('graphql-alpha', {
  promises: PROMISES,
  cases: CASES,
  start,
  pages: {
    'plugins/graphql/README.md': {
      GraphQL: {
        '`POST /v1alpha1/graphql`': ['select.all', 'mutation.atomic'],
        '`GET /v1alpha1/graphql/schema`': ['schema.endpoint', 'schema.admin'],
      },
    },
  },
})

async function start(t: Test) {
  const server = await testServer(t)
  const own = { author_id: 'X-SERVICE-USER-ID' }
  await setUpLibrary(server, [
    { type: 'run_sql', args: { sql: SQL } },
    ...['body', 'bodies', { schema: 'other', name: 'thing' }].map((args) => ({ type: 'track_table', args })),
    permit('select', 'article', 'user', { columns: ['id', 'title'], filter: { published: true } }),
    permit('insert', 'article', 'user', { check: own }),
    permit('update', 'article', 'user', { columns: ['title'], filter: own }),
    permit('select', 'article', 'reader', { columns: ['id'], filter: { published: true }, limit: 2 }),
    permit('select', 'author', 'reader', { columns: ['id'], filter: {} }),
  ])
  return server
}
