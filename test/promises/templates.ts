import { SignJWT } from 'jose'
import type { Test } from 'tap'
import { permit, setUpLibrary } from '../kit/library.js'
import { area, type Case, type Expected, is, like, query, refused, type Step, text } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** What query templates and their REST calls promise. */
const PROMISES = {
  'create.answer': 'making a template answers {"message":"success"}',
  'create.name-required': 'a template needs a name',
  'create.name-text': 'the name is a text, not an empty one',
  'create.template-required': 'a template needs a template',
  'create.template-query': 'the template is a query: an object with type and args',
  'create.comment-optional': 'the comment may be missing, a text or null, and nothing else',
  'create.unknown-key': 'a key that nothing knows is refused',
  'create.taken': 'a name is given once',
  'create.names-checked': 'tables, columns and keys in it are checked',
  'create.admin': 'only admin makes templates',
  'list.rows': 'templates are rows of svc_catalog.svc_query_template, as they were given',
  'list.columns': 'with the three columns template_name, template_defn, comment',
  'list.admin': 'other roles do not see that table',
  'comment.set': 'a comment can be set',
  'comment.null': 'null removes it',
  'comment.missing': 'and so does leaving it out',
  'comment.name-required': 'which template is meant has to be said',
  'comment.not-there': 'a template that is not there gets no comment',
  'comment.admin': 'only admin comments',
  'execute.answer': 'running a template answers as its query does',
  'execute.name-required': 'which template is meant has to be said',
  'execute.args-required': 'args are required, an object',
  'execute.unknown-key': 'a key beside name and args is refused',
  'execute.not-there': 'a template that is not there is refused',
  'param.given': 'an argument takes the place of its parameter',
  'param.default': 'a parameter that is not supplied takes its default',
  'param.default-zero': 'limit defaults to 10 and offset to 0 where the template says so',
  'param.default-null': 'null is a default too, and means is null',
  'param.null-argument': 'null as an argument means is null',
  'param.missing': 'a parameter without argument and default is refused by name',
  'param.extra': 'arguments that nothing asks for are ignored',
  'param.twice': 'one argument serves every place of its parameter',
  'param.text': 'the name of a parameter is a text that is not empty',
  'param.only-two-keys': 'a third key makes it no parameter',
  'param.default-checked': 'a default is checked when the template is made',
  'param.wrong-value': 'a wrong argument is refused with its path, naming the parameter',
  'param.never-a-condition': 'an argument is a value, never a condition',
  'select.where': 'values in where: {column: {$op: value}}',
  'select.where-bare': 'a parameter stands directly under a column too',
  'select.where-deep': 'under $and, $or, $not and relationships',
  'select.where-list': 'a list as a whole, or its elements',
  'select.limit-offset': 'limit and offset',
  'select.null-limit': 'null for limit and offset means none',
  'select.negative': 'a limit is not negative, whoever gives it',
  'select.relationship': 'the same in columns of relationships',
  'select.nothing-else': 'table, columns and order_by take no parameter',
  'insert.objects': 'objects is a parameter: n rows for n elements',
  'insert.default': 'objects may have a default',
  'insert.values': 'a value of a row is a parameter, or fixed',
  'insert.not-inside': 'nothing inside of a JSON value of a row is a parameter',
  'insert.nothing-else': 'on_conflict takes no parameter',
  'insert.no-array': 'objects that are no array are refused',
  'insert.empty': 'no rows are refused as by insert',
  'insert.row-path': 'a wrong value in a row has its path',
  'update.where': 'values in where',
  'update.set': 'values of $set',
  'update.inc': 'values of $inc',
  'update.mul': 'values of $mul',
  'update.null': 'null sets null',
  'update.not-whole': '$set as a whole is no parameter',
  'delete.where': 'values in where',
  'count.where': 'values in where',
  'count.not-distinct': 'distinct takes no parameter',
  'bulk.parts': 'what its queries have, answered in order',
  'bulk.nested': 'also in a bulk of a bulk',
  'bulk.atomic': 'it happens as a whole or not at all',
  'bulk.not-whole': 'the queries themselves are no parameters',
  'type.others': 'no other type can be a template',
  'inside-bulk': 'running a template is a member of a bulk like others',
  'json.not-searched': 'a JSON value is not searched for parameters',
  'permission.filter': 'rows are those of the caller',
  'permission.columns': 'a column that the caller may not see stops it',
  'permission.none': 'without a permission on the table nothing is run',
  'permission.session': 'X-SERVICE-USER-ID is the caller',
  'permission.insert-check': 'the check of the caller holds',
  'permission.update': 'and the columns and filter of an update',
  'permission.delete': 'and the filter of a delete',
  'permission.count': 'and that of a count',
  'permission.bulk': 'a bulk needs the permissions of all its queries',
  'permission.limit': 'the limit of a permission holds, whatever the argument',
  'permission.listed': 'GET /v1/template lists what the caller may run',
  'rest.get': 'GET takes arguments from the URL',
  'rest.delete': 'DELETE takes arguments from the URL, not from a body',
  'rest.post': 'POST takes them from the URL and a JSON body; the body wins',
  'rest.put': 'PUT does as POST',
  'rest.body-null': 'null in a body wins over the URL too',
  'rest.empty-body': 'an empty body is {}',
  'rest.body-object': 'a body is a JSON object',
  'rest.same-answer': 'the answer is that of the query',
  'rest.any-method-select': 'any method runs a select',
  'rest.any-method-insert': 'any method runs an insert',
  'rest.any-method-update': 'any method runs an update',
  'rest.any-method-delete': 'any method runs a delete',
  'rest.any-method-count': 'any method runs a count',
  'rest.any-method-bulk': 'any method runs a bulk',
  'rest.other-methods': 'other methods are 405, and HEAD of a template that writes',
  'rest.head': 'HEAD of a template that reads answers as GET, without the body',
  'rest.default': 'defaults are taken',
  'rest.missing': 'a missing argument is refused',
  'rest.extra': 'arguments that nothing asks for are ignored',
  'rest.not-there': 'a template that is not there is refused',
  'rest.name-escaped': 'a name is escaped in a URL',
  'rest.role': 'the permissions are the caller’s',
  'rest.types': 'text of a URL stands for a value of any type',
  'rest.wrong-type': 'what PostgreSQL cannot read is refused with the path of the argument',
  'rest.list-repeated': 'a list is a repeated parameter',
  'rest.list-json': 'or a JSON array',
  'rest.list-one': 'one value is a list of one',
  'rest.repeat': 'what is no list may be given once',
  'rest.objects': 'rows are JSON in a URL',
  'rest.count': 'limit and offset are whole numbers',
  'rest.bad-json': 'JSON that is none is refused with its path',
  'rest.digits': 'numbers keep their digits, in URL, body and answer',
  'rest.duplicate-key': 'a duplicate key of a body is refused',
  'rest.no-store': 'answers are not kept by caches',
  'rest.cookie-read': 'a GET with a cookie runs what reads',
  'rest.cookie-write': 'and nothing that changes something',
  'rest.cookie-delete': 'a DELETE with a cookie comes from the same site',
  'rest.cookie-post': 'and so does a POST, as JSON',
  'rest.prefetch': 'what a browser asks ahead of time changes nothing',
  'rest.anonymous': 'a caller without credentials is anonymous',
  'rest.role-not-held': 'a role that the caller does not hold is 403',
  'keep.drop-column': 'run_sql does not drop what a template needs, and names it',
  'keep.drop-table': 'nor a table',
  'keep.type': 'a type does not change under a template, not even with cascade',
  'keep.untrack': 'nor is its table untracked',
  'keep.relationship': 'nor its relationship dropped',
  'keep.cascade': 'with cascade the template goes too',
  'drop.name-required': 'which template is meant has to be said',
  'drop.admin': 'only admin drops templates',
  'drop.gone': 'a dropped template is gone',
  'drop.not-there': 'what is not there cannot be dropped',
  'error.shape': 'an error has path, error, code, and internal for admin only',
} as const

