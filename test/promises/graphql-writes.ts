import type { Test } from 'tap'
import { counted, data, fails, invalid, modern as ask, rawTo } from '../kit/graphql-steps.js'
import { permit, setUpLibrary } from '../kit/library.js'
import { area, type Case, type Expected, refused, type Step, text } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** What mutations of `/v1/graphql` promise. */
const PROMISES = {
  'insert.rows': 'rows are inserted, counted and returned in their order',
  'insert.one': 'insert_t_one returns the row',
  'insert.default': 'a missing column takes its default, null is null',
  'insert.nothing': 'no rows are 0 affected rows',
  'insert.variable': 'values, rows and lists of rows may come as variables',
  'insert.required': 'objects are required',
  'insert.unknown': 'an unknown column, a generated one and a value of another type are refused',
  'write.digits': 'numbers keep their digits, in documents, in variables and their defaults',
  'conflict.ignore': 'on_conflict without update_columns leaves the row as it is, and does not count it',
  'conflict.update': 'on_conflict updates the given columns only',
  'conflict.where': 'on_conflict updates rows that fulfil its condition only',
  'conflict.other': 'a conflict with another constraint fails, and an unknown constraint is refused',
  'nested.down': 'rows are inserted with the rows that reference them, over several levels',
  'nested.up': 'rows are inserted with the rows that they reference',
  'nested.conflict': 'related rows have an on_conflict of their own',
  'nested.conflict-where': 'which has a condition: a row that it skips cannot have rows',
  'nested.wrong': 'a mistake in a related row has its path',
  'nested.determined': 'a column that the relationship determines takes no value',
  'nested.atomic': 'if a related row fails, nothing is inserted',
  'nested.permission': 'the permissions of every table apply to related rows',
  'nested.check': 'a check sees the related rows that were inserted with the row',
  'update.set': '_set changes the rows of the condition, and returns them',
  'update.inc': '_inc adds',
  'update.append': '_append and _prepend add to jsonb',
  'update.delete-key': '_delete_key, _delete_elem and _delete_at_path remove from jsonb',
  'update.by-key': 'update_t_by_pk changes one row, and is null if it does not exist',
  'update.many': 'update_t_many makes several updates in order',
  'update.nothing': 'an empty operator affects 0 rows; without any operator the update is refused',
  'update.twice': 'a column is assigned once',
  'update.required': 'where is required, and {} is every row',
  'update.variable': 'operators may come as variables',
  'update.within': 'a literal may contain variables of all types that the schema has',
  'delete.rows': 'delete_t deletes the rows of its condition and returns them',
  'delete.by-key': 'delete_t_by_pk deletes one row, and is null if it does not exist',
  'delete.required': 'where is required, and null in it is refused',
  'mutation.order': 'the fields of a mutation run in order',
  'mutation.atomic': 'a request is one transaction',
  'mutation.included': 'what @include and @skip leave out does not run, in fragments, too',
  'mutation.returning-twice': 'returning may be selected under several names',
  'mutation.returning': 'returning reads relationships and aggregates after the write',
  'permission.insert-check': 'a row that fails the check of a role is refused',
  'permission.insert-columns': 'a role gives values to the columns of its permission only',
  'permission.preset': 'a preset column has the value of the permission, and takes none of the client',
  'permission.insert-one': 'without select permission there is no insert_t_one, and no returning',
  'permission.conflict': 'without update permission on_conflict can only leave the row as it is',
  'permission.conflict-filter': 'on_conflict updates only rows of the update filter',
  'permission.update-filter': 'rows outside of the update filter stay as they are',
  'permission.update-columns': 'a role updates the columns of its permission only',
  'permission.update-check': 'an updated row that fails the check is refused',
  'permission.where': 'a condition needs select permission, and {} does not',
  'permission.delete-filter': 'rows outside of the delete filter stay',
  'permission.missing': 'without a permission the field does not exist',
  'permission.returning': 'affected_rows counts rows that the role may not see; returning leaves them out',
  'permission.hidden-one': 'a row that was inserted and is not visible is null',
  'error.unique': 'a duplicate is a constraint-violation with the path of its field',
  'error.constraints':
    'so are a missing value and a missing reference; a failed check of the table is a permission-error',
  'error.value': 'a value that PostgreSQL cannot read is a data-exception',
  'error.internal': 'only an admin sees the details of PostgreSQL',
  'error.nothing': 'a request that fails changes nothing',
  'dry.body': '"dry_run": true runs a mutation and rolls it back',
  'dry.header': 'so does the header Prefer: tx=rollback',
  'key.again': 'a mutation with the same Idempotency-Key happens once, and gets the same answer',
  'key.reused': 'the key of another request is 409, in the form of the data service',
  'key.batch': 'a batch takes neither a key nor a dry run',
  'if-match.refused': 'If-Match is refused',
} as const

const SQL = `
create table writer (id serial primary key, name text not null unique, age int);
create table book (id serial primary key, title text not null unique, writer_id int not null references writer, due date);
create table tag (book_id int not null references book, name text not null, primary key (book_id, name));
create view noted as select id, body from note;
create table strict (id int primary key, name text not null, pet_id int references pet, check (id > 0));`

const raw = rawTo('/v1/graphql')
const ANN: As = { role: 'user', variables: { 'x-service-user-id': '1' } }
const BLIND: As = { role: 'blind', variables: { 'x-service-user-id': '1' } }
const INSERTER: As = { role: 'inserter', variables: { 'x-service-user-id': '1' } }

