import type { Test } from 'tap'
import { area, type Case, exactly, type Expected, is, like, query, refused, type Step } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** What writing rows with their related rows promises. */
const PROMISES = {
  'insert.down': 'an insert writes the rows of a relationship to many rows, with the key of their row',
  'insert.up': 'an insert writes the row that its row belongs to, first',
  'insert.after-one': 'an insert writes the one row that references its row, after it; the key may be shared',
  'insert.order': 'a manual relationship is inserted in the order of the keys, or of insertion_order',
  'insert.deep': 'related rows have related rows, at any depth',
  'insert.none': 'a relationship may be null, an empty list, or missing',
  'insert.returning': 'returning shows the related rows, and affected_rows counts the rows of all tables',
  'insert.column-like-rows': 'a column whose value looks like related rows stays a column',
  'insert.atomic': 'if a related row fails, nothing is written',
  'insert.conflict-must-not-skip': 'on_conflict must not skip a row that other rows belong to',
  'insert.conflict': 'related rows have an on_conflict of their own',
  'insert.relationship-key': 'the rows of a relationship are an object with the key data',
  'insert.joined-column': 'the relationship determines the columns that join the rows: a value for them is refused',
  'insert.path': 'a mistake in a related row has the path of that row',
  'insert.skipped': 'a row that a trigger skips may have no related rows',
  'insert.joined-twice': 'two relationships may determine a column, with the same value',
  'insert.inherited': 'rows of a table that others inherit from are not confused with theirs',
  'insert.view':
    'rows of a view can be related rows, also in the middle, and are checked at once; those of the request have a key',
  'insert.role': 'each insert needs its own permission, check and presets, and the outer check sees the related rows',
  'update.delete': 'delete removes the related rows that meet its condition',
  'update.update': 'update changes the related rows that meet its condition, several times in the order given',
  'update.insert': 'insert adds the rows to each row that the outer where meets',
  'update.insert-one': 'insert adds the one row that references a row, and none that a row references',
  'update.order': 'delete, update and insert run in this order, and returning shows the result',
  'update.others': 'related rows of other rows stay as they are',
  'update.deep': 'updates inside of updates',
  'update.up': 'an update changes the row that its row belongs to',
  'update.only-related': 'a $set with relationships only counts the outer rows, and changes no column of them',
  'update.wrong': 'parts that do not exist or do not fit are refused with their path',
  'update.limit': 'an update inserts at most 10,000 related rows and has at most 2,000 statements',
  'update.role': 'each part of an update needs its own permission and checks',
  'role.hidden-relationship': 'a role cannot tell a hidden relationship from none',
  'role.conflict-check': 'a related row that existed already must pass the check of updates',
} as const

const SQL = `
create table customer (id serial primary key, name text not null unique, vip bool not null default false);
create table purchase (
  id serial primary key, note text not null, tags jsonb, customer_id int references customer, owner int not null default 1
);
create table item (
  id serial primary key, purchase_id int not null references purchase on delete cascade, sku text not null,
  qty int not null default 1, unique (purchase_id, sku)
);
create table secret (id serial primary key, item_id int references item);
create table passport (id serial primary key, customer_id int not null unique references customer, no text);
create table badge (id serial primary key references customer deferrable initially deferred, colour text);
create table note (id int primary key, line text);
create table part (tenant int, id int, primary key (tenant, id));
create table box (tenant int, id int, primary key (tenant, id));
create table packed (tenant int, box int, part int, foreign key (tenant, box) references box, foreign key (tenant, part) references part);
create table picky (id serial primary key, n int);
create function pick() returns trigger language plpgsql as $$ begin if new.n = 0 then return null; end if; return new; end $$;
create trigger pick before insert on picky for each row execute function pick();
create table pickier (id int primary key, n int) partition by range (id);
create table pickier_1 partition of pickier for values from (0) to (100);
create trigger pick before insert on pickier_1 for each row execute function pick();
create view picky_view as select * from picky;
create table picked (picky_id int);
create table event (id int primary key, line text);
create table old_event (at int) inherits (event);
create table visit (id serial primary key, event_id int);
create view cheap as select id, purchase_id, sku from item;`

