import t, { type Test } from 'tap'
import { testServer, type TestServer } from '../kit/server.js'

const SQL = `
create table org (id int primary key, name text);
create table person (id int primary key, org_id int references org, name text, boss_id int references person);
create table invoice (id int primary key, owner_id int references person, number text unique, total int, tax numeric,
  paid bool, due date, state text, code text);
create table state (value text primary key, comment text);
insert into state values ('new', ''), ('old', '');
alter table invoice add foreign key (state) references state;
create function long_number(i invoice) returns bool language sql stable as 'select length(i.number) > 5';
create function short_number(i invoice) returns bool language sql stable as 'select length(i.number) < 5';
create function overdue() returns setof invoice language sql stable as 'select * from invoice';
create function add_up(a int, b int) returns int language sql immutable as 'select a + b'`

type Entry = Readonly<Record<string, unknown>>
interface Change {
  readonly object: string
  readonly effects: readonly { readonly role: string | null; readonly effect: string; readonly text: string }[]
}

const table = (name: string, more: Entry = {}): Entry => ({ table: name, ...more })
const user = (permission: Entry): readonly Entry[] => [{ role: 'user', permission }]
const relationship = (name: string, column: string): Entry => ({ name, using: { foreign_key_constraint_on: column } })
const metadata = (invoice: Entry, more: Entry = {}): Entry => ({
  tables: [
    table('org'),
    table('person', { object_relationships: [relationship('org', 'org_id'), relationship('boss', 'boss_id')] }),
    table('invoice', { object_relationships: [relationship('owner', 'owner_id')], ...invoice }),
    table('state'),
  ],
  query_templates: [],
  ...more,
})

/** Makes one metadata the current one, and returns what another would change, by object. */
async function effects(
  server: TestServer,
  before: Entry,
  after: Entry,
): Promise<Readonly<Record<string, readonly string[]>>> {
  await server.must('replace_metadata', before)
  const { changes, refused } = (await server.must('diff_metadata', after)) as { changes: Change[]; refused: unknown }
  if (refused) throw new Error(JSON.stringify(refused))
  return Object.fromEntries(
    changes.map((change) => [change.object, change.effects.map(({ effect, text }) => `${effect}: ${text}`)]),
  )
}