const KEY = 'a key of a test that is long enough for HS256'
const TOKEN = await new SignJWT({
  rowhouse: { 'x-service-allowed-roles': ['user'], 'x-service-default-role': 'user', 'x-service-user-id': '1' },
})
  .setProtectedHeader({ alg: 'HS256' })
  .setExpirationTime('1h')
  .sign(Buffer.from(KEY))
const COOKIE = { cookie: `rowhouse_session=${TOKEN}` }
const UID = '00000000-0000-0000-0000-000000000001'
const ANN: As = { role: 'user', variables: { 'x-service-user-id': '1' } }
const FEW: As = { role: 'few' }
const GUEST: As = { role: 'guest' }

const param = (name: unknown, ...fallback: readonly unknown[]) => ({
  param: name,
  ...(fallback.length > 0 ? { default: fallback[0] } : {}),
})
const select = (args: object) => ({
  type: 'select',
  args: { table: 'article', columns: ['id'], order_by: ['id'], ...args },
})
const count = (args: object = {}) => ({ type: 'count', args: { table: 'article', ...args } })
const ids = (...all: readonly number[]) => is(all.map((id) => ({ id })))
const done = text('{"message":"success"}')

const make = (name: string, template: unknown, expected: Expected = done) =>
  query('create_query_template', { name, template }, expected)
const run = (name: string, args: object, expected: Expected, as?: As) =>
  query('execute_query_template', { name, args }, expected, as)
/** A definition that is refused. */
const wrong = (template: unknown, code: string, error: string | RegExp, path: string): Step =>
  make('wrong', template, refused(code, error, path))
const stored = (name: string, expected: Expected): Step =>
  query(
    'select',
    {
      table: { schema: 'svc_catalog', name: 'svc_query_template' },
      columns: ['template_name', 'template_defn', 'comment'],
      where: { template_name: name },
    },
    expected,
  )
const rest = (method: string, rest: string, expected: Expected, more: { body?: string; as?: As } = {}): Step => ({
  method,
  path: `/v1/template/${rest}`,
  expected,
  ...more,
})
/** The same without the admin secret. */
const bare = (
  method: string,
  call: string,
  expected: Expected,
  headers: Record<string, string>,
  body?: string,
): Step => ({
  ...rest(method, call, expected, body === undefined ? {} : { body }),
  bare: true,
  headers,
})
const everyMethod = (call: string, expected: Expected, before?: Step): Case =>
  ['GET', 'POST', 'PUT', 'DELETE'].flatMap((method) => [...(before ? [before] : []), rest(method, call, expected)])
const reset = query(
  'bulk',
  [
    { type: 'delete', args: { table: 'note', where: {} } },
    {
      type: 'insert',
      args: {
        table: 'note',
        objects: [
          { id: 1, body: 'one', n: 5, owner: 1 },
          { id: 2, body: 'two', n: 6, owner: 2 },
        ],
      },
    },
  ],
  { status: 200 },
)
const notes = (expected: unknown): Step =>
  query('select', { table: 'note', columns: ['id', 'body', 'n'], order_by: ['id'] }, is(expected))
const sql = (text: string, expected: Expected, cascade = false): Step =>
  query('run_sql', { sql: text, cascade }, expected)

const BY_NAME = { type: 'select', args: { table: 'author', columns: ['id'], where: { name: param('name') } } }
const PAGE = select({
  where: { rating: { $gte: param('above', 0) } },
  limit: param('limit', 10),
  offset: param('offset', 0),
})
const ONE = [{ id: 1, body: 'one', n: 5 }]
const TWO = [...ONE, { id: 2, body: 'two', n: 6 }]