/** Two notes: the first one of Ann. */
const reset = ask(
  'mutation ($o: [note_insert_input!]!) { delete_note(where: {}) { __typename } insert_note(objects: $o) { affected_rows } }',
  data({ delete_note: { __typename: 'note_mutation_response' }, insert_note: { affected_rows: 2 } }),
  {
    variables: {
      o: [
        { id: 1, body: 'one', n: 5, data: { a: 1, b: { c: [1, 2] } }, owner: 1 },
        { id: 2, body: 'two', n: 6, data: ['x', 'y', 'z'], owner: 2 },
      ],
    },
  },
)
const ONE = { id: 1, body: 'one', n: 5, owner: 1 }
const TWO = { id: 2, body: 'two', n: 6, owner: 2 }
const notes = (...rows: readonly object[]): Step =>
  ask('{ note(order_by: {id: asc}) { id body n owner } }', data({ note: rows }))
const unchanged = notes(ONE, TWO)
const write = (fields: string, expected: object, as?: As): Step =>
  ask(`mutation { ${fields} }`, data(expected), as ? { as } : {})
const wrong = (fields: string, message: string | RegExp, path?: string | RegExp, as?: As): Step =>
  ask(`mutation { ${fields} }`, invalid(message, path), as ? { as } : {})
const denied = (fields: string, as: As): Step =>
  ask(`mutation { ${fields} }`, fails('permission-error', /^the row would not pass the (insert|update) check/), { as })
/** Inserts a tag of a book of a writer who exists. */
const upsertWriter = (where: object, expected: Expected): Step => {
  const on_conflict = { constraint: 'writer_name_key', update_columns: ['age'], where }
  const book = { data: { title: 'up', writer: { data: { name: 'Dan', age: 99 }, on_conflict } } }
  return ask(
    'mutation ($o: tag_insert_input!) { insert_tag_one(object: $o) { book { writer { name age } } } }',
    expected,
    { variables: { o: { name: 'up', book } } },
  )
}
const strict = (object: string, expected: Expected): Step =>
  ask(`mutation { insert_strict(objects: ${object}) { affected_rows } }`, expected)
const affected = (count: number) => ({ affected_rows: count })
const json = (operator: string, value: unknown, id = 1): readonly Step[] => [
  reset,
  write(`update_note_by_pk(pk_columns: {id: ${id}}, ${operator}) { data }`, { update_note_by_pk: { data: value } }),
]
const books =
  'writer_aggregate { aggregate { count } } book_aggregate { aggregate { count } } tag_aggregate { aggregate { count } }'
const shelves = (writers: number, titles: number, tags: number): Step =>
  ask(
    `{ ${books} }`,
    data({
      writer_aggregate: { aggregate: { count: writers } },
      book_aggregate: { aggregate: { count: titles } },
      tag_aggregate: { aggregate: { count: tags } },
    }),
  )