t.test('effects of changes of the metadata', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SQL })
  const check = async (t: Test, before: Entry, after: Entry, wanted: Readonly<Record<string, readonly string[]>>) =>
    t.strictSame(await effects(server, metadata(before), metadata(after)), wanted)
  const own = { owner_id: 'X-Service-User-Id' }
  const select = (permission: Entry) => ({
    select_permissions: user({ columns: ['id', 'number'], filter: {}, ...permission }),
  })
  const [SELECT, INSERT, UPDATE, DELETE] = ['select', 'insert', 'update', 'delete'].map(
    (action) => `permission invoice.user.${action}`,
  ) as [string, string, string, string]

  await t.test('a select permission', async (t) => {
    await check(t, select({}), select({ columns: ['id', 'number', 'total', 'tax'] }), {
      [SELECT]: ['wider: role user can read 2 more columns of invoice: total, tax'],
    })
    await check(
      t,
      select({ columns: '*' }),
      select({ columns: 'id number owner_id total tax paid due state code'.split(' ') }),
      {
        [SELECT]: ['narrower: role user can no longer read columns that are added to invoice later'],
      },
    )
    await check(t, select({ filter: { paid: true } }), select({ filter: { $or: [{ paid: true }, own] } }), {
      [SELECT]: [
        "wider: role user can read more rows of invoice: rows where paid is true or owner_id is the user's id (was: rows where paid is true)",
        'narrower: role user can read invoice only with X-Service-User-Id',
      ],
    })
    await check(t, select({ filter: { number: { $like: 'a%' } } }), select({ filter: { number: { $like: 'b%' } } }), {
      [SELECT]: [
        'unknown: role user can read rows of invoice by another rule: rows where number is like "b%" (was: rows where number is like "a%")',
      ],
    })
    await check(
      t,
      select({ filter: { total: { $gt: 1 }, paid: true } }),
      select({ filter: { paid: true, total: { $gte: 2 } } }),
      {
        [SELECT]: [],
      },
    )
    await check(t, select({ limit: 10 }), select({}), {
      [SELECT]: ['wider: role user can read any number of rows of invoice at a time (was: at most 10)'],
    })
  })

  await t.test('permissions to write', async (t) => {
    const insert = (permission: Entry) => ({
      insert_permissions: user({ columns: ['id', 'total'], check: {}, ...permission }),
    })
    const update = (permission: Entry) => ({
      update_permissions: user({ columns: ['total'], filter: {}, ...permission }),
    })
    await check(
      t,
      {},
      { ...insert({ check: own, set: { paid: false } }), ...update({ filter: own, check: { total: { $gt: 0 } } }) },
      {
        [INSERT]: [
          "wider: role user can insert rows with 2 columns into invoice: id, total (rows where owner_id is the user's id; the server sets paid to false)",
        ],
        [UPDATE]: [
          "wider: role user can update 1 column of invoice: total (rows where owner_id is the user's id; afterwards rows where total is greater than 0)",
        ],
      },
    )
    await check(
      t,
      {},
      { delete_permissions: user({ filter: {} }) },
      {
        [DELETE]: ['wider: role user can delete all rows of invoice'],
      },
    )
    await check(
      t,
      insert({ set: { paid: false } }),
      insert({ check: { total: { $lt: 5 } }, columns: ['id', 'total', 'tax'], set: { paid: true, due: '2030-01-01' } }),
      {
        [INSERT]: [
          'wider: role user can insert values for 1 more column of invoice: tax',
          'narrower: role user can insert fewer rows into invoice: rows where total is less than 5 (was: all rows)',
          'different: role user can insert rows into invoice, and the server sets paid to true (was: false)',
          'different: role user can insert rows into invoice, and the server sets due to "2030-01-01"',
        ],
      },
    )
    await check(
      t,
      { ...insert({}), ...update({}) },
      { ...insert({ allow_upsert: true }), ...update({}) },
      {
        [INSERT]: ['wider: role user can use on_conflict with 1 more constraint of invoice: invoice_number_key'],
      },
    )
    await check(t, {}, insert({ backend_only: true }), {
      [INSERT]: [
        'wider: role user, in requests with backend-only permissions, can insert rows with 2 columns into invoice: id, total (all rows)',
      ],
    })
  })

  await t.test('what a rule refers to', async (t) => {
    const filter = { owner: { org: { name: 'Acme' } } }
    const people = (permission: Entry, boss = 'boss_id'): Entry =>
      metadata(
        { select_permissions: user({ columns: ['id'], filter: { owner: { boss: { id: 1 } } } }) },
        {
          tables: [
            table('org'),
            table('person', {
              object_relationships: [
                relationship('org', 'org_id'),
                {
                  name: 'boss',
                  using: { manual_configuration: { remote_table: 'person', column_mapping: { [boss]: 'id' } } },
                },
              ],
              ...permission,
            }),
            table('invoice', {
              object_relationships: [relationship('owner', 'owner_id')],
              select_permissions: user({ columns: ['id'], filter: { owner: { boss: { id: 1 } } } }),
            }),
          ],
        },
      )
    t.strictSame(await effects(server, people({}), people({}, 'id')), {
      'relationship person.boss': [],
      [SELECT]: [
        "unknown: role user can read rows of invoice by another rule: rows where the owner's boss's id is 1 (was the same, with another meaning)",
      ],
    })
    const seen = { select_permissions: user({ columns: ['id'], filter: {} }) }
    t.match(await effects(server, people(seen), people(seen, 'id')), {
      'relationship person.boss': ['unknown: role user can follow the relationship boss of person to other rows'],
    })
    await check(t, select({ filter }), select({ filter: { owner: { org: { name: 'Acme', id: { $gt: 5 } } } } }), {
      [SELECT]: [
        "narrower: role user can read fewer rows of invoice: rows where the owner's org's name is \"Acme\" and the owner's org's id is greater than 5 (was: rows where the owner's org's name is \"Acme\")",
      ],
    })
    await check(t, select({ filter: { $not: filter } }), select({ filter: { $not: { owner: { org: {} } } } }), {
      [SELECT]: [
        "narrower: role user can read fewer rows of invoice: rows where it is not true that the owner's org exists (was: rows where it is not true that the owner's org's name is \"Acme\")",
      ],
    })
    const field = (name: string) => ({ computed_fields: [{ name: 'long', definition: { function: name } }] })
    const long = select({ filter: { long: true }, computed_fields: ['long'] })
    await check(
      t,
      { ...long, ...field('long_number') },
      { ...long, ...field('short_number') },
      {
        'computed-field invoice.long': [
          'unknown: role user can read the computed field long of invoice with another definition',
        ],
        [SELECT]: [
          'unknown: role user can read rows of invoice by another rule: rows where long is true (was the same, with another meaning)',
        ],
      },
    )
    await check(
      t,
      { ...select({}), ...field('long_number') },
      { ...select({ computed_fields: ['long'] }), ...field('long_number') },
      {
        [SELECT]: ['wider: role user can read 1 more computed field of invoice: long'],
      },
    )
  })

  await t.test('rules are compared by what they mean', async (t) => {
    const name = { owner: { name: 'a' } }
    const cases: readonly (readonly [Entry, Entry, string])[] = [
      [own, { $and: [{ paid: true }, own] }, 'narrower'],
      [{ $or: [{ paid: true }, own] }, own, 'narrower'],
      [{ number: { $in: ['a', 'b'] } }, { number: 'a' }, 'narrower'],
      [{ number: { $nin: ['a', 'b'] } }, { number: { $ne: 'a' } }, 'wider'],
      [{ code: 'X-Service-Code' }, { code: { $in: ['a', 'X-Service-Code'] } }, 'wider'],
      [{ total: { $gt: 1 } }, { total: { $gte: 2 } }, 'same'],
      [{ tax: { $gt: 1 } }, { tax: { $gte: 2 } }, 'narrower'],
      [{ tax: 1.5 }, { tax: '01.50' }, 'same'],
      [{ due: { $gt: '2030-01-01' } }, { due: { $gt: '2030-02-01' } }, 'narrower'],
      [{ due: { $gt: '2030-01-01' } }, { due: { $gt: '1 Feb 2030' } }, 'unknown'],
      // The order of texts depends on the collation.
      [{ number: { $gt: 'a' } }, { number: { $gt: 'b' } }, 'unknown'],
      [{ number: { $gt: 'a' } }, { number: { $gte: 'a' } }, 'wider'],
      [{ number: { $like: 'a%' } }, { number: { $like: 'a%' }, paid: true }, 'narrower'],
      [{ total: 1 }, { total: 2 }, 'different'],
      [own, { owner_id: { $ne: 'X-Service-User-Id' } }, 'different'],
      [{ total: { $lt: 1, $gt: 1 } }, { $or: [] }, 'same'],
      // Null is neither true nor false.
      [{ paid: { $ne: true } }, { $not: { paid: true } }, 'same'],
      [{ paid: { $ne: true } }, { paid: false }, 'same'],
      [{ paid: { $is_distinct: true } }, { paid: false }, 'narrower'],
      [{ $or: [{ paid: true }, { paid: false }] }, {}, 'wider'],
      [{ $or: [{ paid: true }, { paid: false }] }, { paid: { $is_null: false } }, 'same'],
      [{ number: { $nin: [] } }, {}, 'same'],
      [{ $not: { number: { $in: [] } } }, {}, 'same'],
      [{ $not: { owner_id: { $is_distinct: 'X-Service-User-Id' } } }, own, 'same'],
      [name, { owner: {} }, 'wider'],
      [{ $not: name }, { $not: { owner: {} } }, 'narrower'],
      [{ owner: { $or: [{ name: 'a' }, { id: 1 }] } }, { $or: [name, { owner: { id: 1 } }] }, 'same'],
      // It takes the foreign key to know.
      [{ owner: {} }, { owner_id: { $is_null: false } }, 'unknown'],
      [{ number: { $like: 'a%' } }, { number: { $like: 'ab%' } }, 'unknown'],
    ]
    const all = (side: 0 | 1) =>
      metadata({
        select_permissions: cases.map((rules, i) => ({
          role: `r${i}`,
          permission: { columns: ['id'], filter: rules[side] },
        })),
      })
    const found = await effects(server, all(0), all(1))
    for (const [i, [before, after, wanted]] of cases.entries()) {
      const [effect = 'same'] = (found[`permission invoice.r${i}.select`] ?? []).map((each) => each.split(':')[0])
      t.equal(effect, wanted, `${JSON.stringify(before)} becomes ${JSON.stringify(after)}`)
    }
  })

  await t.test('tables, relationships, functions, templates and comments', async (t) => {
    const base = metadata(select({}))
    const [org, person, invoice, state] = base['tables'] as Entry[]
    const seen = { ...person, select_permissions: user({ columns: ['id'], filter: {} }) }
    const tables = (all: readonly unknown[], more: Entry = {}): Entry => ({ ...base, tables: all, ...more })
    t.strictSame(await effects(server, base, tables([org, person, state])), {
      'table invoice': ['narrower: role admin can no longer use invoice'],
      'relationship invoice.owner': [],
      [SELECT]: ['narrower: role user can no longer read invoice'],
    })
    t.strictSame(await effects(server, tables([org, seen, state]), tables([org, seen, state, invoice])), {
      'table invoice': ['wider: role admin can use invoice'],
      'relationship invoice.owner': [],
      [SELECT]: ['wider: role user can read 2 columns of invoice: id, number (all rows)'],
    })
    const bare = { ...invoice, object_relationships: [] }
    t.strictSame(await effects(server, tables([org, seen, state, bare]), tables([org, seen, state, invoice])), {
      'relationship invoice.owner': ['wider: role user can follow the relationship owner of invoice'],
    })
    const states = { ...state, is_enum: true }
    t.strictSame(await effects(server, base, tables([org, person, invoice, states])), {
      'enum state': ['wider: roles see the values of state where they may use a column that references it'],
    })
    const versioned = (column: string, more: Entry = {}) =>
      tables([org, person, { ...invoice, version_column: column, ...more }, state])
    const VERSION = 'version invoice'
    const roles = (text: string) => ['admin', 'user'].map((role) => text.replace('ROLE', role))
    const only = 'and update or delete a row only if it has an expected one'
    t.strictSame(await effects(server, base, versioned('xmin')), {
      [VERSION]: roles(`wider: role ROLE can read versions of rows of invoice (xmin), ${only}`),
    })
    const no = 'can no longer read versions of rows of invoice'
    const nor = 'nor update or delete a row only if it has an expected one'
    t.strictSame(await effects(server, versioned('id'), base), {
      [VERSION]: roles(`narrower: role ROLE ${no} (was: id), ${nor}`),
    })
    const other = 'so that ETags and expected versions from before do not match'
    t.strictSame(await effects(server, versioned('xmin'), versioned('id')), {
      [VERSION]: roles(`unknown: role ROLE can read other versions of rows of invoice: id (was: xmin), ${other}`),
    })
    t.strictSame(await effects(server, versioned('id'), versioned('id', select({ columns: ['number'] }))), {
      [SELECT]: [
        'narrower: role user can no longer read 1 column of invoice: id',
        `narrower: role user ${no} (was: id), ${nor}`,
      ],
    })
    const overdue = { function: 'overdue', configuration: null, permissions: [{ role: 'guest' }, { role: 'user' }] }
    const sum = { function: 'add_up', permissions: [{ role: 'guest' }] }
    t.strictSame(await effects(server, base, { ...base, functions: [overdue, sum] }), {
      'function overdue': ['wider: role admin can call overdue', 'wider: role user can call overdue'],
      'function add_up': ['wider: role admin can call add_up', 'wider: role guest can call add_up'],
    })
    t.strictSame(await effects(server, { ...base, functions: [overdue] }, { ...metadata({}), functions: [overdue] }), {
      [SELECT]: ['narrower: role user can no longer read invoice', 'narrower: role user can no longer call overdue'],
    })
    const template = { name: 'all', template: { type: 'select', args: { table: 'invoice', columns: ['id'] } } }
    t.strictSame(await effects(server, base, { ...base, query_templates: [template] }), {
      'query-template all': [
        'same: the query template all runs with the permissions of its caller, and gives no others',
      ],
    })
    const said = {
      ...invoice,
      select_permissions: [{ ...user({ columns: ['id', 'number'], filter: {} })[0], comment: 'all' }],
    }
    t.strictSame(await effects(server, base, tables([org, person, said, state])), { [SELECT]: [] })
  })

  await t.test('a permission that was inconsistent gave nothing', async (t) => {
    await server.must('replace_metadata', metadata(select({ columns: ['id', 'code'], filter: { code: 'a' } })))
    await server.must('run_sql', { sql: 'alter table invoice drop column code', check_metadata_consistency: false })
    const { changes } = (await server.must('diff_metadata', metadata(select({})))) as { changes: Change[] }
    t.match(changes, [
      {
        object: SELECT,
        effects: [{ effect: 'wider', text: 'role user can read 2 columns of invoice: id, number (all rows)' }],
      },
    ])
  })
})