/** In order: later ones see what earlier ones left. */
const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'create.answer': [make('page', PAGE), make('by_name', BY_NAME)],
  'create.name-required': [
    query(
      'create_query_template',
      { template: PAGE },
      refused('parse-failed', "the key 'name' was not present", '$.args'),
    ),
  ],
  'create.name-text': [
    query(
      'create_query_template',
      { name: 5, template: PAGE },
      refused('parse-failed', 'expecting string', '$.args.name'),
    ),
    query('create_query_template', { name: '', template: PAGE }, refused('parse-failed', /character/, '$.args.name')),
  ],
  'create.template-required': [
    query(
      'create_query_template',
      { name: 'x' },
      refused('parse-failed', "the key 'template' was not present", '$.args'),
    ),
  ],
  'create.template-query': [
    wrong('select', 'parse-failed', /an object with the keys type and args/, '$.args.template'),
    wrong({ args: {} }, 'unexpected-payload', /the type of a template must be one of/, '$.args.template.type'),
    wrong({ type: 'select' }, 'parse-failed', 'expecting an object', '$.args.template.args'),
    wrong({ ...count(), more: 1 }, 'unexpected-payload', 'unexpected key "more"', '$.args.template.more'),
  ],
  'create.comment-optional': [
    query('create_query_template', { name: 'said', template: count(), comment: 'counts' }, done),
    query('create_query_template', { name: 'unsaid', template: count(), comment: null }, done),
    query(
      'create_query_template',
      { name: 'x', template: count(), comment: 5 },
      refused('parse-failed', /expecting/, '$.args.comment'),
    ),
  ],
  'create.unknown-key': [
    query(
      'create_query_template',
      { name: 'x', template: PAGE, coment: '' },
      refused('unexpected-payload', 'unexpected key "coment"', '$.args.coment'),
    ),
  ],
  'create.taken': [make('page', count(), refused('already-exists', 'query template "page" already exists'))],
  'create.names-checked': [
    wrong(select({ table: 'nowhere' }), 'not-exists', 'table "nowhere" does not exist', '$.args.template.args.table'),
    wrong(select({ columns: ['nope'] }), 'not-exists', /"nope"/, '$.args.template.args.columns[0]'),
    wrong(select({ where: { nope: param('x') } }), 'not-exists', /"nope"/, '$.args.template.args.where.nope'),
    wrong(select({ wehre: {} }), 'unexpected-payload', 'unexpected key "wehre"', '$.args.template.args.wehre'),
  ],
  'create.admin': [
    query(
      'create_query_template',
      { name: 'x', template: count() },
      refused('access-denied', 'only the role admin may do this', '$'),
      ANN,
    ),
  ],
  'list.rows': [
    stored('page', is([{ template_name: 'page', template_defn: PAGE, comment: null }])),
    stored('said', is([{ template_name: 'said', template_defn: count(), comment: 'counts' }])),
  ],
  'list.columns': [
    query(
      'select',
      {
        table: { schema: 'svc_catalog', name: 'svc_query_template' },
        columns: ['*'],
        where: { template_name: 'unsaid' },
      },
      is([{ template_name: 'unsaid', template_defn: count(), comment: null }]),
    ),
  ],
  'list.admin': [
    query(
      'select',
      { table: { schema: 'svc_catalog', name: 'svc_query_template' }, columns: ['*'] },
      refused('permission-denied', /svc_query_template/, '$.args.table'),
      ANN,
    ),
  ],
  'comment.set': [
    query('set_query_template_comment', { name: 'unsaid', comment: 'now' }, done),
    stored('unsaid', like([{ comment: 'now' }])),
  ],
  'comment.null': [
    query('set_query_template_comment', { name: 'unsaid', comment: null }, done),
    stored('unsaid', like([{ comment: null }])),
  ],
  'comment.missing': [
    query('set_query_template_comment', { name: 'said' }, done),
    stored('said', like([{ comment: null }])),
  ],
  'comment.name-required': [
    query(
      'set_query_template_comment',
      { comment: '' },
      refused('parse-failed', "the key 'name' was not present", '$.args'),
    ),
  ],
  'comment.not-there': [
    query(
      'set_query_template_comment',
      { name: 'nope', comment: '' },
      refused('not-exists', 'query-template "nope" does not exist', '$.args.name'),
    ),
  ],
  'comment.admin': [
    query(
      'set_query_template_comment',
      { name: 'said', comment: '' },
      refused('access-denied', 'only the role admin may do this', '$'),
      ANN,
    ),
  ],
  'execute.answer': [run('said', {}, text('{"count":6}')), run('page', { limit: 2 }, text('[{"id":1},{"id":2}]'))],
  'execute.name-required': [
    query('execute_query_template', { args: {} }, refused('parse-failed', "the key 'name' was not present", '$.args')),
  ],
  'execute.args-required': [
    query(
      'execute_query_template',
      { name: 'said' },
      refused('parse-failed', "the key 'args' was not present", '$.args'),
    ),
    query(
      'execute_query_template',
      { name: 'said', args: [] },
      refused('parse-failed', 'expecting object', '$.args.args'),
    ),
  ],
  'execute.unknown-key': [
    query(
      'execute_query_template',
      { name: 'said', args: {}, arg: {} },
      refused('unexpected-payload', 'unexpected key "arg"', '$.args.arg'),
    ),
  ],
  'execute.not-there': [run('nope', {}, refused('not-exists', 'query-template "nope" does not exist', '$.args.name'))],
  'param.given': [run('page', { above: 50 }, ids(5, 6)), run('by_name', { name: 'Bob' }, ids(2))],
  'param.default': [run('page', {}, ids(1, 2, 3, 4, 5, 6)), run('page', { offset: 4 }, ids(5, 6))],
  'param.default-zero': [
    sql('insert into article select n, n::text, 0, 1 from generate_series(7, 12) n', is({ result_type: 'CommandOk' })),
    run('page', {}, ids(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)),
    run('page', { offset: 10 }, ids(11, 12)),
    run('page', { limit: 1 }, ids(1)),
    sql('delete from article where id > 6', is({ result_type: 'CommandOk' })),
  ],
  'param.default-null': [
    make('nameless', { ...BY_NAME, args: { ...BY_NAME.args, where: { name: { $eq: param('name', null) } } } }),
    run('nameless', {}, ids(3)),
    run('nameless', { name: 'Ann' }, ids(1)),
  ],
  'param.null-argument': [run('by_name', { name: null }, ids(3))],
  'param.missing': [run('by_name', {}, refused('invalid-params', 'parameter "name" is missing', '$.args.args'))],
  'param.extra': [run('by_name', { name: 'Ann', nothing: 1, Name: 'Bob' }, ids(1))],
  'param.twice': [
    make('between', select({ where: { $or: [{ id: param('n') }, { rating: { $eq: param('n', 60) } }] } })),
    run('between', { n: 60 }, ids(6)),
    run('between', {}, refused('invalid-params', 'parameter "n" is missing', '$.args.args')),
    wrong(
      select({ where: { id: { $in: param('n') }, rating: param('n') } }),
      'unexpected-payload',
      /both as a list and as a single value/,
      '$.args.template.args.where.id.$in',
    ),
  ],
  'param.text': [
    wrong(select({ where: { id: { $eq: param(5) } } }), 'parse-failed', /.*/, '$.args.template.args.where.id.$eq'),
    wrong(
      select({ where: { id: { $eq: param('') } } }),
      'parse-failed',
      'the name of a parameter must not be empty',
      '$.args.template.args.where.id.$eq',
    ),
  ],
  'param.only-two-keys': [
    wrong(
      select({ where: { id: { $eq: { param: 'n', defualt: 1 } } } }),
      'parse-failed',
      /.*/,
      '$.args.template.args.where.id.$eq',
    ),
  ],
  'param.default-checked': [
    wrong(
      select({ where: { id: { $gt: param('n', 'many') } } }),
      'unexpected-payload',
      /.*/,
      '$.args.template.args.where.id.$gt.default',
    ),
    wrong(
      select({ where: { title: { $regex: param('n', '(') } } }),
      'unexpected-payload',
      /invalid regular expression/,
      '$.args.template.args.where.title.$regex.default',
    ),
    wrong(
      select({ where: { title: { $nsimilar: '(' } } }),
      'unexpected-payload',
      /invalid regular expression/,
      '$.args.template.args.where.title.$nsimilar',
    ),
    wrong(
      select({ where: { id: { $gt: param('n', 1.5) } } }),
      'parse-failed',
      /.*/,
      '$.args.template.args.where.id.$gt.default',
    ),
    wrong(
      select({ where: { id: { $in: param('n', [true]) } } }),
      'parse-failed',
      /.*/,
      '$.args.template.args.where.id.$in.default',
    ),
    wrong(select({ limit: param('n', 'ten') }), 'parse-failed', /.*/, '$.args.template.args.limit.default'),
    wrong(
      { type: 'insert', args: { table: 'note', objects: param('o', [{ nope: 1 }]) } },
      'not-exists',
      /"nope"/,
      '$.args.template.args.objects.default[0].nope',
    ),
    wrong(
      { type: 'update', args: { table: 'note', where: {}, $set: { n: param('n', true) } } },
      'parse-failed',
      /.*/,
      '$.args.template.args.$set.n.default',
    ),
  ],
  'param.wrong-value': [
    run('page', { above: true }, refused('parse-failed', /^parameter "above": /, '$.args.args.above')),
    run('page', { limit: 'ten' }, refused('parse-failed', /^parameter "limit": /, '$.args.args.limit')),
    run(
      'page',
      { above: 'ten' },
      refused('postgres-error', /^parameter "above": invalid input syntax/, '$.args.args.above'),
    ),
  ],
  'param.never-a-condition': [
    run(
      'by_name',
      { name: { $ne: 'x' } },
      refused('parse-failed', /^parameter "name": expecting a string/, '$.args.args.name'),
    ),
    run('by_name', { name: '" or 1=1 --' }, ids()),
  ],
  'select.where': [
    make(
      'ops',
      select({
        where: { rating: { $gt: param('gt', 0), $neq: param('neq', 0) }, title: { $like: param('like', '%') } },
      }),
    ),
    run('ops', { gt: 30, neq: 50 }, ids(4, 6)),
    run('ops', { like: '%2' }, ids(2)),
  ],
  'select.where-bare': [make('by_id', select({ where: { id: param('id') } })), run('by_id', { id: 3 }, ids(3))],
  'select.where-deep': [
    make(
      'deep',
      select({
        where: {
          $and: [
            { $or: [{ id: param('a') }, { $not: { id: { $lt: param('b') } } }] },
            { author: { name: { $eq: param('name') } } },
          ],
        },
      }),
    ),
    run('deep', { a: 1, b: 5, name: 'Ann' }, ids(1, 5)),
  ],
  'select.where-list': [
    make('listed', select({ where: { $or: [{ id: { $in: param('all') } }, { id: { $in: [1, param('one', 2)] } }] } })),
    run('listed', { all: [5] }, ids(1, 2, 5)),
    run('listed', { all: [], one: 6 }, ids(1, 6)),
    run('listed', { all: [5], one: null }, ids(1, 5)),
    run('listed', { all: 5 }, refused('parse-failed', /^parameter "all": /, '$.args.args.all')),
  ],
  'select.limit-offset': [run('page', { limit: 2, offset: 3 }, ids(4, 5)), run('page', { limit: 0 }, ids())],
  'select.null-limit': [run('page', { limit: null, offset: null }, ids(1, 2, 3, 4, 5, 6))],
  'select.negative': [
    run('page', { limit: -1 }, refused('parse-failed', /whole number/, '$.args.args.limit')),
    wrong(select({ offset: param('n', -1) }), 'parse-failed', /whole number/, '$.args.template.args.offset.default'),
  ],
  'select.relationship': [
    make('authors', {
      type: 'select',
      args: {
        table: 'author',
        columns: [
          'id',
          {
            name: 'articles',
            columns: ['id'],
            where: { rating: { $gt: param('above') } },
            order_by: ['id'],
            limit: param('n', 1),
            offset: param('skip', 0),
          },
        ],
        where: { id: { $lt: 3 } },
        order_by: ['id'],
      },
    }),
    run(
      'authors',
      { above: 15 },
      is([
        { id: 1, articles: [{ id: 3 }] },
        { id: 2, articles: [{ id: 2 }] },
      ]),
    ),
    run(
      'authors',
      { above: 15, n: 2, skip: 1 },
      is([
        { id: 1, articles: [{ id: 5 }] },
        { id: 2, articles: [{ id: 4 }, { id: 6 }] },
      ]),
    ),
  ],
  'select.nothing-else': [
    wrong(select({ table: param('t', 'article') }), 'unexpected-payload', /.*/, '$.args.template.args.table'),
    wrong(select({ columns: param('c', ['id']) }), 'parse-failed', /.*/, '$.args.template.args.columns'),
    wrong(select({ columns: [param('c', 'id')] }), 'unexpected-payload', /.*/, '$.args.template.args.columns[0].param'),
    wrong(select({ order_by: param('o', ['id']) }), 'unexpected-payload', /.*/, '$.args.template.args.order_by.param'),
    wrong(select({ where: param('w', {}) }), 'not-exists', /"param"/, '$.args.template.args.where.param'),
  ],
  'insert.objects': [
    make('add', { type: 'insert', args: { table: 'note', objects: param('objects'), returning: ['id'] } }),
    run('add', { objects: [{ id: 1 }] }, text('{"affected_rows":1,"returning":[{"id":1}]}')),
    run(
      'add',
      { objects: [{ id: 2, body: 'b' }, { id: 3, n: 1 }, { id: 4 }] },
      is({ affected_rows: 3, returning: [{ id: 2 }, { id: 3 }, { id: 4 }] }),
    ),
  ],
  'insert.default': [
    make('add_default', { type: 'insert', args: { table: 'note', objects: param('objects', [{ id: 5 }, { id: 6 }]) } }),
    run('add_default', {}, is({ affected_rows: 2 })),
    run('add_default', { objects: [{ id: 7 }] }, is({ affected_rows: 1 })),
  ],
  'insert.values': [
    make('add_one', { type: 'insert', args: { table: 'note', objects: [{ id: param('id') }, { id: 41 }] } }),
    run('add_one', { id: 40 }, is({ affected_rows: 2 })),
    run('add_one', {}, refused('invalid-params', /parameter "id" is missing/, '$.args.args')),
    run('add_one', { id: 'x' }, refused('postgres-error', /.*/, '$.args.template.args')),
    run('add_one', { id: {} }, refused('parse-failed', /^parameter "id": /, '$.args.args.id')),
    wrong(
      { type: 'insert', args: { table: 'note', objects: [{ id: { nothing: 1 } }] } },
      'parse-failed',
      /.*/,
      '$.args.template.args.objects[0].id',
    ),
    wrong(
      { type: 'insert', args: { table: 'note', objects: [{ nothing: param('x') }] } },
      'not-exists',
      /.*/,
      '$.args.template.args.objects',
    ),
    wrong(
      { type: 'insert', args: { table: 'note', objects: 5 } },
      'parse-failed',
      /.*/,
      '$.args.template.args.objects',
    ),
  ],
  'insert.not-inside': [
    make('add_json', { type: 'insert', args: { table: 'note', objects: [{ id: 42, data: { a: param('x') } }] } }),
    run('add_json', {}, is({ affected_rows: 1 })),
    query('select', { table: 'note', columns: ['data'], where: { id: 42 } }, is([{ data: { a: { param: 'x' } } }])),
    run('add', { objects: [{ id: 8, data: param('x') }] }, is({ affected_rows: 1, returning: [{ id: 8 }] })),
    query('select', { table: 'note', columns: ['data'], where: { id: 8 } }, is([{ data: { param: 'x' } }])),
  ],
  'insert.nothing-else': [
    wrong(
      { type: 'insert', args: { table: 'note', objects: param('o'), on_conflict: param('c') } },
      'unexpected-payload',
      /.*/,
      '$.args.template.args.on_conflict.param',
    ),
    wrong(
      { type: 'insert', args: { table: 'note', objects: param('o'), returning: param('r') } },
      'parse-failed',
      /.*/,
      '$.args.template.args.returning',
    ),
  ],
  'insert.no-array': [
    run('add', { objects: { id: 9 } }, refused('parse-failed', /^parameter "objects": /, '$.args.args.objects')),
    run('add', { objects: [5] }, refused('parse-failed', /^parameter "objects": /, '$.args.args.objects[0]')),
  ],
  'insert.empty': [
    run(
      'add',
      { objects: [] },
      refused('unexpected-payload', 'parameter "objects": objects should not be empty', '$.args.args.objects'),
    ),
  ],
  'insert.row-path': [
    run(
      'add',
      { objects: [{ id: 9 }, { id: 10, body: 5 }] },
      refused(
        'parse-failed',
        /^parameter "objects": column "body" is of type text and takes no integer value$/,
        '$.args.args.objects[1].body',
      ),
    ),
  ],
  'update.where': [
    reset,
    make('put', { type: 'update', args: { table: 'note', where: { id: param('id') }, $set: { body: param('body') } } }),
    run('put', { id: 1, body: 'x' }, is({ affected_rows: 1 })),
    notes([
      { id: 1, body: 'x', n: 5 },
      { id: 2, body: 'two', n: 6 },
    ]),
  ],
  'update.set': [run('put', { id: 1, body: 'one' }, is({ affected_rows: 1 })), notes(TWO)],
  'update.inc': [
    make('inc', {
      type: 'update',
      args: { table: 'note', where: { id: 1 }, $inc: { n: param('by', 1) }, returning: ['n'] },
    }),
    run('inc', {}, is({ affected_rows: 1, returning: [{ n: 6 }] })),
    run('inc', { by: -4 }, is({ affected_rows: 1, returning: [{ n: 2 }] })),
  ],
  'update.mul': [
    make('mul', {
      type: 'update',
      args: { table: 'note', where: { id: 1 }, $mul: { n: param('by') }, returning: ['n'] },
    }),
    run('mul', { by: 3 }, is({ affected_rows: 1, returning: [{ n: 6 }] })),
  ],
  'update.null': [
    run('put', { id: 1, body: null }, is({ affected_rows: 1 })),
    notes([
      { id: 1, body: null, n: 6 },
      { id: 2, body: 'two', n: 6 },
    ]),
  ],
  'update.not-whole': [
    wrong(
      { type: 'update', args: { table: 'note', where: {}, $set: param('set') } },
      'not-exists',
      /"param"/,
      '$.args.template.args.$set',
    ),
  ],
  'delete.where': [
    make('remove', { type: 'delete', args: { table: 'note', where: { id: { $eq: param('id') } } } }),
    run('remove', { id: 2 }, text('{"affected_rows":1}')),
  ],
  'count.where': [
    make('how_many', count({ where: { rating: { $gt: param('above') } } })),
    run('how_many', { above: 30 }, text('{"count":3}')),
  ],
  'count.not-distinct': [wrong(count({ distinct: param('d') }), 'parse-failed', /.*/, '$.args.template.args.distinct')],
  'bulk.parts': [
    reset,
    make('all', {
      type: 'bulk',
      args: [
        { type: 'insert', args: { table: 'note', objects: param('rows') } },
        {
          type: 'update',
          args: { table: 'note', where: { id: param('id') }, $inc: { n: param('by', 1) }, returning: ['n'] },
        },
        { type: 'count', args: { table: 'note', where: { n: { $gt: param('n', 0) } } } },
        { type: 'select', args: { table: 'note', columns: ['id'], order_by: ['-id'], limit: param('limit') } },
        { type: 'delete', args: { table: 'note', where: { id: { $gt: param('id') } } } },
      ],
    }),
    run(
      'all',
      { rows: [{ id: 3, n: 1 }], id: 1, limit: 2 },
      is([
        { affected_rows: 1 },
        { affected_rows: 1, returning: [{ n: 6 }] },
        { count: 3 },
        [{ id: 3 }, { id: 2 }],
        { affected_rows: 2 },
      ]),
    ),
  ],
  'bulk.nested': [
    make('nested', { type: 'bulk', args: [{ type: 'bulk', args: [count({ where: { id: param('id') } })] }] }),
    run('nested', { id: 1 }, is([[{ count: 1 }]])),
  ],
  'bulk.atomic': [
    reset,
    run(
      'all',
      { rows: [{ id: 3, n: 1 }], id: 1, by: 'many', limit: 1 },
      refused('postgres-error', /^parameter "by": /, '$.args.args.by'),
    ),
    run('all', { rows: [{ id: 1 }], id: 1, limit: 1 }, refused('postgres-error', /Uniqueness violation/)),
    notes(TWO),
  ],
  'bulk.not-whole': [
    wrong(
      { type: 'bulk', args: param('queries') },
      'parse-failed',
      'expecting an array of queries',
      '$.args.template.args',
    ),
    wrong(
      { type: 'bulk', args: [param('query')] },
      'unexpected-payload',
      /the type of a template must be one of/,
      '$.args.template.args[0].type',
    ),
  ],
  'type.others': [
    ...[
      'run_sql',
      'execute_query_template',
      'create_query_template',
      'track_table',
      'create_select_permission',
      'nope',
      'constructor',
    ].map((type) =>
      wrong(
        { type, args: {} },
        'unexpected-payload',
        'the type of a template must be one of select, insert, update, delete, count, call, bulk',
        '$.args.template.type',
      ),
    ),
    wrong(
      { type: 'bulk', args: [{ type: 'run_sql', args: { sql: 'select 1' } }] },
      'unexpected-payload',
      /the type of a template must be one of/,
      '$.args.template.args[0].type',
    ),
  ],
  'inside-bulk': [
    query(
      'bulk',
      [{ type: 'execute_query_template', args: { name: 'said', args: {} } }, count()],
      is([{ count: 6 }, { count: 6 }]),
    ),
    query(
      'bulk',
      [{ type: 'execute_query_template', args: { name: 'by_name', args: {} } }],
      refused('invalid-params', 'parameter "name" is missing', '$.args[0].args.args'),
    ),
  ],
  'json.not-searched': [
    make('json', {
      type: 'update',
      args: { table: 'note', where: { id: 1 }, $set: { data: { in: param('x') } }, returning: ['data'] },
    }),
    run('json', { x: 1 }, is({ affected_rows: 1, returning: [{ data: { in: { param: 'x' } } }] })),
    make('whole', {
      type: 'update',
      args: { table: 'note', where: { id: 1 }, $set: { data: param('data') }, returning: ['data'] },
    }),
    run('whole', { data: { $big: 1 } }, text('{"affected_rows":1,"returning":[{"data":{"$big": 1}}]}')),
    rest('GET', 'whole?data={"a":[1]}', is({ affected_rows: 1, returning: [{ data: { a: [1] } }] })),
  ],
  'permission.filter': [run('page', {}, ids(1, 3, 5), ANN), run('by_id', { id: 2 }, ids(), ANN)],
  'permission.columns': [
    make('secret', select({ columns: ['id', 'author_id'] })),
    run(
      'secret',
      {},
      refused(
        'permission-denied',
        'role "user" does not have permission to select column "author_id"',
        '$.args.template.args.columns[1]',
      ),
      ANN,
    ),
    make('by_secret', select({ where: { author_id: param('a') } })),
    run('by_secret', { a: 1 }, refused('permission-denied', /"author_id"/), ANN),
  ],
  'permission.none': [
    run(
      'by_name',
      { name: 'Ann' },
      refused('permission-denied', 'select on "author" for role "user" is not allowed. ', '$.args.template.args.table'),
      ANN,
    ),
    run('page', {}, refused('permission-denied', 'select on "article" for role "guest" is not allowed. '), GUEST),
    run('add', { objects: [{ id: 9 }] }, refused('permission-denied', /"note"/), GUEST),
    rest('GET', 'page', refused('permission-denied', /"article"/), { as: GUEST }),
  ],
  'permission.session': [
    run('page', {}, ids(2, 4, 6), { role: 'user', variables: { 'x-service-user-id': '2' } }),
    run('page', {}, refused('not-found', 'x-service-user-id header is expected but not found'), { role: 'user' }),
  ],
  'permission.insert-check': [
    run(
      'add',
      { objects: [{ id: 9, owner: 2 }] },
      refused('postgres-error', /^the row would not pass the insert check of role "\w+" on "\w+"$/),
      ANN,
    ),
    run('add', { objects: [{ id: 9, owner: 1 }] }, is({ affected_rows: 1, returning: [{ id: 9 }] }), ANN),
  ],
  'permission.update': [
    run('put', { id: 2, body: 'mine' }, is({ affected_rows: 0 }), ANN),
    run('put', { id: 1, body: 'mine' }, is({ affected_rows: 1 }), ANN),
    run(
      'inc',
      {},
      refused(
        'permission-denied',
        'role "user" does not have permission to update column "n"',
        '$.args.template.args.$inc',
      ),
      ANN,
    ),
  ],
  'permission.delete': [
    run('remove', { id: 2 }, is({ affected_rows: 0 }), ANN),
    run('remove', { id: 9 }, is({ affected_rows: 1 }), ANN),
  ],
  'permission.count': [run('said', {}, is({ count: 3 }), ANN)],
  'permission.bulk': [
    make('half', {
      type: 'bulk',
      args: [
        { type: 'delete', args: { table: 'note', where: { id: 1 } } },
        { type: 'count', args: { table: 'author' } },
      ],
    }),
    run('half', {}, refused('permission-denied', /"author"/, '$.args.template.args[1].args.table'), ANN),
    notes([
      { id: 1, body: 'mine', n: 5 },
      { id: 2, body: 'two', n: 6 },
    ]),
  ],
  'permission.limit': [run('page', { limit: 5 }, ids(1, 2), FEW), run('page', { limit: null }, ids(1, 2), FEW)],
  'permission.listed': [
    {
      method: 'GET',
      path: '/v1/template',
      as: FEW,
      expected: like([
        { name: 'between' },
        { name: 'by_id' },
        { name: 'how_many' },
        { name: 'listed' },
        { name: 'nested' },
        { name: 'ops' },
        { name: 'page' },
        { name: 'said' },
        { name: 'unsaid' },
      ]),
    },
    { method: 'GET', path: '/v1/template', as: GUEST, expected: is([]) },
  ],
  'rest.get': [rest('GET', 'page?above=20&limit=2&offset=1', ids(3, 4))],
  'rest.delete': [
    rest('DELETE', 'page?limit=2', ids(1, 2), { body: '{"limit": 1}' }),
    rest('DELETE', 'page?limit=2', ids(1, 2), { body: '{' }),
  ],
  'rest.post': [
    rest('POST', 'page?limit=2', ids(1, 2), { body: '{}' }),
    rest('POST', 'page', ids(1), { body: '{"limit": 1}' }),
    rest('POST', 'page?limit=2&above=30', ids(3), { body: '{"limit": 1}' }),
  ],
  'rest.put': [rest('PUT', 'page?limit=2&above=30', ids(3), { body: '{"limit": 1}' })],
  'rest.body-null': [
    rest('POST', 'nameless?name=Ann', ids(3), { body: '{"name": null}' }),
    rest('POST', 'page?limit=1', ids(1, 2, 3, 4, 5, 6), { body: '{"limit": null}' }),
  ],
  'rest.empty-body': [rest('POST', 'page?limit=1', ids(1)), rest('PUT', 'page?limit=1', ids(1), { body: '' })],
  'rest.body-object': [
    rest('POST', 'page', refused('parse-failed', 'expecting an object of arguments', '$'), { body: '[]' }),
    rest('PUT', 'page', refused('parse-failed', 'expecting an object of arguments', '$'), { body: '5' }),
    rest('POST', 'page', refused('invalid-json', /invalid json/i, '$'), { body: '{' }),
  ],
  'rest.same-answer': [rest('GET', 'said', text('{"count":6}')), rest('GET', 'nested?id=1', text('[[{"count":1}]]'))],
  'rest.any-method-select': everyMethod('page?limit=1', text('[{"id":1}]')),
  'rest.any-method-insert': everyMethod(
    `add?objects=${encodeURIComponent('[{"id":3}]')}`,
    is({ affected_rows: 1, returning: [{ id: 3 }] }),
    reset,
  ),
  'rest.any-method-update': everyMethod('put?id=1&body=x', is({ affected_rows: 1 }), reset),
  'rest.any-method-delete': everyMethod('remove?id=1', is({ affected_rows: 1 }), reset),
  'rest.any-method-count': everyMethod('how_many?above=50', is({ count: 1 })),
  'rest.any-method-bulk': everyMethod(
    `all?id=1&limit=1&rows=${encodeURIComponent('[{"id":3}]')}`,
    is([
      { affected_rows: 1 },
      { affected_rows: 1, returning: [{ n: 6 }] },
      { count: 2 },
      [{ id: 3 }],
      { affected_rows: 2 },
    ]),
    reset,
  ),
  'rest.other-methods': ['HEAD', 'PATCH', 'PROPFIND'].flatMap((method) => [
    rest(method, 'remove?id=1', { status: 405 }),
    notes(ONE.map((row) => ({ ...row, n: 6 }))),
  ]),
  'rest.head': [rest('HEAD', 'by_id?id=1', { status: 200, text: '' }), rest('HEAD', 'nope', { status: 400 })],
  'rest.default': [rest('GET', 'page', ids(1, 2, 3, 4, 5, 6))],
  'rest.missing': [rest('GET', 'by_id', refused('invalid-params', 'parameter "id" is missing', '$'))],
  'rest.extra': [
    rest('GET', 'by_id?id=1&page=7&page=8', ids(1)),
    rest('POST', 'by_id?id=1', ids(1), { body: '{"page": [7]}' }),
  ],
  'rest.not-there': [rest('GET', 'nope', refused('not-exists', 'query-template "nope" does not exist', '$'))],
  'rest.name-escaped': [
    make('a name / with % signs', count()),
    rest('GET', 'a%20name%20%2F%20with%20%25%20signs', is({ count: 6 })),
  ],
  'rest.role': [
    rest('GET', 'page', ids(1, 3, 5), { as: ANN }),
    rest('GET', 'secret', refused('permission-denied', /"author_id"/, '$.template.args.columns[1]'), { as: ANN }),
  ],
  'rest.types': [
    make('typed', {
      type: 'select',
      args: {
        table: 'author',
        columns: ['id'],
        where: {
          $or: [
            { born: param('born', '1900-01-01') },
            { uid: param('uid', '00000000-0000-0000-0000-000000000009') },
            { big: param('big', 0) },
            { num: param('num', 0) },
            { name: param('name', '') },
          ],
        },
      },
    }),
    ...['born=1970-01-02', `uid=${UID}`, 'big=9007199254740993', 'num=1.1', 'name=Ann'].map((one) =>
      rest('GET', `typed?${one}`, ids(1)),
    ),
    rest('GET', 'typed', ids()),
    make('flagged', { type: 'select', args: { table: 'author', columns: ['id'], where: { flag: param('flag') } } }),
    rest('GET', 'flagged?flag=true', ids(1)),
    rest('GET', 'flagged?flag=false', ids(2)),
    make('holds', {
      type: 'select',
      args: { table: 'author', columns: ['id'], where: { data: { $contains: param('data') } } },
    }),
    rest('GET', `holds?data=${encodeURIComponent('{"k": 1}')}`, ids(1)),
    make('tagged', {
      type: 'select',
      args: { table: 'author', columns: ['id'], where: { tags: { $contains: param('tags') } } },
    }),
    rest('GET', 'tagged?tags=a&tags=b', ids(1)),
    rest('GET', `tagged?tags=${encodeURIComponent('["a"]')}`, ids(1)),
    rest('GET', 'tagged?tags=b', ids(1)),
    rest('GET', 'tagged?tags={b,a}', ids(1)),
    rest('POST', 'tagged', ids(1), { body: '{"tags": ["a"]}' }),
  ],
  'rest.wrong-type': [
    rest(
      'GET',
      'by_id?id=one',
      refused('postgres-error', /^parameter "id": invalid input syntax for type integer/, '$.id'),
    ),
    rest('POST', 'by_id', refused('parse-failed', /^parameter "id": /, '$.id'), {
      body: '{"id": true}',
    }),
  ],
  'rest.list-repeated': [
    rest('GET', 'listed?all=5&all=6', ids(1, 2, 5, 6)),
    make('by_tags', { type: 'count', args: { table: 'author', where: { tags: { $eq: param('tags') } } } }),
    ...['tags=a&tags=b', 'tags=["a","b"]', 'tags={a,b}'].map((tags) =>
      rest('GET', `by_tags?${tags}`, is({ count: 1 })),
    ),
    rest('GET', 'by_tags?tags=a', is({ count: 0 })),
    query('drop_query_template', { name: 'by_tags' }, done),
  ],
  'rest.list-json': [rest('GET', 'listed?all=[5,6]', ids(1, 2, 5, 6)), rest('GET', 'listed?all=[]', ids(1, 2))],
  'rest.list-one': [rest('GET', 'listed?all=5', ids(1, 2, 5))],
  'rest.repeat': [
    rest(
      'GET',
      'by_id?id=1&id=2',
      refused('invalid-params', 'parameter "id" is not a list and can appear only once', '$.id'),
    ),
    rest('GET', 'page?limit=1&limit=2', refused('invalid-params', /can appear only once/, '$.limit')),
    rest('GET', 'add?objects=[]&objects=[]', refused('invalid-params', /can appear only once/, '$.objects')),
  ],
  'rest.objects': [
    reset,
    rest(
      'GET',
      `add?objects=${encodeURIComponent('[{"id":3},{"id":4,"body":"x"}]')}`,
      is({ affected_rows: 2, returning: [{ id: 3 }, { id: 4 }] }),
    ),
    rest('POST', 'add', is({ affected_rows: 1, returning: [{ id: 5 }] }), { body: '{"objects": [{"id": 5}]}' }),
  ],
  'rest.count': [
    rest(
      'GET',
      'page?limit=many',
      refused('invalid-params', 'expecting a whole number for parameter "limit"', '$.limit'),
    ),
    rest('GET', 'page?limit=-1', refused('invalid-params', /whole number/, '$.limit')),
    rest('GET', 'page?limit=', refused('invalid-params', /whole number/, '$.limit')),
  ],
  'rest.bad-json': [
    rest('GET', 'listed?all=[5', refused('invalid-json', /invalid json/i, '$.all')),
    rest('GET', 'add?objects=x', refused('invalid-json', /invalid json/i, '$.objects')),
  ],
  'rest.digits': [
    make('digits', {
      type: 'select',
      args: { table: 'author', columns: ['big', 'num'], where: { big: param('big') } },
    }),
    rest('GET', 'digits?big=9007199254740993', text('[{"big":9007199254740993,"num":1.10}]')),
    rest('POST', 'digits', text('[{"big":9007199254740993,"num":1.10}]'), { body: '{"big": 9007199254740993}' }),
    rest('POST', 'digits', text('[]'), { body: '{"big": 9007199254740992}' }),
  ],
  'rest.duplicate-key': [
    rest('POST', 'by_id', refused('parse-failed', /duplicate key/, '$.id'), { body: '{"id": 1, "id": 2}' }),
  ],
  'rest.no-store': [rest('GET', 'by_id?id=1', { status: 200, headers: { 'cache-control': 'no-store' } })],
  'rest.cookie-read': [reset, bare('GET', 'page', ids(1, 3, 5), COOKIE)],
  'rest.cookie-write': [
    bare('GET', 'remove?id=1', refused('csrf', /POST, PUT or DELETE/, '$', 403), COOKIE),
    bare('GET', 'half', refused('csrf', /POST, PUT or DELETE/, '$', 403), COOKIE),
    notes(TWO),
  ],
  'rest.cookie-delete': [
    bare('DELETE', 'remove?id=1', refused('csrf', /same origin/, '$', 403), COOKIE),
    notes(TWO),
    bare('DELETE', 'remove?id=1', is({ affected_rows: 1 }), { ...COOKIE, 'x-service-csrf': '1' }),
  ],
  'rest.cookie-post': [
    reset,
    bare(
      'POST',
      'put?id=1&body=x',
      refused('csrf', /same origin/, '$', 403),
      { ...COOKIE, 'content-type': 'application/json' },
      '{}',
    ),
    bare(
      'POST',
      'put?id=1&body=x',
      { status: 415 },
      { ...COOKIE, 'x-service-csrf': '1', 'content-type': 'text/plain' },
      '{}',
    ),
    notes(TWO),
    bare(
      'POST',
      'put?id=1&body=x',
      is({ affected_rows: 1 }),
      { ...COOKIE, 'x-service-csrf': '1', 'content-type': 'application/json' },
      '{}',
    ),
  ],
  'rest.prefetch': [
    reset,
    {
      ...rest('GET', 'remove?id=1', refused('csrf', /POST, PUT or DELETE/, '$', 403)),
      headers: { 'sec-purpose': 'prefetch;prerender' },
    },
    notes(TWO),
    { ...rest('GET', 'by_id?id=1', ids(1)), headers: { 'sec-purpose': 'prefetch' } },
  ],
  'rest.anonymous': [
    bare('GET', 'page', refused('permission-denied', 'select on "article" for role "anonymous" is not allowed. '), {}),
  ],
  'rest.role-not-held': [
    bare('GET', 'page', refused('access-denied', /.*/, '$', 403), {
      authorization: `Bearer ${TOKEN}`,
      'x-service-role': 'admin',
    }),
    bare('GET', 'page', refused('access-denied', /.*/, '$', 403), { 'x-service-role': 'user' }),
  ],
  'keep.drop-column': [
    make('pets', {
      type: 'select',
      args: { table: 'pet', columns: ['id', { name: 'master', columns: ['id'] }], where: { age: param('age') } },
    }),
    sql(
      'alter table pet drop column age',
      refused('dependency-error', 'cannot drop because of dependent objects: query-template pets', '$.args'),
    ),
  ],
  'keep.drop-table': [sql('drop table pet', refused('dependency-error', /query-template pets/, '$.args'))],
  'keep.type': [
    sql('alter table pet alter column age type bigint', refused('dependency-error', /query-template pets/, '$.args')),
    sql(
      'alter table pet alter column age type bigint',
      refused('dependency-error', /query-template pets/, '$.args'),
      true,
    ),
  ],
  'keep.untrack': [query('untrack_table', { table: 'pet' }, refused('dependency-error', /query-template pets/))],
  'keep.relationship': [
    query(
      'drop_relationship',
      { table: 'pet', relationship: 'master' },
      refused('dependency-error', /query-template pets/),
    ),
  ],
  'keep.cascade': [
    sql('alter table pet drop column age', is({ result_type: 'CommandOk' }), true),
    run('pets', { age: 1 }, refused('not-exists', 'query-template "pets" does not exist')),
    stored('pets', is([])),
  ],
  'drop.name-required': [
    query('drop_query_template', {}, refused('parse-failed', "the key 'name' was not present", '$.args')),
  ],
  'drop.admin': [
    query(
      'drop_query_template',
      { name: 'said' },
      refused('access-denied', 'only the role admin may do this', '$'),
      ANN,
    ),
  ],
  'drop.gone': [
    query('drop_query_template', { name: 'said' }, done),
    run('said', {}, refused('not-exists', 'query-template "said" does not exist')),
    rest('GET', 'said', refused('not-exists', 'query-template "said" does not exist')),
    stored('said', is([])),
  ],
  'drop.not-there': [
    query(
      'drop_query_template',
      { name: 'said' },
      refused('not-exists', 'query-template "said" does not exist', '$.args.name'),
    ),
  ],
  'error.shape': [
    rest('GET', 'nope', {
      status: 400,
      body: { path: '$', error: 'query-template "nope" does not exist', code: 'not-exists' },
    }),
    run(
      'add',
      { objects: [{ id: 1 }] },
      {
        status: 400,
        like: { path: '$.args.template.args', code: 'postgres-error', internal: { status_code: '23505' } },
      },
    ),
    run(
      'add',
      { objects: [{ id: 1, owner: 1 }] },
      {
        status: 400,
        body: {
          path: '$.args.template.args',
          code: 'postgres-error',
          error: 'Uniqueness violation. duplicate key value violates unique constraint "note_pkey"',
        },
      },
      ANN,
    ),
  ],
}