const TABLES = ['customer', 'purchase', 'item', 'secret', 'cheap', 'passport', 'badge', 'note', 'part', 'box', 'packed', 'picky', 'pickier', 'picky_view', 'picked', 'event', 'visit'] // prettier-ignore
const USER: As = { role: 'user', variables: { 'x-service-user-id': '7' } }
const VIEWER: As = { role: 'viewer' }
const CLERK: As = { role: 'clerk' }

const ITEMS = { name: 'items', columns: ['sku', 'qty'], order_by: ['sku'] }
const insert = (objects: unknown, expected: Expected, as?: As, more: object = {}): Step =>
  query('insert', { table: 'purchase', objects, ...more }, expected, as)
const update = (where: object, $set: object, expected: Expected, as?: As, more: object = {}): Step =>
  query('update', { table: 'purchase', where, $set, ...more }, expected, as)
const affected = (affected_rows: number, returning?: unknown): Expected =>
  exactly({ affected_rows, ...(returning ? { returning } : {}) })
const count = (table: string, n: number, where: object = {}): Step =>
  query('count', { table, where }, exactly({ count: n }))
const items = (note: string, ...all: (readonly [sku: string, qty: number])[]): Step =>
  query(
    'select',
    { table: 'item', columns: ['sku', 'qty'], where: { purchase: { note } }, order_by: ['sku'] },
    exactly(all.map(([sku, qty]) => ({ sku, qty }))),
  )
const wrongItems = (given: unknown, path: string, error = /./): Step =>
  update({}, { items: given }, { status: 400, like: { path: `$.args.$set.items${path}`, error } })