t.test('a role that is made of others sees more or fewer rows and cells than before', async (t: Test) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SQL })
  const select = (role: string, columns: readonly string[], filter: object) => ({
    role,
    permission: { columns, filter },
  })
  const made = (total: object): Entry =>
    metadata(
      { select_permissions: [select('a', ['id', 'total'], total), select('b', ['id', 'tax'], { id: { $gt: 5 } })] },
      { inherited_roles: [{ role: 'both', roles: ['a', 'b'] }] },
    )

  const changes = await effects(server, made({ id: { $gt: 3 } }), made({ id: { $gt: 1 } }))

  const both = Object.values(changes)
    .flat()
    .filter((text) => text.includes('role both'))
  t.strictSame(both.toSorted(), [
    'wider: role both can read more rows of invoice, because its parts can',
    'wider: role both can read total of more rows of invoice',
  ])
})

t.test(
  'a role that is made of others writes what it can read, and changes only cells that it sees in all rows',
  async (t: Test) => {
    const server = await testServer(t)
    await server.must('run_sql', { sql: SQL })
    const select = (role: string, columns: readonly string[], filter: object) => ({
      role,
      permission: { columns, filter },
    })
    const update = (filter: object) => ({ role: 'b', permission: { columns: ['total'], filter } })
    const made = (parts: readonly string[], filter: object, columns: readonly string[] = ['id', 'total']): Entry =>
      metadata(
        {
          select_permissions: [select('a', ['id', 'total'], { id: 2 }), select('b', columns, { id: 1 })],
          update_permissions: [update(filter)],
        },
        { inherited_roles: [{ role: 'both', roles: parts }] },
      )
    const ofBoth = async (before: Entry, after: Entry) =>
      Object.values(await effects(server, before, after))
        .flat()
        .filter((text) => text.includes('role both'))
        .toSorted()

    t.strictSame(await ofBoth(made(['a', 'b'], {}), made(['b'], { id: { $gt: 0 } })), [
      'narrower: role both can read fewer rows of invoice, because its parts can',
      'unknown: role both can update rows of invoice by another rule, because its parts can',
      'wider: role both can update rows of invoice by a condition even if it cannot read them',
    ])
    t.strictSame(await ofBoth(made(['b'], {}), made(['a', 'b'], {}, ['id'])), [
      'different: role both can read total of other rows of invoice',
      'narrower: role both can no longer change total of invoice by its own value, as with $inc',
      'narrower: role both can update rows of invoice by a condition only if it can read them',
      'wider: role both can read more rows of invoice, because its parts can',
    ])
  },
)