/** Its promises, with a case for each. */
export const templates = area('templates', {
  promises: PROMISES,
  cases: CASES,
  start,
  pages: {
    'plugins/template/README.md': {
      REST: {
        'HEAD works for templates that read, and fails with 405 for others, because it must have no effect.': [
          'rest.head',
          'rest.other-methods',
        ],
      },
      'Operations of `POST /v1/query`': {
        '`create_query_template`': ['create.answer', 'create.admin'],
        '`execute_query_template`': ['execute.answer', 'permission.filter'],
        '`drop_query_template`': ['drop.gone', 'drop.admin'],
        '`set_query_template_comment`': ['comment.set', 'comment.null', 'comment.admin'],
      },
      Parameters: {
        '`select`': ['select.where', 'select.limit-offset', 'select.relationship', 'select.nothing-else'],
        '`insert`': ['insert.objects', 'insert.values'],
        '`update`': ['update.where', 'update.set', 'update.inc', 'update.mul'],
        '`delete`': 'delete.where',
        '`count`': 'count.where',
        '`bulk`': ['bulk.parts', 'bulk.nested'],
      },
    },
  },
})

async function start(t: Test) {
  const server = await testServer(t, { config: { auth: { jwt: { algorithms: ['HS256'], key: KEY } } } })
  const own = { owner: 'X-SERVICE-USER-ID' }
  await setUpLibrary(server, [
    permit('select', 'article', 'user', {
      columns: ['id', 'title', 'rating'],
      filter: { author_id: 'X-SERVICE-USER-ID' },
    }),
    permit('select', 'article', 'few', { columns: ['id', 'title', 'rating'], filter: {}, limit: 2 }),
    permit('select', 'note', 'user', { columns: ['id'], filter: {} }),
    permit('insert', 'note', 'user', { check: own }),
    permit('update', 'note', 'user', { columns: ['body'], filter: own }),
    permit('delete', 'note', 'user', { filter: own }),
  ])
  return server
}