/** New rows: `a` of user 7, with three items, and `b` of user 8, with two. */
const FRESH: readonly Step[] = [
  query('run_sql', { sql: 'truncate purchase, item, secret restart identity cascade' }, { status: 200 }),
  insert(
    [
      { note: 'a', owner: 7, items: { data: [{ sku: 'x' }, { sku: 'y' }, { sku: 'keep' }] } },
      { note: 'b', owner: 8, items: { data: [{ sku: 'x' }, { sku: 'z', qty: 60 }] } },
    ],
    affected(7),
  ),
]
const upsert = (constraint: string, data: unknown) => ({ data, on_conflict: { action: 'update', constraint } })

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'insert.down': [
    insert(
      [
        { note: 'a', items: { data: [{ sku: 'x', qty: 2 }, { sku: 'y' }] } },
        { note: 'b', items: { data: { sku: 'z' } } },
        { note: 'c' },
      ],
      affected(6),
    ),
    items('a', ['x', 2], ['y', 1]),
    items('b', ['z', 1]),
    items('c'),
    insert([{ note: 'big', items: { data: [{ sku: '9', id: 2147483647 }] } }], affected(2)),
  ],
  'insert.up': [
    insert([{ note: 'up', customer: { data: { name: 'Ann', vip: true } } }], affected(2)),
    query(
      'select',
      { table: 'purchase', columns: [{ name: 'customer', columns: ['name', 'vip'] }], where: { note: 'up' } },
      exactly([{ customer: { name: 'Ann', vip: true } }]),
    ),
  ],
  'insert.after-one': [
    query(
      'insert',
      {
        table: 'customer',
        objects: [
          { name: 'own', id: 900, passport: { data: { no: 'P1' } }, badge: { data: { colour: 'red' } } },
          { name: 'given', passport: { data: { no: 'P2' } } },
        ],
        returning: ['name', { name: 'passport', columns: ['no'] }, { name: 'badge', columns: ['id', 'colour'] }],
      },
      affected(5, [
        { name: 'own', passport: { no: 'P1' }, badge: { id: 900, colour: 'red' } },
        { name: 'given', passport: { no: 'P2' }, badge: null },
      ]),
    ),
    query(
      'insert',
      { table: 'customer', objects: [{ name: 'twice', passport: { data: { no: 'P3', customer_id: 1 } } }] },
      {
        status: 400,
        like: { path: '$.args.objects[0].passport.data.customer_id', error: /determines the value of "customer_id"/ },
      },
    ),
    query(
      'insert',
      { table: 'customer', objects: [{ name: 'many', passport: { data: [{ no: 'P4' }] } }] },
      { status: 400, like: { path: '$.args.objects[0].passport.data', error: /expecting an object/ } },
    ),
  ],
  'insert.order': [
    query(
      'insert',
      { table: 'customer', objects: [{ name: 'manual', id: 901, papers: { data: { no: 'M' } } }] },
      affected(2),
    ),
    query(
      'insert',
      { table: 'note', objects: [{ id: 1, later: { data: { line: 'after' } } }] },
      exactly({ affected_rows: 2 }),
    ),
    query(
      'insert',
      { table: 'note', objects: [{ sooner: { data: { id: 2, line: 'before' } } }] },
      exactly({ affected_rows: 2 }),
    ),
    query('select', { table: 'event', columns: ['id', 'line'], order_by: ['id'], where: { id: { $lt: 9 } } }, exactly([{ id: 1, line: 'after' }, { id: 2, line: 'before' }])), // prettier-ignore
    ...[
      ['object', 'now', /before_parent, after_parent or null/],
      ['array', 'before_parent', /inserted after their row/],
    ].map(([kind, insertion_order, error]) =>
      query(
        `create_${kind}_relationship`,
        {
          table: 'note',
          name: 'odd',
          using: { manual_configuration: { remote_table: 'event', column_mapping: { id: 'id' }, insertion_order } },
        },
        { status: 400, like: { path: '$.args.using.manual_configuration.insertion_order', error } },
      ),
    ),
  ],
  'insert.deep': [
    query(
      'insert',
      {
        table: 'customer',
        objects: [
          {
            name: 'Dee',
            purchases: {
              data: [{ note: 'd1', items: { data: [{ sku: 's', secrets: { data: [{}, {}] } }] } }, { note: 'd2' }],
            },
          },
        ],
      },
      affected(6),
    ),
    items('d1', ['s', 1]),
    count('secret', 2, { item: { purchase: { customer: { name: 'Dee' } } } }),
  ],
  'insert.none': [
    insert(
      [
        { note: 'none', items: { data: [] }, customer: null },
        { note: 'none', items: null },
      ],
      affected(2),
    ),
    items('none'),
  ],
  'insert.returning': [
    insert(
      [{ note: 'r', items: { data: [{ sku: 'y' }, { sku: 'x', qty: 3 }] } }, { note: 's' }],
      affected(4, [
        {
          note: 'r',
          items: [
            { sku: 'x', qty: 3 },
            { sku: 'y', qty: 1 },
          ],
        },
        { note: 's', items: [] },
      ]),
      undefined,
      { returning: ['note', ITEMS] },
    ),
  ],
  'insert.column-like-rows': [
    insert(
      [{ note: 'tags', tags: { data: [1] } }],
      { status: 200, body: { affected_rows: 1, returning: [{ tags: { data: [1] } }] } },
      undefined,
      { returning: ['tags'] },
    ),
  ],
  'insert.atomic': [
    insert(
      [{ note: 'fail', customer: { data: { name: 'Fay' } }, items: { data: [{ sku: 'q' }, { sku: 'q' }] } }],
      refused('postgres-error', /^Uniqueness violation/),
    ),
    count('purchase', 0, { note: 'fail' }),
    count('customer', 0, { name: 'Fay' }),
  ],
  'insert.conflict-must-not-skip': [
    insert(
      [
        {
          note: 'skip',
          customer: { data: { name: 'Ann' }, on_conflict: { action: 'ignore', constraint: 'customer_name_key' } },
        },
      ],
      { status: 400, like: { error: /on_conflict skipped/ } },
    ),
    count('purchase', 0, { note: 'skip' }),
  ],
  'insert.conflict': [
    insert([{ note: 'again', customer: upsert('customer_name_key', { name: 'Ann', vip: false }) }], affected(2)),
    query('select', { table: 'customer', columns: ['vip'], where: { name: 'Ann' } }, exactly([{ vip: false }])),
    count('purchase', 2, { customer: { name: 'Ann' } }),
  ],
  'insert.relationship-key': [
    insert(
      [{ note: 'p', items: {} }],
      refused('unexpected-payload', 'expecting an object with the key data', '$.args.objects[0].items'),
    ),
    insert([{ note: 'p', items: { data: [5] } }], { status: 400, like: { path: '$.args.objects[0].items.data' } }),
  ],
  'insert.joined-column': [
    insert([{ note: 'p', items: { data: { purchase_id: 1 } } }], {
      status: 400,
      like: { path: '$.args.objects[0].items.data.purchase_id' },
    }),
    insert([{ note: 'p', customer_id: 1, customer: { data: { name: 'Joe' } } }], {
      status: 400,
      like: { path: /^\$\.args\.objects\[0\]/ },
    }),
  ],
  'insert.path': [
    insert(
      [{ note: 'p' }, { note: 'p', items: { data: [{ sku: 'a' }, { sku: 5 }] } }],
      refused('parse-failed', /./, '$.args.objects[1].items.data[1].sku'),
    ),
    insert([{ note: 'p' }, { items: { data: [] }, note: 5 }], refused('parse-failed', /./, '$.args.objects[1].note')),
    insert(
      [{ note: 'p', items: { data: { nope: 1 } } }],
      refused('not-exists', 'column "nope" does not exist', '$.args.objects[0].items.data.nope'),
    ),
    insert(
      [{ note: 'p' }, { note: 'p', items: { data: [{ sku: 'a' }, { sku: 'a', nope: 1 }] } }],
      refused('not-exists', 'column "nope" does not exist', '$.args.objects[1].items.data[1].nope'),
    ),
    insert(
      [
        { note: 'p' },
        { note: 'p', items: { data: [{ sku: 'a' }], on_conflict: { action: 'ignore', constraint: 'no' } } },
      ],
      refused(
        'unexpected-payload',
        /^"no" is not a unique constraint/,
        '$.args.objects[1].items.on_conflict.constraint',
      ),
    ),
    insert([{ note: 'p', items: { data: { sku: 'a' }, on_conflict: { action: 'no' } } }], {
      status: 400,
      like: { path: '$.args.objects[0].items.on_conflict.action' },
    }),
    {
      path: '/v1/query',
      method: 'POST',
      body: '{"type":"insert","args":{"table":"purchase","objects":[{"note":"p","items":{"data":[{"sku":"a","sku":"b"}]}}]}}',
      expected: refused('parse-failed', /duplicate key/, '$.args.objects[0].items.data[0].sku'),
    },
    count('purchase', 0, { note: 'p' }),
  ],
  'insert.skipped': [
    query(
      'insert',
      { table: 'picky', objects: [{ n: 0 }, { n: 1, picked: { data: [{}] } }, { n: 2, picked: { data: [] } }] },
      affected(3),
    ),
    query(
      'insert',
      {
        table: 'pickier',
        objects: [
          { id: 1, n: 0 },
          { id: 2, n: 1, picked: { data: [{}] } },
          { id: 3, n: 2 },
        ],
      },
      affected(3),
    ),
    query(
      'insert',
      {
        table: 'note',
        objects: [
          { id: 0, views: { data: [{}] } },
          { id: 3, views: { data: [{ picked: { data: [{}] } }] } },
        ],
      },
      affected(4),
    ),
    query(
      'insert',
      { table: 'picky', objects: [{ n: 0, picked: { data: [{}] } }] },
      { status: 400, like: { path: '$.args.objects', error: /^"picky" did not take a row .*trigger/ } },
    ),
  ],
  'insert.joined-twice': [
    query(
      'insert',
      {
        table: 'box',
        objects: [{ tenant: 1, id: 1, packed: { data: [{ part_of: { data: { tenant: 1, id: 7 } } }] } }],
        returning: [{ name: 'packed', columns: ['tenant', 'part'] }],
      },
      affected(3, [{ packed: [{ tenant: 1, part: 7 }] }]),
    ),
    query(
      'insert',
      {
        table: 'box',
        objects: [{ tenant: 2, id: 1, packed: { data: [{ part_of: { data: { tenant: 1, id: 8 } } }] } }],
      },
      {
        status: 400,
        like: { path: '$.args.objects[0].packed.data[0].part_of', error: /gives "tenant" another value/ },
      },
    ),
  ],
  'insert.inherited': [
    query('run_sql', { sql: `insert into old_event values (10, 'old', 1), (10, 'older', 2)` }, { status: 200 }),
    query(
      'insert',
      { table: 'event', objects: [{ id: 10, line: 'new' }], returning: ['line', { name: 'visits', columns: ['id'] }] },
      affected(1, [{ line: 'new', visits: [] }]),
    ),
    query(
      'update',
      {
        table: 'event',
        where: { id: 10 },
        $set: { line: 'all' },
        returning: ['line', { name: 'visits', columns: ['id'] }],
      },
      affected(
        3,
        [1, 2, 3].map(() => ({ line: 'all', visits: [] })),
      ),
    ),
  ],
  'insert.view': [
    insert([{ note: 'seen', cheaps: { data: [{ sku: 'c1' }, { sku: 'c2', id: 5000 }] } }], affected(3)),
    insert([{ note: 'by user', cheaps: { data: [{ sku: 'u' }] } }], affected(2), USER),
    insert(
      [{ note: 'by user', cheaps: { data: [{ sku: 'bad' }] } }],
      { status: 400, like: { error: /insert check of role "user" on "cheap"/ } },
      USER,
    ),
    ...[{}, VIEWER].flatMap((as: As): readonly Step[] => [
      insert([{ note: 'middle', cheaps: { data: [{ sku: 'm', secrets: { data: [{}, {}] } }, { sku: 'n' }] } }], affected(5), as), // prettier-ignore
      query(
        'insert',
        { table: 'secret', objects: [{ cheap: { data: { sku: `first ${as.role}`, purchase_id: 1 } } }] },
        affected(2),
        as,
      ),
    ]),
    ...[
      ['purchase', { note: 'middle', cheaps: { data: [{ sku: 'bad', secrets: { data: [{}] } }] } }],
      ['secret', { cheap: { data: { purchase_id: 1, sku: 'bad' } } }],
      ['secret', { cheap: { data: { purchase_id: 1, sku: 'bad', secrets: { data: [{}] } } } }],
    ].map(([table, row]) =>
      query(
        'insert',
        { table, objects: [row] },
        { status: 400, like: { error: /insert check of role "viewer" on "cheap"/ } },
        VIEWER,
      ),
    ),
    count('item', 0, { sku: 'bad' }),
    query(
      'insert',
      { table: 'cheap', objects: [{ purchase_id: 1, sku: 'v', items: { data: [] } }] },
      { status: 400, like: { error: /"cheap" has no key/ } },
    ),
  ],
  'insert.role': [
    insert(
      [{ note: 'u', items: { data: [{ sku: 's', qty: 0 }] } }],
      { status: 400, like: { error: /insert check of role "user" on "item"/ } },
      USER,
    ),
    insert(
      [{ note: 'u', items: { data: [{ sku: 's', qty: 100 }] } }],
      { status: 400, like: { error: /insert check of role "user" on "purchase"/ } },
      USER,
    ),
    insert(
      [{ note: 'u', customer: { data: { name: 'New' } } }],
      refused(
        'permission-denied',
        /^insert on "customer" for role "user" is not allowed/,
        '$.args.objects[0].customer',
      ),
      USER,
    ),
    count('purchase', 0, { note: 'u' }),
    count('customer', 0, { name: 'New' }),
    insert(
      [{ note: 'u', items: { data: [{ sku: 's' }] } }],
      affected(2, [{ note: 'u', items: [{ sku: 's', qty: 1 }] }]),
      USER,
      { returning: ['note', ITEMS] },
    ),
    query('select', { table: 'purchase', columns: ['owner'], where: { note: 'u' } }, exactly([{ owner: 7 }])),
  ],
  'update.delete': [
    ...FRESH,
    update({ note: 'a' }, { items: { delete: { where: { sku: { $in: ['y', 'z'] } } } } }, affected(2)),
    items('a', ['keep', 1], ['x', 1]),
    items('b', ['x', 1], ['z', 60]),
  ],
  'update.update': [
    update(
      { note: 'a' },
      {
        items: {
          update: [
            { where: { sku: 'x' }, $set: { qty: 5 } },
            { where: { sku: 'x' }, $inc: { qty: 1 } },
          ],
        },
      },
      affected(3),
    ),
    items('a', ['keep', 1], ['x', 6]),
    update({ note: 'a' }, { items: { update: { where: {}, $mul: { qty: 2 } } } }, affected(3)),
    items('a', ['keep', 2], ['x', 12]),
  ],
  'update.insert': [
    update({}, { items: { insert: { data: { sku: 'each' } } } }, affected(4)),
    items('a', ['each', 1], ['keep', 2], ['x', 12]),
    items('b', ['each', 1], ['x', 1], ['z', 60]),
    update(
      { note: 'b' },
      { items: { insert: upsert('item_purchase_id_sku_key', [{ sku: 'each', qty: 9 }]) } },
      affected(2),
    ),
    items('b', ['each', 9], ['x', 1], ['z', 60]),
  ],
  'update.insert-one': [
    query('insert', { table: 'customer', objects: [{ name: 'late' }] }, affected(1)),
    query(
      'update',
      { table: 'customer', where: { name: 'late' }, $set: { passport: { insert: { data: { no: 'L' } } } } },
      affected(2),
    ),
    update({}, { customer: { insert: { data: { name: 'no' } } } }, { status: 400, like: { path: '$.args.$set.customer.insert', error: /leads to the row that a row belongs to/ } }), // prettier-ignore
  ],
  'update.order': [
    ...FRESH,
    update(
      { note: 'a' },
      {
        note: 'a2',
        items: {
          insert: { data: [{ sku: 'new' }, { sku: 'y', qty: 9 }] },
          update: { where: {}, $inc: { qty: 1 } },
          delete: { where: { sku: { $in: ['y', 'z'] } } },
        },
      },
      affected(6, [
        {
          note: 'a2',
          items: [
            { sku: 'keep', qty: 2 },
            { sku: 'new', qty: 1 },
            { sku: 'x', qty: 2 },
            { sku: 'y', qty: 9 },
          ],
        },
      ]),
      undefined,
      { returning: ['note', ITEMS] },
    ),
  ],
  'update.others': [items('b', ['x', 1], ['z', 60])],
  'update.deep': [
    query('update', { table: 'purchase', where: { note: 'b' }, $set: { customer_id: 1 } }, affected(1)),
    query(
      'update',
      {
        table: 'customer',
        where: { name: { $in: ['Ann', 'Dee'] } },
        $set: { purchases: { update: { where: {}, $set: { items: { delete: { where: { sku: 'z' } } } } } } },
      },
      { status: 200, like: { affected_rows: 4 } },
    ),
    items('b', ['x', 1]),
  ],
  'update.up': [
    query(
      'update',
      {
        table: 'item',
        where: { sku: 'new' },
        $set: { purchase: { update: { where: {}, $set: { note: 'up' } } } },
        returning: [{ name: 'purchase', columns: ['note'] }],
      },
      affected(2, [{ purchase: { note: 'up' } }]),
    ),
    count('purchase', 1, { note: 'up' }),
  ],
  'update.only-related': [
    update({ note: 'b' }, { items: { delete: { where: { sku: 'none' } } } }, affected(1)),
    update({ note: 'nothing' }, { items: { insert: { data: { sku: 'q' } } } }, affected(0)),
  ],
  'update.wrong': [
    wrongItems([], '', /^expecting an object with the keys insert, update, delete$/),
    wrongItems({ upsert: {} }, '.upsert'),
    wrongItems({ delete: {} }, '.delete', /^the key 'where' was not present$/),
    wrongItems({ update: [{ where: {} }] }, '.update[0]', /at least one/),
    wrongItems({ update: { where: { nope: 1 }, $set: { qty: 1 } } }, '.update.where.nope'),
    wrongItems({ insert: { data: [{ sku: 1 }] } }, '.insert.data[0].sku'),
    update(
      {},
      { items: { update: { where: {}, $set: { qty: 'x' } } } },
      { status: 400, like: { path: /^\$\.args\.\$set\.items\.update/, error: /./ } },
    ),
    update({}, { customer: { insert: { data: {} } } }, { status: 400, like: { path: '$.args.$set.customer.insert' } }),
    query('update', { table: 'purchase', where: {}, $inc: { items: 1 } }, { status: 400 }),
  ],
  'update.limit': [
    update(
      {},
      { items: { insert: { data: Array(5001).fill({ sku: 's' }) } } },
      { status: 400, like: { error: /more than 10000 rows/ } },
    ),
    update(
      {},
      { items: { delete: Array(2001).fill({ where: {} }) } },
      { status: 400, like: { error: /more than 2000 statements/ } },
    ),
  ],
  'update.role': [
    ...FRESH,
    update({}, { items: { update: { where: { sku: 'x' }, $set: { qty: 7 } } } }, affected(2), USER),
    items('a', ['keep', 1], ['x', 7], ['y', 1]),
    items('b', ['x', 1], ['z', 60]),
    update(
      {},
      { items: { update: { where: { sku: 'x' }, $set: { qty: 0 } } } },
      { status: 400, like: { error: /update check of role "user" on "item"/ } },
      USER,
    ),
    update({}, { items: { delete: { where: { sku: 'keep' } } } }, affected(1), USER),
    update(
      {},
      { items: { update: { where: {}, $set: { sku: 'q' } } } },
      refused('permission-denied', /permission to update column "sku"/, '$.args.$set.items.update.$set'),
      USER,
    ),
    update(
      {},
      { items: { insert: { data: { sku: 'n', qty: 0 } } } },
      { status: 400, like: { error: /insert check of role "user" on "item"/ } },
      USER,
    ),
    update(
      {},
      { customer: { update: { where: {}, $set: { name: 'q' } } } },
      refused(
        'permission-denied',
        /^update on "customer" for role "user" is not allowed/,
        '$.args.$set.customer.update',
      ),
      USER,
    ),
    query(
      'update',
      { table: 'customer', where: {}, $set: { purchases: {} } },
      refused('permission-denied', /^update on "customer"/),
      USER,
    ),
    items('a', ['keep', 1], ['x', 7], ['y', 1]),
  ],
  'role.hidden-relationship': async (t, server) => {
    for (const ask of [
      (name: string) => server.query('insert', { table: 'item', objects: [{ sku: 'h', [name]: { data: [] } }] }, USER),
      (name: string) =>
        server.query(
          'insert',
          { table: 'purchase', objects: [{ note: 'h', items: { data: [{ sku: 'h', [name]: null }] } }] },
          USER,
        ),
      (name: string) =>
        server.query('update', { table: 'item', where: {}, $set: { [name]: { delete: { where: {} } } } }, USER),
    ]) {
      const [hidden, missing] = [await ask('secrets'), await ask('nothing')]
      t.equal(hidden.status, 400)
      t.equal(hidden.text.replaceAll('secrets', 'nothing'), missing.text)
    }
  },
  'role.conflict-check': [
    insert([{ note: 'conflict', items: { data: { id: 1_000_000, sku: 'c' } } }], affected(2)),
    ...[50, 5].map((qty) =>
      insert(
        [{ note: 'k', items: upsert('item_pkey', { id: 1_000_000, sku: 'c', qty }) }],
        qty === 5 ? affected(2) : { status: 400, like: { error: /insert or update check of role "clerk" on / } },
        CLERK,
      ),
    ),
    ...['locked', 'open'].map((note) =>
      query(
        'insert',
        { table: 'item', objects: [{ sku: note, qty: 5, purchase: upsert('purchase_pkey', { id: 1, note }) }] },
        note === 'open' ? affected(2) : { status: 400, like: { error: /insert or update check of role "clerk" on / } },
        CLERK,
      ),
    ),
    ...[50, 6].map((qty) =>
      update(
        { note: 'conflict' },
        { items: { insert: upsert('item_pkey', { id: 1_000_000, sku: 'c', qty }) } },
        qty === 6 ? affected(2) : { status: 400, like: { error: /insert or update check of role "clerk" on / } },
        CLERK,
      ),
    ),
    ...[50, 7].map((qty): Step => ({
      path: '/v1/graphql',
      method: 'POST',
      body: JSON.stringify({
        query: `mutation { insert_purchase(objects: [{note: "g", items: {data: [{id: 1000000, sku: "c", qty: ${qty}}],
          on_conflict: {constraint: item_pkey, update_columns: [qty]}}}]) { affected_rows } }`,
      }),
      as: CLERK,
      expected:
        qty === 7
          ? is({ data: { insert_purchase: { affected_rows: 2 } } })
          : like({ errors: [{ message: /insert or update check of role "clerk" on / }] }),
    })),
  ],
}