t.test('effects say which session variables a request needs', async (t: Test) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SQL })
  const insert = (permission: Entry) =>
    metadata({ insert_permissions: user({ columns: ['id', 'number'], ...permission }) })
  const select = (filter: object) => metadata({ select_permissions: user({ columns: ['id'], filter }) })
  const said = async (before: Entry, after: Entry) => Object.values(await effects(server, before, after)).flat()
  const set = { owner_id: 'X-Service-Org' }
  const [strict, loose] = [{ total: 1 }, { $or: [{ total: 1 }, { owner_id: 'X-Service-Org' }] }]
  const NEEDS = 'narrower: role user can insert into invoice only with X-Service-Org'

  t.notOk(
    (await said(insert({ check: strict, set }), insert({ check: loose, set }))).some((text) =>
      text.endsWith('X-Service-Org'),
    ),
    'a preset needs it before and after',
  )
  t.ok(
    (await said(insert({ check: {}, set: { owner_id: 3 } }), insert({ check: {}, set }))).includes(NEEDS),
    'a preset needs it now',
  )
  t.ok((await said(insert({ check: strict }), insert({ check: loose }))).includes(NEEDS), 'a wider rule needs it now')
  t.ok(
    (await said(select({ total: 1 }), select({ owner_id: 'X-Service-Org' }))).includes(
      'narrower: role user can read invoice only with X-Service-Org',
    ),
    'another rule',
  )
  t.strictSame(await said(select({}), select({ owner_id: 'X-Service-Org' })), [
    'narrower: role user can read only rows of invoice where owner_id is X-Service-Org (was: all rows)',
  ])

  const made = (filter: object): Entry =>
    metadata(
      {
        select_permissions: [
          { role: 'a', permission: { columns: ['id'], filter: {} } },
          { role: 'b', permission: { columns: ['id', 'total'], filter } },
        ],
      },
      { inherited_roles: [{ role: 'both', roles: ['a', 'b'] }] },
    )
  const both = (await said(made(strict), made(loose))).filter((text) => text.includes('role both'))
  t.strictSame(both.toSorted(), [
    'narrower: role both can read total of invoice only with X-Service-Org',
    'wider: role both can read total of more rows of invoice',
  ])
})