/** In order: later ones see what earlier ones left. */
const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'insert.rows': [
    reset,
    ask(
      'mutation { insert_note(objects: [{id: 4, body: "four"}, {id: 3, body: "three", n: 1}]) { returning { id body n } affected_rows } }',
      text(
        '{"data":{"insert_note":{"returning":[{"id":4,"body":"four","n":null},{"id":3,"body":"three","n":1}],"affected_rows":2}}}',
      ),
    ),
    counted('note', 4),
    write('insert_note(objects: {id: 5}) { affected_rows }', { insert_note: affected(1) }),
  ],
  'insert.one': [
    reset,
    write('insert_note_one(object: {id: 3, body: "x"}) { id body }', { insert_note_one: { id: 3, body: 'x' } }),
    counted('note', 3),
  ],
  'insert.default': [
    write('insert_article_one(object: {id: 20, rating: null}) { title published rating twice }', {
      insert_article_one: { title: 'untitled', published: false, rating: null, twice: 40 },
    }),
    write('insert_article(objects: [{id: 21, title: "t"}, {id: 22}]) { returning { title } }', {
      insert_article: { returning: [{ title: 't' }, { title: 'untitled' }] },
    }),
  ],
  'insert.nothing': [
    reset,
    write('insert_note(objects: []) { affected_rows returning { id } }', {
      insert_note: { affected_rows: 0, returning: [] },
    }),
    write(
      'insert_note(objects: []) { n: affected_rows rows: returning { id } __typename }',
      { insert_note: { n: 0, rows: [], __typename: 'note_mutation_response' } },
      ANN,
    ),
    write('insert_noted(objects: []) { affected_rows }', { insert_noted: affected(0) }),
    ...[[], [{ id: 3 }]].map((o) =>
      ask(
        'mutation ($o: [note_insert_input!]!) { insert_note(objects: $o, on_conflict: {constraint: note_pkey, update_columns: [n]}) { affected_rows returning { id } } }',
        data({ insert_note: { affected_rows: o.length, returning: o } }),
        { variables: { o } },
      ),
    ),
  ],
  'insert.variable': [
    reset,
    ask(
      'mutation ($o: note_insert_input!, $b: String) { a: insert_note_one(object: $o) { id data } b: insert_note_one(object: {id: 8, body: $b}) { body } }',
      data({ a: { id: 7, data: { x: [1, null] } }, b: { body: 'v' } }),
      { variables: { o: { id: 7, data: { x: [1, null] } }, b: 'v' } },
    ),
  ],
  'insert.required': [
    wrong('insert_note { affected_rows }', /objects/, /^\$\.selectionSet\.insert_note/),
    wrong('insert_note(objects: null) { affected_rows }', /null/),
  ],
  'insert.unknown': [
    reset,
    wrong('insert_note(objects: {id: 9, nope: 1}) { affected_rows }', /nope/),
    wrong('insert_article(objects: {id: 30, twice: 1}) { affected_rows }', /twice/),
    wrong('insert_note(objects: {id: "x"}) { affected_rows }', /Int/),
    ask(
      'mutation ($o: [note_insert_input!]!) { insert_note(objects: $o) { affected_rows } }',
      fails('not-exists', 'column "nope" does not exist', '$.selectionSet.insert_note.args.objects[1].nope'),
      { variables: { o: [{ id: 9 }, { id: 10, nope: 1 }] } },
    ),
    unchanged,
  ],
  'write.digits': [
    raw(
      JSON.stringify({
        query:
          'mutation ($b: bigint = 9007199254740995) { insert_author(objects: [{id: 91, big: 9007199254740993, num: 2.50}, {id: 92, big: $b, num: 12345678901234567890.10}]) { returning { big num } } delete_author(where: {id: {_in: [91, 92]}}) { affected_rows } }',
      }),
      text(
        '{"data":{"insert_author":{"returning":[{"big":9007199254740993,"num":2.50},{"big":9007199254740995,"num":12345678901234567890.10}]},"delete_author":{"affected_rows":2}}}',
      ),
    ),
    raw(
      '{"query": "mutation ($o: author_insert_input!) { insert_author_one(object: $o) { big num } update_author_by_pk(pk_columns: {id: 1}, _set: {big: 9007199254740993}, _inc: {num: 0.10}) { big num } }", "variables": {"o": {"id": 10, "big": 9007199254740993, "num": 2.50}}}',
      text(
        '{"data":{"insert_author_one":{"big":9007199254740993,"num":2.50},"update_author_by_pk":{"big":9007199254740993,"num":1.20}}}',
      ),
    ),
    ask(
      'mutation { update_author(where: {big: {_eq: "2"}}, _inc: {big: "1"}) { affected_rows returning { big } } }',
      data({ update_author: { affected_rows: 1, returning: [{ big: '3' }] } }),
      { headers: { 'x-service-digits-as-text': 'true' } },
    ),
  ],
  'conflict.ignore': [
    reset,
    write(
      'insert_note(objects: [{id: 1, body: "new"}, {id: 3}], on_conflict: {constraint: note_pkey, update_columns: []}) { affected_rows returning { id } }',
      { insert_note: { affected_rows: 1, returning: [{ id: 3 }] } },
    ),
    write('insert_note(objects: {id: 1, body: "new"}, on_conflict: {constraint: note_pkey}) { affected_rows }', {
      insert_note: affected(0),
    }),
    notes(ONE, TWO, { id: 3, body: null, n: null, owner: null }),
  ],
  'conflict.update': [
    reset,
    write(
      'insert_note(objects: {id: 1, body: "new", n: 99}, on_conflict: {constraint: note_pkey, update_columns: [body]}) { affected_rows returning { body n } }',
      { insert_note: { affected_rows: 1, returning: [{ body: 'new', n: 5 }] } },
    ),
  ],
  'conflict.where': [
    reset,
    ask(
      'mutation ($c: note_on_conflict) { insert_note(objects: [{id: 1, body: "new"}, {id: 2, body: "new"}], on_conflict: $c) { affected_rows } }',
      data({ insert_note: affected(1) }),
      { variables: { c: { constraint: 'note_pkey', update_columns: ['body'], where: { n: { _gt: 5 } } } } },
    ),
    notes(ONE, { ...TWO, body: 'new' }),
  ],
  'conflict.other': [
    ask(
      'mutation { insert_author(objects: {id: 50, code: "a"}, on_conflict: {constraint: author_pkey, update_columns: [name]}) { affected_rows } }',
      fails('constraint-violation', /author_code_key/),
    ),
    wrong(
      'insert_note(objects: {id: 1}, on_conflict: {constraint: nope, update_columns: []}) { affected_rows }',
      /nope/,
    ),
  ],
  'nested.down': [
    ask(
      'mutation ($o: [writer_insert_input!]!) { insert_writer(objects: $o) { affected_rows returning { name age books(order_by: {title: asc}) { title tags(order_by: {name: asc}) { name } } } } }',
      data({
        insert_writer: {
          affected_rows: 8,
          returning: [
            {
              name: 'Ann',
              age: null,
              books: [
                { title: 'a1', tags: [{ name: 'x' }, { name: 'y' }] },
                { title: 'a2', tags: [] },
              ],
            },
            { name: 'Bob', age: null, books: [] },
            { name: 'Cid', age: 5, books: [{ title: 'c1', tags: [] }] },
          ],
        },
      }),
      {
        variables: {
          o: [
            {
              name: 'Ann',
              books: { data: [{ title: 'a1', tags: { data: [{ name: 'x' }, { name: 'y' }] } }, { title: 'a2' }] },
            },
            { name: 'Bob' },
            { name: 'Cid', age: 5, books: { data: { title: 'c1' } } },
          ],
        },
      },
    ),
    shelves(3, 3, 2),
  ],
  'nested.up': [
    write(
      'insert_tag_one(object: {name: "z", book: {data: {title: "d1", writer: {data: {name: "Dan"}}}}}) { name book { title writer { name } } }',
      { insert_tag_one: { name: 'z', book: { title: 'd1', writer: { name: 'Dan' } } } },
    ),
    shelves(4, 4, 3),
  ],
  'nested.conflict': [
    write(
      'insert_book_one(object: {title: "d2", writer: {data: {name: "Dan", age: 40}, on_conflict: {constraint: writer_name_key, update_columns: [age]}}}) { writer { name age } }',
      { insert_book_one: { writer: { name: 'Dan', age: 40 } } },
    ),
    write(
      'insert_writer_one(object: {name: "Eve", books: {data: [{title: "a1"}, {title: "e1"}], on_conflict: {constraint: book_title_key, update_columns: []}}}) { books { title } }',
      { insert_writer_one: { books: [{ title: 'e1' }] } },
    ),
  ],
  'nested.conflict-where': [
    upsertWriter({ age: { _gt: 50 } }, { status: 200, like: { errors: [{ message: /on_conflict skipped a row/ }] } }),
    upsertWriter({ nothing: { _gt: 50 } }, { status: 200, like: { errors: [{ message: /nothing/ }] } }),
    upsertWriter({ age: 40 }, { status: 200, like: { errors: [{ message: /unexpected literal value/ }] } }),
    upsertWriter(
      { _or: [{ age: { _in: [40, 41] } }] },
      data({ insert_tag_one: { book: { writer: { name: 'Dan', age: 99 } } } }),
    ),
    write(
      'delete_tag(where: {name: {_eq: "up"}}) { affected_rows } delete_book(where: {title: {_eq: "up"}}) { affected_rows }',
      {
        delete_tag: affected(1),
        delete_book: affected(1),
      },
    ),
  ],
  'nested.wrong': (
    [
      [{ books: [] }, /data/, '.books'],
      [{ books: { data: [5] } }, /./, '.books.data'],
      [{ books: { data: [{ nope: 1 }] } }, /nope/, ''],
      [{ books: { data: [{ title: 'q' }, { title: 5 }] } }, /./, '.books.data[1].title'],
      [{ books: { data: [{ title: 'q' }] }, extra: 1 }, /extra/, ''],
      [{ books: { data: [{ title: 'q' }], on_conflict: { constraint: 'nope', update_columns: [] } } }, /nope/, ''],
      [
        { books: { data: [{ title: 'q', tags: { data: { name: 'a', book_id: 1 } } }] } },
        /determines the value of "book_id"/,
        '.books.data[0].tags.data.book_id',
      ],
    ] as const
  ).map(([row, message, path]) =>
    ask(
      'mutation ($o: [writer_insert_input!]!) { insert_writer(objects: $o) { affected_rows } }',
      {
        status: 200,
        like: {
          data: undefined,
          errors: [
            { message, ...(path && { extensions: { path: `$.selectionSet.insert_writer.args.objects[0]${path}` } }) },
          ],
        },
      },
      { variables: { o: [{ name: 'x', ...row }] } },
    ),
  ),
  'nested.determined': [
    wrong(
      'insert_writer(objects: {name: "x", books: {data: [{title: "q"}, {title: "r", writer_id: 1}]}}) { affected_rows }',
      'the relationship "books" determines the value of "writer_id"; leave it out',
      '$.selectionSet.insert_writer.args.objects[0].books.data[1].writer_id',
    ),
    wrong(
      'insert_book(objects: {title: "x", writer_id: 1, writer: {data: {name: "y"}}}) { affected_rows }',
      'the relationship "writer" determines the value of "writer_id"; leave it out',
      '$.selectionSet.insert_book.args.objects[0].writer_id',
    ),
  ],
  'nested.atomic': [
    ask(
      'mutation { insert_writer(objects: {name: "Fay", books: {data: [{title: "f1"}, {title: "a1"}]}}) { affected_rows } }',
      fails('constraint-violation', /^Uniqueness violation/),
    ),
    shelves(5, 6, 3),
  ],
  'nested.permission': [
    denied('insert_writer(objects: {name: "Fay", age: 17, books: {data: [{title: "f1"}]}}) { affected_rows }', ANN),
    wrong(
      'insert_writer(objects: {name: "Fay", age: 18, books: {data: [{title: "f1", tags: {data: [{name: "q"}]}}]}}) { affected_rows }',
      /tags/,
      /./,
      ANN,
    ),
    ask(
      'mutation ($o: [writer_insert_input!]!) { insert_writer(objects: $o) { affected_rows } }',
      fails('permission-denied', /"tag"/),
      {
        variables: {
          o: [{ name: 'Fay', age: 18, books: { data: [{ title: 'f1', tags: { data: [{ name: 'q' }] } }] } }],
        },
        as: ANN,
      },
    ),
    shelves(5, 6, 3),
    write(
      'insert_writer(objects: {name: "Fay", age: 18, books: {data: [{title: "f1"}]}}) { affected_rows returning { name books { title } } }',
      { insert_writer: { affected_rows: 2, returning: [{ name: 'Fay', books: [{ title: 'f1' }] }] } },
      ANN,
    ),
  ],
  'nested.check': [
    denied('insert_writer(objects: {name: "Mallory", age: 20, books: {data: [{title: "m1"}]}}) { affected_rows }', ANN),
    shelves(6, 7, 3),
  ],
  'update.set': [
    reset,
    write('update_note(where: {n: {_gt: 5}}, _set: {body: "new", n: null}) { affected_rows returning { id body n } }', {
      update_note: { affected_rows: 1, returning: [{ id: 2, body: 'new', n: null }] },
    }),
    notes(ONE, { ...TWO, body: 'new', n: null }),
  ],
  'update.inc': [
    reset,
    write('update_note(where: {}, _inc: {n: 10}) { affected_rows returning { n } }', {
      update_note: { affected_rows: 2, returning: [{ n: 15 }, { n: 16 }] },
    }),
    write('update_note_by_pk(pk_columns: {id: 1}, _inc: {n: -20}, _set: {body: "x"}) { n body }', {
      update_note_by_pk: { n: -5, body: 'x' },
    }),
  ],
  'update.append': [
    ...json('_append: {data: ["end"]}', ['x', 'y', 'z', 'end'], 2),
    ...json('_prepend: {data: ["start"]}', ['start', 'x', 'y', 'z'], 2),
    ...json('_append: {data: {d: 1}}', { a: 1, b: { c: [1, 2] }, d: 1 }),
  ],
  'update.delete-key': [
    ...json('_delete_key: {data: "b"}', { a: 1 }),
    ...json('_delete_elem: {data: 1}', ['x', 'z'], 2),
    ...json('_delete_at_path: {data: ["b", "c", "0"]}', { a: 1, b: { c: [2] } }),
  ],
  'update.by-key': [
    reset,
    write(
      'a: update_note_by_pk(pk_columns: {id: 1}, _set: {body: "x"}) { id body } b: update_note_by_pk(pk_columns: {id: 99}, _set: {body: "x"}) { id }',
      { a: { id: 1, body: 'x' }, b: null },
    ),
    notes({ ...ONE, body: 'x' }, TWO),
    wrong('update_note_by_pk(_set: {body: "x"}) { id }', /pk_columns/),
  ],
  'update.many': [
    reset,
    ask(
      'mutation ($u: [note_updates!]!) { update_note_many(updates: $u) { affected_rows returning { n } } }',
      data({
        update_note_many: [
          { affected_rows: 1, returning: [{ n: 6 }] },
          { affected_rows: 2, returning: [{ n: 16 }, { n: 16 }] },
        ],
      }),
      {
        variables: {
          u: [
            { where: { id: { _eq: 1 } }, _inc: { n: 1 } },
            { where: { n: { _eq: 6 } }, _inc: { n: 10 } },
          ],
        },
      },
    ),
  ],
  'update.nothing': [
    reset,
    write(
      'update_note(where: {}, _set: {}) { affected_rows returning { id } } update_note_by_pk(pk_columns: {id: 1}, _inc: {}) { id } update_note_many(updates: [{where: {}, _set: {}}, {where: {id: {_eq: 1}}, _set: {n: 5}}]) { affected_rows }',
      {
        update_note: { affected_rows: 0, returning: [] },
        update_note_by_pk: null,
        update_note_many: [affected(0), affected(1)],
      },
    ),
    unchanged,
    wrong('update_note(where: {}) { affected_rows }', 'the update sets no column'),
    wrong('update_note(where: {nope: {_eq: 1}}, _set: {}) { affected_rows }', /nope/),
    ...[{}, { as: ANN }].map((as) =>
      ask(
        'mutation ($s: note_set_input!) { update_note(where: {}, _set: $s) { affected_rows returning { id } } update_note_by_pk(pk_columns: {id: 1}, _set: {}) { id } }',
        data({ update_note: { affected_rows: 0, returning: [] }, update_note_by_pk: null }),
        { variables: { s: {} }, ...as },
      ),
    ),
  ],
  'update.twice': [
    ask('mutation { update_note(where: {}, _set: {n: 1}, _inc: {n: 1}) { affected_rows } }', {
      status: 200,
      like: { data: undefined, errors: [{ message: /"n"/ }] },
    }),
    unchanged,
  ],
  'update.required': [
    wrong('update_note(_set: {n: 1}) { affected_rows }', /where/),
    wrong('update_note(where: null, _set: {n: 1}) { affected_rows }', /null/),
    ask('mutation ($x: Int) { update_note(where: {id: {_eq: $x}}, _set: {n: 1}) { affected_rows } }', invalid(/null/)),
    unchanged,
    write('update_note(where: {}, _set: {n: 1}) { affected_rows }', { update_note: affected(2) }),
  ],
  'update.within': [
    reset,
    ask(
      'mutation ($d: date!, $n: Int) { update_note(where: {id: {_eq: 1}}, _set: {data: {day: $d, list: [$n, null]}}) { returning { data } } }',
      data({ update_note: { returning: [{ data: { day: '2030-01-02', list: [7, null] } }] } }),
      { variables: { d: '2030-01-02', n: 7 } },
    ),
  ],
  'update.variable': [
    reset,
    ask(
      'mutation ($w: note_bool_exp!, $s: note_set_input, $d: jsonb) { update_note(where: $w, _set: $s, _append: {data: $d}) { returning { n data } } }',
      data({ update_note: { returning: [{ n: 9, data: { a: 1, b: 2 } }] } }),
      { variables: { w: { id: { _eq: 1 } }, s: { n: 9 }, d: { b: 2 } } },
    ),
  ],
  'delete.rows': [
    reset,
    write('delete_note(where: {n: {_gt: 5}}) { affected_rows returning { id body } }', {
      delete_note: { affected_rows: 1, returning: [{ id: 2, body: 'two' }] },
    }),
    notes(ONE),
    write('delete_note(where: {}) { affected_rows }', { delete_note: affected(1) }),
  ],
  'delete.by-key': [
    reset,
    write('a: delete_note_by_pk(id: 1) { body } b: delete_note_by_pk(id: 1) { body }', { a: { body: 'one' }, b: null }),
    notes(TWO),
  ],
  'delete.required': [
    ask(
      'mutation ($e: Int_comparison_exp) { delete_note(where: {id: $e}) { affected_rows } }',
      fails('validation-failed', /null|expecting an object/),
    ),
    ask(
      'mutation ($e: note_bool_exp) { update_note(where: {_not: $e}, _set: {n: 1}) { affected_rows } }',
      fails('validation-failed', /null|expecting an object/),
    ),
    ask(
      'mutation ($e: Int_comparison_exp) { insert_note(objects: {id: 1}, on_conflict: {constraint: note_pkey, update_columns: [n], where: {n: $e}}) { affected_rows } }',
      fails('validation-failed', /null|expecting an object/),
    ),
    ask(
      'mutation ($e: Int_comparison_exp) { update_note_many(updates: [{where: {n: $e}, _set: {n: 1}}]) { affected_rows } }',
      fails('validation-failed', /null|expecting an object/),
    ),
    reset,
    wrong('delete_note { affected_rows }', /where/),
    ...[{}, { x: null }].map((variables) =>
      ask(
        'mutation ($x: Int) { delete_note(where: {id: {_eq: $x}}) { affected_rows } }',
        invalid(/null|expecting an object/),
        {
          variables,
        },
      ),
    ),
    unchanged,
  ],
  'mutation.order': [
    reset,
    ask(
      'mutation { z: insert_note(objects: {id: 9, body: "z"}) { affected_rows } a: update_note(where: {id: {_eq: 9}}, _set: {body: "a"}) { returning { body } } b: delete_note(where: {body: {_eq: "a"}}) { returning { id } } }',
      text('{"data":{"z":{"affected_rows":1},"a":{"returning":[{"body":"a"}]},"b":{"returning":[{"id":9}]}}}'),
    ),
  ],
  'mutation.atomic': [
    ask(
      'mutation { delete_note(where: {}) { affected_rows } a: insert_note(objects: {id: 9}) { affected_rows } b: insert_note(objects: {id: 9}) { affected_rows } }',
      fails('constraint-violation', /^Uniqueness violation/),
    ),
    unchanged,
  ],
  'mutation.included': [
    ...[false, true].map((go) =>
      ask(
        'mutation ($go: Boolean!) { __typename a: delete_note(where: {id: {_eq: 1}}) @include(if: $go) { affected_rows } ... @skip(if: $go) { b: update_note(where: {id: {_eq: 2}}, _inc: {n: 1}) { affected_rows } } }',
        data({ __typename: 'mutation_root', ...(go ? { a: affected(1) } : { b: affected(1) }) }),
        { variables: { go } },
      ),
    ),
    notes({ ...TWO, n: 7 }),
    ...[false, true].map((go) =>
      ask(
        'mutation ($go: Boolean!) { ...Removal @skip(if: $go) } fragment Removal on mutation_root { delete_note(where: {id: {_eq: 7}}) { affected_rows } }',
        data(go ? {} : { delete_note: affected(0) }),
        { variables: { go } },
      ),
    ),
    ask(
      'mutation ($go: Boolean!) { delete_note(where: {id: {_eq: 7}}) @skip(if: $go) { affected_rows } delete_note(where: {id: {_eq: 7}}) { affected_rows } }',
      data({ delete_note: affected(0) }),
      { variables: { go: true } },
    ),
  ],
  'mutation.returning-twice': [
    write(
      'insert_note(objects: [{id: 51, body: "x"}]) { a: returning { id } affected_rows b: returning { body id } }',
      {
        insert_note: { a: [{ id: 51 }], affected_rows: 1, b: [{ body: 'x', id: 51 }] },
      },
    ),
    write('delete_note(where: {id: {_eq: 51}}) { a: returning { id } b: returning { id } }', {
      delete_note: { a: [{ id: 51 }], b: [{ id: 51 }] },
    }),
  ],
  'mutation.returning': [
    write(
      'insert_author_one(object: {id: 60, name: "New", articles: {data: [{id: 61, rating: 3}, {id: 62, rating: 5}]}}) { name articles(order_by: {rating: desc}) { id author { name } } articles_aggregate { aggregate { sum { rating } } } }',
      {
        insert_author_one: {
          name: 'New',
          articles: [
            { id: 62, author: { name: 'New' } },
            { id: 61, author: { name: 'New' } },
          ],
          articles_aggregate: { aggregate: { sum: { rating: 8 } } },
        },
      },
    ),
  ],
  'permission.insert-check': [
    reset,
    denied('insert_note(objects: [{id: 9, owner: 1}, {id: 10, owner: 2}]) { affected_rows }', ANN),
    unchanged,
    write(
      'insert_note(objects: {id: 9, owner: 1}) { affected_rows returning { id } }',
      {
        insert_note: { affected_rows: 1, returning: [{ id: 9 }] },
      },
      ANN,
    ),
  ],
  'permission.insert-columns': [
    wrong('insert_note(objects: {id: 9, owner: 1, data: {}}) { affected_rows }', /data/, /./, ANN),
    ask(
      'mutation ($o: [note_insert_input!]!) { insert_note(objects: $o) { affected_rows } }',
      fails('permission-denied', /"data"/),
      { variables: { o: [{ id: 19, owner: 1, data: {} }] }, as: ANN },
    ),
  ],
  'permission.preset': [
    reset,
    write(
      'insert_note_one(object: {id: 9, n: 1}) { body owner }',
      {
        insert_note_one: { body: 'preset', owner: 1 },
      },
      INSERTER,
    ),
    wrong('insert_note(objects: {id: 10, owner: 2}) { affected_rows }', /owner/, /./, INSERTER),
    ask(
      'mutation ($o: [note_insert_input!]!) { insert_note(objects: $o) { affected_rows } }',
      fails('permission-denied', /"owner"/),
      { variables: { o: [{ id: 10, owner: 2 }] }, as: INSERTER },
    ),
  ],
  'permission.insert-one': [
    wrong('insert_note_one(object: {id: 11}) { id }', /insert_note_one/, /./, BLIND),
    wrong('insert_note(objects: {id: 11}) { returning { id } }', /returning/, /./, BLIND),
    write('insert_note(objects: {id: 11, owner: 1}) { affected_rows }', { insert_note: affected(1) }, BLIND),
  ],
  'permission.conflict': [
    reset,
    write(
      'a: insert_note(objects: [{id: 1}, {id: 9}], on_conflict: {constraint: note_pkey}) { affected_rows returning { id } } b: insert_note_one(object: {id: 1}, on_conflict: {constraint: note_pkey, update_columns: []}) { id }',
      { a: { affected_rows: 1, returning: [{ id: 9 }] }, b: null },
      INSERTER,
    ),
    notes(ONE, TWO, { id: 9, body: 'preset', n: null, owner: 1 }),
    wrong(
      'insert_note(objects: {id: 1}, on_conflict: {constraint: note_pkey, update_columns: [body]}) { affected_rows }',
      /body/,
      /./,
      INSERTER,
    ),
    ask(
      'mutation { insert_note(objects: {id: 1}, on_conflict: {constraint: note_pkey, update_columns: [_empty]}) { affected_rows } }',
      fails('permission-denied', /_empty/),
      { as: INSERTER },
    ),
  ],
  'permission.conflict-filter': [
    reset,
    write(
      'a: insert_note(objects: {id: 1, owner: 1, body: "up"}, on_conflict: {constraint: note_pkey, update_columns: [body]}) { affected_rows } b: insert_note(objects: {id: 2, owner: 1, body: "up"}, on_conflict: {constraint: note_pkey, update_columns: [body]}) { affected_rows }',
      { a: affected(1), b: affected(0) },
      ANN,
    ),
    notes({ ...ONE, body: 'up' }, TWO),
    wrong(
      'insert_note(objects: {id: 1, owner: 1}, on_conflict: {constraint: note_pkey, update_columns: [owner]}) { affected_rows }',
      /owner/,
      /./,
      ANN,
    ),
  ],
  'permission.update-filter': [
    reset,
    write(
      'update_note(where: {}, _set: {body: "mine"}) { affected_rows } update_note_by_pk(pk_columns: {id: 2}, _set: {body: "mine"}) { id } update_note_many(updates: [{where: {id: {_eq: 2}}, _set: {body: "mine"}}]) { affected_rows }',
      { update_note: affected(1), update_note_by_pk: null, update_note_many: [affected(0)] },
      ANN,
    ),
    notes({ ...ONE, body: 'mine' }, TWO),
  ],
  'permission.update-columns': [
    wrong('update_note(where: {}, _set: {owner: 2}) { affected_rows }', /owner/, /./, ANN),
    ask(
      'mutation ($s: note_set_input!) { update_note(where: {}, _set: $s) { affected_rows } }',
      invalid(/"owner" not found/, '$.variables.s.owner'),
      { variables: { s: { owner: 2 } }, as: ANN },
    ),
  ],
  'permission.update-check': [
    reset,
    denied('update_note(where: {id: {_eq: 1}}, _inc: {n: 100}) { affected_rows }', ANN),
    unchanged,
    write('update_note(where: {id: {_eq: 1}}, _inc: {n: 10}) { affected_rows }', { update_note: affected(1) }, ANN),
  ],
  'permission.where': [
    reset,
    wrong('update_note(where: {id: {_eq: 1}}, _set: {body: "x"}) { affected_rows }', /id/, /./, BLIND),
    wrong('delete_note(where: {id: {_eq: 1}}) { affected_rows }', /id/, /./, BLIND),
    write(
      'update_note(where: {}, _set: {body: "x"}) { affected_rows } delete_note(where: {}) { affected_rows }',
      {
        update_note: affected(1),
        delete_note: affected(1),
      },
      BLIND,
    ),
    notes(TWO),
  ],
  'permission.delete-filter': [
    reset,
    write(
      'delete_note_by_pk(id: 2) { id } delete_note(where: {}) { affected_rows }',
      {
        delete_note_by_pk: null,
        delete_note: affected(1),
      },
      ANN,
    ),
    notes(TWO),
  ],
  'permission.missing': [
    wrong('delete_note(where: {}) { affected_rows }', /delete_note/, /./, INSERTER),
    wrong('update_note(where: {}, _set: {n: 1}) { affected_rows }', /update_note/, /./, INSERTER),
    wrong('insert_pet(objects: {id: 1}) { affected_rows }', /insert_pet/, /./, ANN),
    { ...wrong('delete_note(where: {}) { affected_rows }', /./), bare: true },
    notes(TWO),
  ],
  'permission.returning': [
    reset,
    write(
      'update_article(where: {}, _set: {title: "all"}) { affected_rows returning { id } }',
      {
        update_article: { affected_rows: 6, returning: [{ id: 1 }, { id: 3 }, { id: 5 }] },
      },
      { role: 'editor' },
    ),
  ],
  'permission.hidden-one': [
    write('insert_article_one(object: {id: 40, rating: 1}) { id }', { insert_article_one: null }, { role: 'editor' }),
    counted('article', 12),
  ],
  'error.unique': [
    reset,
    ask(
      'mutation { insert_note(objects: {id: 1}) { affected_rows } }',
      fails(
        'constraint-violation',
        'Uniqueness violation. duplicate key value violates unique constraint "note_pkey"',
        /^\$\.selectionSet\.insert_note/,
      ),
    ),
    ask(
      'mutation { insert_note(objects: {id: 1}) { affected_rows } }',
      fails('constraint-violation', /^Uniqueness violation/, /^\$/, 400),
      { headers: { accept: 'application/graphql-response+json' } },
    ),
  ],
  'error.constraints': [
    strict('{id: 1}', fails('constraint-violation', /^Not-NULL violation/)),
    strict('{id: 1, name: "x", pet_id: 99}', fails('constraint-violation', /^Foreign key violation/)),
    strict('{id: 0, name: "x"}', fails('permission-error', /^Check constraint violation/)),
  ],
  'error.value': [
    ask('{ author(where: {made: {_gt: "yesteryear"}}) { id } }', fails('data-exception', /invalid input syntax/)),
  ],
  'error.internal': [
    ask('mutation { insert_note(objects: {id: 1, owner: 1}) { affected_rows } }', {
      status: 200,
      like: { errors: [{ extensions: { internal: { status_code: '23505' } } }] },
    }),
    ask(
      'mutation { insert_note(objects: {id: 1, owner: 1}) { affected_rows } }',
      { status: 200, like: { errors: [{ extensions: { code: 'constraint-violation', internal: undefined } }] } },
      { as: ANN },
    ),
  ],
  'error.nothing': [unchanged],
  'dry.body': [
    ask('mutation { delete_note(where: {}) { affected_rows } }', data({ delete_note: affected(2) }), {
      body: { dry_run: true },
    }),
    unchanged,
  ],
  'dry.header': [
    ask(
      'mutation { delete_note(where: {}) { affected_rows } }',
      {
        status: 200,
        body: { data: { delete_note: affected(2) } },
        headers: { 'preference-applied': 'tx=rollback' },
      },
      { headers: { prefer: 'tx=rollback' } },
    ),
    unchanged,
  ],
  'key.again': [
    ...[null, 'true'].map((replayed) =>
      ask(
        'mutation { update_note(where: {id: {_eq: 1}}, _inc: {n: 1}) { returning { n } } }',
        {
          status: 200,
          body: { data: { update_note: { returning: [{ n: 6 }] } } },
          headers: { 'idempotency-replayed': replayed },
        },
        { headers: { 'idempotency-key': 'graphql-1' } },
      ),
    ),
    notes({ ...ONE, n: 6 }, TWO),
  ],
  'key.reused': [
    ask(
      'mutation { update_note(where: {id: {_eq: 2}}, _inc: {n: 1}) { returning { n } } }',
      refused('idempotency-key-reused', /./, undefined, 409),
      { headers: { 'idempotency-key': 'graphql-1' } },
    ),
    notes({ ...ONE, n: 6 }, TWO),
  ],
  'key.batch': (['idempotency-key: graphql-2', 'prefer: tx=rollback'] as const).map((header) => ({
    path: '/v1/graphql',
    method: 'POST',
    body: '[{"query": "mutation { delete_note(where: {}) { affected_rows } }"}]',
    headers: Object.fromEntries([header.split(': ')]) as Record<string, string>,
    expected: fails('not-supported', /^a batch (takes no Idempotency-Key|cannot be a dry run)/, '$', 400),
  })),
  'if-match.refused': [
    ask('mutation { delete_note(where: {}) { affected_rows } }', fails('not-supported', /If-Match/, /./, 400), {
      headers: { 'if-match': '"1"' },
    }),
    counted('note', 2),
  ],
}