/** Its promises, with a case for each. */
export const related = area('related', {
  promises: PROMISES,
  cases: CASES,
  pages: {
    'plugins/query/writes.md': {
      'Writing related rows': {
        '`on_conflict` must not skip a row that other rows belong to, nor may a trigger.': [
          'insert.conflict-must-not-skip',
          'insert.skipped',
        ],
      },
    },
  },
  start,
})

async function start(t: Test) {
  const server = await testServer(t)
  await server.sql(SQL)
  const relate = (kind: string, table: string, name: string, on: unknown) => ({
    type: `create_${kind}_relationship`,
    args: { table, name, using: { foreign_key_constraint_on: on } },
  })
  const permit = (role: string, type: string, table: string, permission: object) => ({
    type: `create_${type}_permission`,
    args: { table, role, permission },
  })
  const manual = (kind: string, table: string, name: string, to: string, on: object, insertion_order?: string) => {
    const using = { manual_configuration: { remote_table: to, column_mapping: on, insertion_order } }
    return { type: `create_${kind}_relationship`, args: { table, name, using } }
  }
  await server.must('bulk', [
    ...TABLES.map((table) => ({ type: 'track_table', args: table })),
    relate('object', 'purchase', 'customer', 'customer_id'),
    relate('array', 'customer', 'purchases', { table: 'purchase', column: 'customer_id' }),
    relate('array', 'purchase', 'items', { table: 'item', column: 'purchase_id' }),
    relate('object', 'item', 'purchase', 'purchase_id'),
    relate('array', 'item', 'secrets', { table: 'secret', column: 'item_id' }),
    relate('object', 'secret', 'item', 'item_id'),
    manual('array', 'cheap', 'items', 'item', { id: 'id' }),
    manual('array', 'purchase', 'cheaps', 'cheap', { id: 'purchase_id' }),
    manual('array', 'cheap', 'secrets', 'secret', { id: 'item_id' }),
    manual('object', 'secret', 'cheap', 'cheap', { item_id: 'id' }, 'before_parent'),
    relate('object', 'customer', 'passport', { table: 'passport', column: 'customer_id' }),
    relate('object', 'customer', 'badge', { table: 'badge', column: 'id' }),
    manual('object', 'customer', 'papers', 'passport', { id: 'customer_id' }),
    manual('object', 'note', 'later', 'event', { id: 'id' }, 'after_parent'),
    manual('object', 'note', 'sooner', 'event', { id: 'id' }, 'before_parent'),
    relate('array', 'box', 'packed', { table: 'packed', columns: ['tenant', 'box'] }),
    relate('object', 'packed', 'part_of', ['tenant', 'part']),
    ...['picky', 'pickier', 'picky_view'].map((table) =>
      manual('array', table, 'picked', 'picked', { id: 'picky_id' }),
    ),
    manual('array', 'note', 'views', 'picky_view', { id: 'n' }),
    manual('array', 'event', 'visits', 'visit', { id: 'event_id' }),
    permit('user', 'select', 'cheap', { columns: ['id', 'sku'], filter: {} }),
    permit('user', 'insert', 'cheap', { check: { sku: { $ne: 'bad' } } }),
    ...['purchase', 'cheap', 'secret'].flatMap((table) => [
      permit('viewer', 'select', table, { columns: ['id'], filter: {} }),
      permit('viewer', 'insert', table, { check: table === 'cheap' ? { sku: { $ne: 'bad' } } : {} }),
    ]),
    permit('user', 'select', 'customer', { columns: ['id', 'name'], filter: {} }),
    permit('user', 'select', 'purchase', { columns: ['id', 'note'], filter: {} }),
    permit('user', 'select', 'item', { columns: ['id', 'sku', 'qty'], filter: {} }),
    permit('user', 'insert', 'purchase', {
      check: { items: { qty: { $lt: 100 } } },
      set: { owner: 'X-Service-User-Id' },
    }),
    permit('user', 'insert', 'item', { check: { qty: { $gt: 0 } } }),
    permit('user', 'update', 'purchase', { columns: ['note'], filter: { owner: 'X-Service-User-Id' } }),
    permit('user', 'update', 'item', { columns: ['qty'], filter: { qty: { $lt: 50 } }, check: { qty: { $gt: 0 } } }),
    permit('user', 'delete', 'item', { filter: { sku: { $ne: 'keep' } } }),
    permit('clerk', 'select', 'purchase', { columns: ['id', 'note'], filter: {} }),
    permit('clerk', 'insert', 'purchase', { check: {} }),
    permit('clerk', 'update', 'purchase', { columns: ['note'], filter: {}, check: { note: { $ne: 'locked' } } }),
    permit('clerk', 'select', 'item', { columns: ['id', 'qty'], filter: {} }),
    permit('clerk', 'insert', 'item', { check: {} }),
    permit('clerk', 'update', 'item', { columns: ['qty'], filter: {}, check: { qty: { $lt: 10 } } }),
  ])
  return server
}