/** Its promises, with a case for each. */
export const graphqlWrites = area('graphql-writes', {
  promises: PROMISES,
  cases: CASES,
  start,
  pages: {
    'plugins/graphql/README.md': {
      '`/v1/graphql`': {
        '`insert_t`, `insert_t_one`': [
          'insert.rows',
          'insert.one',
          'conflict.update',
          'permission.insert-check',
          'permission.insert-one',
          'permission.conflict',
        ],
        '`update_t`, `update_t_by_pk`, `update_t_many`': [
          'update.set',
          'update.inc',
          'update.append',
          'update.delete-key',
          'update.by-key',
          'update.many',
          'permission.update-filter',
          'permission.where',
        ],
        '`delete_t`, `delete_t_by_pk`': [
          'delete.rows',
          'delete.by-key',
          'permission.delete-filter',
          'permission.where',
        ],
      },
    },
  },
})

async function start(t: Test) {
  const server = await testServer(t)
  const own = { owner: 'X-SERVICE-USER-ID' }
  const relate = (type: string, table: string, name: string, on: unknown) => ({
    type: `create_${type}_relationship`,
    args: { table, name, using: { foreign_key_constraint_on: on } },
  })
  const visible = { filter: {} }
  await setUpLibrary(server, [
    { type: 'run_sql', args: { sql: SQL } },
    ...['writer', 'book', 'tag', 'strict', 'noted'].map((table) => ({ type: 'track_table', args: table })),
    relate('object', 'book', 'writer', 'writer_id'),
    relate('array', 'writer', 'books', { table: 'book', column: 'writer_id' }),
    relate('array', 'book', 'tags', { table: 'tag', column: 'book_id' }),
    relate('object', 'tag', 'book', 'book_id'),
    permit('select', 'writer', 'user', { columns: ['name'], ...visible }),
    permit('select', 'book', 'user', { columns: ['title'], ...visible }),
    permit('select', 'tag', 'user', { columns: ['name'], ...visible }),
    permit('insert', 'writer', 'user', { check: { age: { $gt: 17 } } }),
    permit('insert', 'book', 'user', { check: { writer: { name: { $ne: 'Mallory' } } } }),
    permit('select', 'note', 'user', { columns: ['id', 'body', 'n', 'owner'], filter: own }),
    permit('insert', 'note', 'user', { check: own, columns: ['id', 'body', 'n', 'owner'] }),
    permit('update', 'note', 'user', { columns: ['body', 'n'], filter: own, check: { n: { $lt: 100 } } }),
    permit('delete', 'note', 'user', { filter: own }),
    permit('insert', 'note', 'blind', { check: {} }),
    permit('update', 'note', 'blind', { columns: ['body'], filter: own }),
    permit('delete', 'note', 'blind', { filter: own }),
    permit('select', 'note', 'inserter', { columns: ['id', 'body', 'owner'], filter: {} }),
    permit('insert', 'note', 'inserter', { check: {}, set: { ...own, body: 'preset' } }),
    permit('select', 'article', 'editor', { columns: ['id'], filter: { published: true } }),
    permit('update', 'article', 'editor', { columns: ['title'], filter: { id: { $lt: 10 } } }),
    permit('insert', 'article', 'editor', { check: {} }),
  ])
  return server
}
