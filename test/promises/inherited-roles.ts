import { rowsOf } from '../kit/database.js'
import { permit, type Request, track } from '../kit/metadata-requests.js'
import { area, type Case } from '../kit/promises.js'
import { type As, testServer, type TestServer } from '../kit/server.js'

/** What roles inherit from others. */
const PROMISES = {
  'inherit.rows': 'a role that inherits sees the rows of any part, and a cell is null where no part gives it',
  'inherit.template': 'the OpenAPI document says which cells of a template may be null',
  'inherit.conditions': 'conditions, sorts, groups and aggregates use only the cells that the role sees',
  'inherit.graphql': 'columns that some rows lack are nullable in GraphQL, and pages by them are complete',
  'inherit.no-limit': 'a part without a limit gives none',
  'inherit.relationships': 'rows are joined by a cell that is null for the role only where one of its parts sees both',
  'inherit.computed-rows': 'rows of a computed field belong to a row where one part sees both, or the role its own',
  'inherit.related-writes':
    'updates and deletes of related rows concern those that the role may know to belong to their row',
  'inherit.foreign-keys': 'foreign keys that are visible in some rows only tell nothing of the others',
  'inherit.limit': 'the largest limit of the parts applies, and aggregates need all of them',
  'inherit.inherited': 'an admin sees what roles inherit, from which roles, and which cells are null in some rows',
  'inherit.writes': 'a role changes the rows that its part may, but tells only those apart that it sees',
  'inherit.own-value': 'a column that is visible in some rows only cannot be changed by its own value',
  'inherit.conflict': 'permissions to write that differ are refused with a hint, unless the role has its own',
  'inherit.agree': 'permissions to write that agree are inherited, and a permission of the role itself replaces each',
  'inherit.chain': 'a role inherits through others, never from itself, and admin takes no part',
  'inherit.functions': 'a role inherits functions, computed fields and backend-only permissions',
  'inherit.explain': 'explain_permission takes the rules of an inherited role from its parts',
  'inherit.export': 'inherited roles are part of the metadata, and reach other servers',
  'inherit.contradiction': 'contradictions that an older server stored give no permission and are listed',
} as const

const ANNA: As = { role: 'editor', variables: { 'x-service-user-id': '1' } }
const AUTHOR: As = { ...ANNA, role: 'author' }

const inherit = (role: string, ...roles: string[]): Request => ({ type: 'set_role_inheritance', args: { role, roles } })

const relationTo = (table: string, name: string, kind: 'object' | 'array', to: unknown): Request => ({
  type: `create_${kind}_relationship`,
  args: { table, name, using: { foreign_key_constraint_on: to } },
})

/** Starts anew: authors see their own articles with the fee, reviewers those that are submitted with the score. */
async function magazine(server: TestServer, ...more: readonly Request[]): Promise<void> {
  await server.must('clear_metadata', {})
  await server.must('run_sql', {
    sql: `drop schema public cascade; create schema public;
      create table article (id int primary key, author_id int, state text, title text, fee int, score int);
      insert into article values (1, 1, 'draft', 'a', 10, 5), (2, 2, 'submitted', 'b', 20, 3),
        (3, 1, 'submitted', 'c', 30, 4), (4, 2, 'draft', 'd', 40, 1)`,
  })
  await server.must('bulk', [
    track('article'),
    permit('select', 'article', 'author', {
      columns: ['id', 'title', 'fee'],
      filter: { author_id: 'X-Service-User-Id' },
      limit: 10,
      allow_aggregations: true,
    }),
    permit('select', 'article', 'reviewer', {
      columns: ['id', 'title', 'score'],
      filter: { state: 'submitted' },
      limit: 20,
      allow_aggregations: true,
    }),
    permit('update', 'article', 'author', { columns: ['title'], filter: {} }),
    inherit('editor', 'author', 'reviewer'),
    ...more,
  ])
}

const graphql = async (server: TestServer, query: string, as: As = ANNA) =>
  (await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }) }, as)).body

const ask = async (server: TestServer, type: string, args: object, as: As = ANNA) =>
  (await server.query(type, { table: 'article', ...args }, as)).body

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'inherit.rows': async (t, server) => {
    await magazine(server)
    const rows = [
      { id: 1, title: 'a', fee: 10, score: null },
      { id: 2, title: 'b', fee: null, score: 3 },
      { id: 3, title: 'c', fee: 30, score: 4 },
    ]

    t.same(await ask(server, 'select', { columns: ['id', 'title', 'fee', 'score'], order_by: 'id' }), rows)
    t.same((await graphql(server, '{ article(order_by: {id: asc}) { id title fee score } }')).data.article, rows)
    t.match(await ask(server, 'select', { columns: ['state'] }), { code: 'permission-denied' })
  },
  'inherit.template': async (t, server) => {
    const fees = { type: 'select', args: { table: 'article', columns: ['id', 'fee'] } }
    await magazine(server, { type: 'create_query_template', args: { name: 'fees', template: fees } })
    await server.must('run_sql', { sql: 'alter table article alter fee set not null' })
    const rowOf = async (as: As) => {
      const { paths } = (await server.fetch('/v1/openapi.json', {}, as)).body
      return paths['/v1/template/fees'].get.responses['200'].content['application/json'].schema.items.properties
    }

    t.match(await rowOf(AUTHOR), { fee: { type: 'integer' } })
    t.match(await rowOf(ANNA), { id: { type: 'integer' }, fee: { type: ['integer', 'null'] } })
  },
  'inherit.conditions': async (t, server) => {
    await magazine(server)
    const idsOf = async (args: object) =>
      ((await ask(server, 'select', { columns: ['id'], order_by: 'id', ...args })) as { id: number }[]).map(
        ({ id }) => id,
      )

    t.same(await idsOf({ where: { fee: { $gt: 5 } } }), [1, 3])
    t.same(await idsOf({ where: { fee: { $is_null: true } } }), [2])
    t.same(await idsOf({ where: { $not: { fee: 20 } } }), [1, 3])
    t.same(await idsOf({ where: { fee: { $is_distinct: 20 } } }), [1, 2, 3])
    t.same(await idsOf({ where: { score: { $clt: 'fee' } } }), [3])
    t.same(await idsOf({ order_by: ['-fee'] }), [2, 3, 1])
    t.same(await idsOf({ distinct_on: ['fee'], order_by: ['-fee'] }), [2, 3, 1])
    t.same(await ask(server, 'count', { distinct: ['fee'] }), { count: 3 })
    t.same(
      await ask(server, 'select', {
        columns: ['fee', { count: '*', as: 'n' }, { array_agg: 'score', as: 'scores', distinct: true }],
        group_by: ['fee'],
        order_by: ['+fee'],
      }),
      [
        { fee: 10, n: 1, scores: [null] },
        { fee: 30, n: 1, scores: [4] },
        { fee: null, n: 1, scores: [3] },
      ],
    )
    const { data } = await graphql(
      server,
      '{ article_aggregate { aggregate { count sum { fee score } n: count(columns: [fee, score], distinct: true) } nodes { fee } } }',
    )
    t.same(data.article_aggregate.aggregate.sum, { fee: 40, score: 7 })
    t.same(data.article_aggregate.aggregate.count, 3)
    t.same(data.article_aggregate.nodes.map(({ fee }: { fee: number }) => fee).sort(), [10, 30, null])
  },
  'inherit.graphql': async (t, server) => {
    await magazine(server)
    await server.must('run_sql', { sql: 'alter table article alter fee set not null, alter title set not null' })
    const { data } = await graphql(server, '{ __type(name: "article") { fields { name type { kind } } } }')
    const kinds = Object.fromEntries(
      data.__type.fields.map((each: { name: string; type: { kind: string } }) => [each.name, each.type.kind]),
    )

    t.match(kinds, { id: 'NON_NULL', title: 'NON_NULL', fee: 'SCALAR', score: 'SCALAR' })
    const after = { fee: 30, id: 3 }
    t.same(await ask(server, 'select', { columns: ['id'], order_by: ['fee'], after }), [{ id: 2 }])
  },
  'inherit.no-limit': async (t, server) => {
    await magazine(server, permit('select', 'article', 'intern', { columns: ['id'], filter: { id: 4 } }))
    await server.must('bulk', [
      permit('select', 'article', 'clerk', { columns: ['id'], filter: {}, limit: 1 }),
      inherit('both', 'clerk', 'intern'),
    ])
    const count = async (role: string) => (await ask(server, 'select', { columns: ['id'] }, { ...ANNA, role })).length

    t.same([await count('clerk'), await count('both')], [1, 4])
  },
  'inherit.relationships': async (t, server) => {
    await magazine(server)
    await server.must('run_sql', {
      sql: `create table doctor (id int primary key, name text); insert into doctor values (1, 'oncology'), (2, 'cardiology');
        create table visit (id int primary key, patient int, doctor int references doctor);
        insert into visit values (7, 1, 1), (8, 2, 2), (9, 3, 1)`,
    })
    const columns = ['id', 'doctor']
    await server.must('bulk', [
      track('doctor'),
      track('visit'),
      relationTo('visit', 'doc', 'object', 'doctor'),
      relationTo('doctor', 'visits', 'array', { table: 'visit', column: 'doctor' }),
      permit('select', 'visit', 'desk', { columns: ['id'], filter: {}, allow_aggregations: true }),
      permit('select', 'visit', 'patient', {
        columns,
        filter: { patient: 'X-Service-User-Id' },
        allow_aggregations: true,
      }),
      permit('select', 'doctor', 'patient', { columns: ['id', 'name'], filter: {} }),
      permit('select', 'visit', 'ward', { columns: ['id'], filter: { id: { $ne: 9 } } }),
      permit('select', 'doctor', 'ward', { columns: ['name'], filter: {} }),
      inherit('both', 'desk', 'patient'),
      inherit('three', 'both', 'ward'),
      permit('select', 'visit', 'chief', { columns, filter: {} }),
      permit('select', 'doctor', 'chief', { columns: ['id'], filter: {} }),
      permit('select', 'doctor', 'aide', { columns: ['name'], filter: { id: 1 } }),
      // Its own permission says what it knows of visits, whatever its parts know.
      permit('select', 'visit', 'nurse', { columns, filter: { patient: 'X-Service-User-Id' } }),
      inherit('nurse', 'chief', 'aide'),
      inherit('front', 'desk', 'nurse'),
    ])
    const as = (role: string) => ({ role, variables: { 'x-service-user-id': '2' } })
    const ids = async (role: string, table: string, where: object) =>
      (await server.query('select', { table, columns: ['id'], where, order_by: ['id'] }, as(role))).body.map(
        ({ id }: { id: number }) => id,
      )
    const doc = { name: 'doc', columns: ['name'] }
    const rows = async (role: string) =>
      (await server.query('select', { table: 'visit', columns: [...columns, doc], order_by: ['id'] }, as(role))).body

    const [cardiology, oncology] = [{ name: 'cardiology' }, { name: 'oncology' }]
    t.same(await rows('both'), [
      { id: 7, doctor: null, doc: null },
      { id: 8, doctor: 2, doc: cardiology },
      { id: 9, doctor: null, doc: null },
    ])
    t.same(await rows('three'), [
      { id: 7, doctor: null, doc: oncology },
      { id: 8, doctor: 2, doc: cardiology },
      { id: 9, doctor: null, doc: null },
    ])
    const known = { table: 'visit', columns: ['id', { name: 'doc', columns: ['id'] }], order_by: ['id'] }
    t.same((await server.query('select', known, as('front'))).body, [
      { id: 7, doc: null },
      { id: 8, doc: { id: 2 } },
      { id: 9, doc: null },
    ])
    t.same(await ids('both', 'visit', { doc: { name: { $ne: '' } } }), [8])
    t.same(await ids('three', 'visit', { doc: { name: { $ne: '' } } }), [7, 8])
    t.same(await ids('both', 'doctor', { visits: {} }), [2])
    const sorted = { table: 'visit', columns: ['id'], order_by: ['-doc.name', 'id'] }
    t.same((await server.query('select', sorted, as('both'))).body, [{ id: 7 }, { id: 9 }, { id: 8 }])
    const document = '{ doctor(order_by: {id: asc}) { name visits { id } visits_aggregate { aggregate { count } } } }'
    const answer = await server.fetch(
      '/v1/graphql',
      { method: 'POST', body: JSON.stringify({ query: document }) },
      as('both'),
    )
    t.same(answer.body.data.doctor, [
      { ...oncology, visits: [], visits_aggregate: { aggregate: { count: 0 } } },
      { ...cardiology, visits: [{ id: 8 }], visits_aggregate: { aggregate: { count: 1 } } },
    ])
  },
  'inherit.computed-rows': async (t, server) => {
    await server.must('clear_metadata', {})
    await server.must('run_sql', {
      sql: `drop schema public cascade; create schema public;
        create table team (id int primary key, name text);
        create table member (id int primary key, team int, name text, score int);
        insert into team select n, 't' || n from generate_series(1, 3) n;
        insert into member select n, n % 4, 'm' || n, 10 * n from generate_series(1, 12) n;
        create function members(t team) returns setof member language sql stable as 'select * from member where team = t.id';
        create function best(t team) returns member language sql stable
          as 'select * from member where team = t.id order by score desc limit 1'`,
    })
    const add = (name: string) => ({
      type: 'add_computed_field',
      args: { table: 'team', name, definition: { function: name } },
    })
    await server.must('bulk', [track('team'), track('member'), add('members'), add('best')])
    const parts = ['a', 'b', 'c']
    const select = (table: string, role: string, columns: readonly string[], filter: object) =>
      permit('select', table, role, { columns: ['id', ...columns], filter, allow_aggregations: true })
    // Of each part: what it sees of teams, and of members. The last has its own permission on the one or on the other.
    const low = { id: { $lt: 7 } }
    const [all, some, odd] = [{}, { id: { $lte: 2 } }, { id: { $in: [1, 3, 5, 7, 9, 11] } }]
    type Sees = readonly [team?: object, member?: object]
    const SETS: readonly (readonly Sees[])[] = [
      [[all], [undefined, all]],
      [
        [some, all],
        [all, low],
      ],
      [
        [some, low],
        [{ id: 3 }, odd],
      ],
      [
        [all, low],
        [all, odd],
      ],
      [[all, low], [all], [some, odd]],
      [
        [all, all],
        [some, odd],
        [undefined, all],
      ],
      [[{ id: 1 }], [undefined, odd], [some, { id: { $gt: 6 } }]],
    ]
    const document = (more: string) =>
      `{ team(order_by: {id: asc}${more}) { id members(order_by: {id: asc}) { id name score } best { id name score } } }`
    interface Team {
      readonly id: number
      readonly members: readonly Row[]
      readonly best: Row | null
    }
    type Row = Readonly<Record<string, unknown>>
    const read = async (role: string, more = '') =>
      (await graphql(server, document(more), { role })).data?.team as Team[] | undefined
    const ids = (teams: readonly { readonly id: number }[] = []) => teams.map(({ id }) => id)
    /** Adds the cells of one row to those of another. */
    const both = (row: Row | null | undefined, other: Row | null) =>
      row && other ? Object.fromEntries(Object.keys(row).map((key) => [key, row[key] ?? other[key]])) : (row ?? other)

    for (const [i, set] of SETS.entries()) {
      const given = parts.slice(0, set.length)
      await server.must('bulk', [
        ...set.flatMap(([team, member], n) => [
          ...(team ? [select('team', given[n] as string, [], team)] : []),
          ...(member ? [select('member', given[n] as string, n === 0 ? ['name'] : ['name', 'score'], member)] : []),
        ]),
        inherit('ab', 'a', 'b'),
        inherit('all', 'ab', ...given.slice(2)),
      ])
      const expected = new Map<number, Team>()
      for (const [n, role] of given.entries()) {
        const [sees, seesMember] = set[n] as Sees
        if (!sees) continue
        const rows = `id name ${n === 0 ? '' : 'score'}`
        const asked = seesMember ? `members(order_by: {id: asc}) { ${rows} } best { ${rows} }` : ''
        const { team } = (await graphql(server, `{ team { id ${asked} } }`, { role })).data
        for (const { id, members = [], best = null } of team as Team[]) {
          const known = expected.get(id) ?? { id, members: [], best: null }
          const found = new Map(known.members.map((row) => [row['id'], row]))
          const whole = (row: Row) => ({ id: row['id'], name: row['name'], score: row['score'] ?? null })
          for (const row of members) found.set(row['id'], both(found.get(row['id']), whole(row)) as Row)
          const sorted = [...found.values()].sort((x, y) => Number(x['id']) - Number(y['id']))
          expected.set(id, { id, members: sorted, best: both(known.best, best && whole(best)) })
        }
      }
      const wanted = [...expected.values()].sort((x, y) => x.id - y.id)
      // What a role sees of a row is one thing, however it came to it.
      const scores = new Map(
        (await graphql(server, '{ member { id score } }', { role: 'all' })).data.member.map((row: Row) => [
          row['id'],
          row['score'],
        ]),
      )
      const seen = wanted.map(({ id, members, best }) => ({
        id,
        members: members.map((row) => ({ ...row, score: scores.get(row['id']) })),
        best: best && { ...best, score: scores.get(best['id']) },
      }))

      t.same(await read('all'), seen, `${i}: rows`)
      const named = (field: string, name: string) => `, where: {${field}: {name: {_eq: "${name}"}}}`
      for (const name of ['m3', 'm9', 'm11']) {
        const having = (rows: readonly Row[]) => rows.some((row) => row['name'] === name)
        t.same(
          ids(await read('all', named('members', name))),
          ids(seen.filter(({ members }) => having(members))),
          `${i}: ${name}`,
        )
        t.same(
          ids(await read('all', named('best', name))),
          ids(seen.filter(({ best }) => best && having([best]))),
          `${i}: best ${name}`,
        )
      }
      const sorted = await graphql(
        server,
        '{ team(order_by: [{members_aggregate: {count: desc}}, {id: asc}]) { id } }',
        { role: 'all' },
      )
      t.same(
        ids(sorted.data.team),
        ids(seen.toSorted((x, y) => y.members.length - x.members.length || x.id - y.id)),
        `${i}: order`,
      )

      // Its own permission to select the one table or the other makes it a part of its own.
      for (const [table, field, other] of [
        ['team', 'team', 'member'],
        ['member', 'member', 'team'],
      ] as const) {
        if (!set.some(([team, member]) => (other === 'team' ? team : member))) continue
        await server.must('bulk', [select(table, 'all', field === 'member' ? ['name', 'score'] : [], {})])
        const visible = new Set(ids((await graphql(server, '{ member { id } }', { role: 'all' })).data.member))
        const own = await read('all')
        t.same(
          own?.map(({ id, members }) => ids(members as never).filter((each) => each % 4 !== id)),
          own?.map(() => []),
        )
        t.same(
          own?.flatMap(({ members }) => members).length,
          [...visible].filter((each) => ids(own).includes(each % 4)).length,
          `${i}: own ${table}`,
        )
        await server.must('bulk', [{ type: 'drop_select_permission', args: { table, role: 'all' } }])
      }
      await server.must('bulk', [
        inherit('all'),
        inherit('ab'),
        ...set.flatMap(([team, member], n) => [
          ...(team ? [{ type: 'drop_select_permission', args: { table: 'team', role: given[n] } }] : []),
          ...(member ? [{ type: 'drop_select_permission', args: { table: 'member', role: given[n] } }] : []),
        ]),
      ])
    }
  },
  'inherit.related-writes': async (t, server) => {
    await magazine(server)
    await server.must('run_sql', {
      sql: `create table nurse (id int primary key, n int default 0); insert into nurse values (1), (2);
        create table shift (id int primary key, patient int, nurse int references nurse, n int default 0);
        insert into shift values (7, 1, 1), (8, 2, 2), (9, 3, 1)`,
    })
    const mine = { patient: 'X-Service-User-Id' }
    await server.must('bulk', [
      track('nurse'),
      track('shift'),
      relationTo('shift', 'by', 'object', 'nurse'),
      relationTo('nurse', 'shifts', 'array', { table: 'shift', column: 'nurse' }),
      permit('select', 'shift', 'desk', { columns: ['id'], filter: {} }),
      permit('select', 'shift', 'patient', { columns: ['id', 'nurse'], filter: mine }),
      permit('select', 'nurse', 'patient', { columns: ['id'], filter: {} }),
      permit('select', 'shift', 'ward', { columns: ['id'], filter: { id: { $ne: 9 } } }),
      permit('select', 'nurse', 'ward', { columns: ['n'], filter: {} }),
      permit('update', 'shift', 'cleaner', { columns: ['n'], filter: {} }),
      permit('update', 'nurse', 'cleaner', { columns: ['n'], filter: {} }),
      permit('delete', 'shift', 'cleaner', { filter: {} }),
      inherit('both', 'desk', 'patient', 'cleaner'),
      inherit('three', 'both', 'ward'),
      inherit('two', 'patient', 'cleaner'),
    ])
    const write = async (role: string, table: string, id: number, $set: object) => {
      const as = { role, variables: { 'x-service-user-id': '2' } }
      const { status, body } = await server.query('update', { table, where: { id }, $set }, as)
      return status === 200 ? body.affected_rows - 1 : body
    }
    const all = { where: {} }
    const each = (role: string, name: string, table: string, ...ids: readonly number[]) =>
      Promise.all(ids.map((id) => write(role, table, id, { [name]: { update: { ...all, $set: { n: 1 } } } })))

    t.same(await each('both', 'by', 'shift', 7, 8, 9), [0, 1, 0])
    t.same(await each('three', 'by', 'shift', 7, 8, 9), [1, 1, 0])
    t.same(await each('both', 'shifts', 'nurse', 1, 2), [0, 1])
    t.same(await each('three', 'shifts', 'nurse', 1, 2), [1, 1])
    t.same(await each('two', 'shifts', 'nurse', 1, 2), [0, 1], 'rows that it may not select')
    t.same(await write('both', 'nurse', 1, { n: 5, shifts: { delete: all } }), 0)
    t.same(await write('two', 'nurse', 1, { shifts: { delete: all } }), 0)
    const deep = { shifts: { update: { ...all, $set: { by: { update: { ...all, $set: { n: 2 } } } } } } }
    t.same([await write('both', 'nurse', 1, deep), await write('both', 'nurse', 2, deep)], [0, 2])
    t.same(await write('three', 'nurse', 1, { shifts: { delete: all } }), 1)
  },
  'inherit.foreign-keys': async (t, server) => {
    await magazine(server)
    await server.must('run_sql', {
      sql: 'create table author (id int primary key); insert into author values (1), (2); alter table article add foreign key (author_id) references author',
    })
    await server.must('bulk', [
      { type: 'track_table', args: 'author' },
      permit('select', 'author', 'staff', { columns: ['id'], filter: {} }),
      permit('select', 'article', 'own', { columns: ['id', 'author_id'], filter: { author_id: 'X-Service-User-Id' } }),
      permit('select', 'article', 'open', { columns: ['id'], filter: { state: 'submitted' } }),
      inherit('all', 'own', 'open', 'staff'),
      inherit('owner', 'own', 'staff'),
    ])
    const dependents = async (role: string, id: number) =>
      (await server.query('dependents', { table: 'author', key: { id } }, { ...ANNA, role })).body.dependents

    t.match(await dependents('owner', 1), [{ columns: { author_id: 'id' }, rows: 2 }])
    t.same(await dependents('all', 2), [])
  },
  'inherit.limit': async (t, server) => {
    await magazine(
      server,
      permit('select', 'article', 'counter', { columns: ['id'], filter: {}, limit: 3 }),
      inherit('chief', 'editor', 'counter'),
    )
    const described = await server.query('describe', {}, { ...ANNA, role: 'chief' })

    t.match(described.body.tables[0], { limit: 20, aggregations: false })
    t.equal((await ask(server, 'select', { columns: ['id'] }, { ...ANNA, role: 'chief' })).length, 4)
  },
  'inherit.inherited': async (t, server) => {
    await magazine(
      server,
      permit('select', 'article', 'counter', { columns: '*', filter: {} }),
      permit('delete', 'article', 'editor', { filter: {} }),
      inherit('chief', 'editor', 'counter'),
    )
    const { permissions } = await server.must('inherited_permissions', {})
    const table = { schema: 'public', name: 'article' }
    const [ofAuthor, ofReviewer] = [{ author_id: 'X-Service-User-Id' }, { state: 'submitted' }]

    t.same(permissions, [
      {
        table,
        role: 'chief',
        action: 'select',
        from: ['author', 'reviewer', 'counter'],
        permission: { columns: '*', filter: {} },
      },
      {
        table,
        role: 'chief',
        action: 'update',
        from: ['author'],
        permission: { columns: ['title'], filter: {} },
      },
      { table, role: 'chief', action: 'delete', from: ['editor'], permission: { filter: {} } },
      {
        table,
        role: 'editor',
        action: 'select',
        from: ['author', 'reviewer'],
        permission: {
          columns: ['id', 'title', 'fee', 'score'],
          filter: { $or: [ofAuthor, ofReviewer] },
          limit: 20,
          allow_aggregations: true,
        },
        in_some_rows: { fee: ['author'], score: ['reviewer'] },
      },
      { table, role: 'editor', action: 'update', from: ['author'], permission: { columns: ['title'], filter: {} } },
    ])
    t.match(await server.query('inherited_permissions', {}, ANNA), { status: 400, body: { code: 'access-denied' } })
  },
  'inherit.writes': async (t, server) => {
    await magazine(server)
    const set = async (where: object) =>
      (await ask(server, 'update', { where, $set: { title: 'x' }, returning: ['id', 'fee'] })) as object

    t.same(await set({ title: 'd' }), { affected_rows: 0, returning: [] })
    t.same(await set({ fee: 20 }), { affected_rows: 0, returning: [] })
    t.same(await set({ id: { $lt: 3 } }), {
      affected_rows: 2,
      returning: [
        { id: 1, fee: 10 },
        { id: 2, fee: null },
      ],
    })
    t.match(await server.query('update', { table: 'article', where: {}, $set: { title: 'x' } }, ANNA), {
      body: { affected_rows: 4 },
    })
  },
  'inherit.own-value': async (t, server) => {
    await magazine(server, permit('update', 'article', 'editor', { columns: ['fee', 'title'], filter: {} }))

    t.match(await ask(server, 'update', { where: {}, $inc: { fee: 1 } }), {
      code: 'permission-denied',
      error: 'role "editor" sees column "fee" in some rows only, and can only replace its value',
    })
  },
  'inherit.conflict': async (t, server) => {
    await magazine(server)
    const create = (role: string, permission: object) =>
      server.query('create_update_permission', { table: 'article', role, permission })
    const hint =
      'role "editor" would inherit different update permissions on "article" from "author" and "reviewer"; create one for role "editor"'
    const other = { columns: ['score'], filter: {} }

    const { status, body } = await create('reviewer', other)
    t.equal(status, 400)
    t.same(body, { path: '$.args.permission', error: hint, code: 'dependency-error' })
    t.equal((await create('editor', { columns: ['title'], filter: { id: 1 } })).status, 200)
    t.equal((await create('reviewer', other)).status, 200)
    t.match(await ask(server, 'update', { where: {}, $set: { title: 'y' } }), { affected_rows: 1 })
    t.match(await server.query('drop_update_permission', { table: 'article', role: 'editor' }), {
      status: 400,
      body: { path: '$.args', error: hint },
    })
    await server.must('set_role_inheritance', { role: 'editor', roles: null })
    await server.must('drop_update_permission', { table: 'article', role: 'editor' })
    t.match(await server.query('set_role_inheritance', { role: 'editor', roles: ['author', 'reviewer'] }), {
      status: 400,
      body: { path: '$.args.roles', error: hint },
    })
  },
  'inherit.agree': async (t, server) => {
    const both = { columns: ['id', 'title'], check: { title: { $ne: 'bad' } } }
    await magazine(
      server,
      permit('insert', 'article', 'author', both),
      permit('insert', 'article', 'reviewer', { ...both, columns: ['title', 'id'] }),
    )
    const insert = (title: string) => server.query('insert', { table: 'article', objects: [{ id: 9, title }] }, ANNA)

    t.match((await insert('bad')).body, {
      error: 'the row would not pass the insert check of role "editor" on "article"',
    })
    t.match((await insert('good')).body, { affected_rows: 1 })
    await server.must('create_select_permission', {
      table: 'article',
      role: 'editor',
      permission: { columns: ['id'], filter: { id: 4 } },
    })
    t.same(await ask(server, 'select', { columns: ['*'] }), [{ id: 4 }])
  },
  'inherit.chain': async (t, server) => {
    await magazine(server, inherit('chief', 'editor'))
    const chief = { ...ANNA, role: 'chief' }
    const set = (role: string, ...roles: string[]) => server.query('set_role_inheritance', { role, roles })

    t.equal((await ask(server, 'select', { columns: ['fee', 'score'] }, chief)).length, 3)
    t.match(await set('author', 'chief'), {
      status: 400,
      body: {
        path: '$.args.roles',
        error: 'role "author" would inherit from itself: author -> chief -> editor -> author',
      },
    })
    t.match(await set('a', 'a'), { status: 400, body: { error: 'role "a" would inherit from itself: a -> a' } })
    t.match(await set('admin', 'author'), { status: 400, body: { path: '$.args.role' } })
    t.match(await set('a', 'author', 'admin'), { status: 400, body: { path: '$.args.roles[1]' } })
    t.match(await set('a b', 'author'), { status: 400, body: { path: '$.args.role' } })
    await server.must('set_role_inheritance', { role: 'editor', roles: [] })
    t.match(await ask(server, 'select', { columns: ['id'] }, chief), { code: 'permission-denied' })
    t.equal((await ask(server, 'select', { columns: ['id'] }, AUTHOR)).length, 2)
  },
  'inherit.functions': async (t, server) => {
    await magazine(server)
    await server.sql(`create function double_fee(a article) returns int language sql stable as 'select 2 * a.fee';
      create function submitted() returns setof article language sql stable as $$ select * from article where state = 'submitted' $$`)
    await server.must('bulk', [
      {
        type: 'add_computed_field',
        args: { table: 'article', name: 'double', definition: { function: 'double_fee' } },
      },
      { type: 'drop_select_permission', args: { table: 'article', role: 'author' } },
      permit('select', 'article', 'author', { columns: ['id'], filter: { author_id: 1 }, computed_fields: ['double'] }),
      permit('insert', 'article', 'author', { columns: ['id'], check: {}, backend_only: true }),
      { type: 'track_function', args: 'submitted' },
      { type: 'create_function_permission', args: { function: 'submitted', role: 'reviewer' } },
    ])

    t.same(
      (await graphql(server, '{ article(order_by: {id: asc}, where: {_not: {double: {_eq: 40}}}) { id double } }')).data
        .article,
      [
        { id: 1, double: 20 },
        { id: 3, double: 60 },
      ],
    )
    t.same(
      (await graphql(server, '{ article(order_by: {double: desc_nulls_last}) { id double } }')).data.article.at(-1),
      { id: 2, double: null },
    )
    t.same((await graphql(server, '{ submitted(order_by: {id: asc}) { id score } }')).data.submitted, [
      { id: 2, score: 3 },
      { id: 3, score: 4 },
    ])
    const objects = [{ id: 9 }]
    t.match(await ask(server, 'insert', { objects }), { code: 'permission-denied' })
    const backend = {
      variables: { ...ANNA.variables, 'x-service-use-backend-only-permissions': 'true' },
      role: 'editor',
    }
    t.match(await ask(server, 'insert', { objects }, backend), { affected_rows: 1 })
  },
  'inherit.explain': async (t, server) => {
    await magazine(server)
    const explain = (operation: string, more: object) =>
      server.must('explain_permission', {
        role: 'editor',
        session: ANNA.variables,
        operation,
        table: 'article',
        ...more,
      })

    t.match(await explain('select', { key: { id: 4 } }), {
      verdict: 'refused',
      reason: 'filter',
      filter: { any: [{ result: false }, { result: false }] },
      columns: { allowed: ['id', 'title', 'fee', 'score'], refused: ['author_id', 'state'] },
    })
    t.match(await explain('select', { key: { id: 3 } }), { verdict: 'allowed' })
    t.match(await explain('update', { key: { id: 4 }, object: { title: 'x' } }), { verdict: 'refused', reason: 'row' })
    await server.must('bulk', [
      permit('select', 'article', 'all', { columns: ['id'], filter: {} }),
      permit('select', 'article', 'payer', { columns: ['id', 'fee'], filter: { author_id: 'X-Service-User-Id' } }),
      inherit('both', 'all', 'payer'),
      { type: 'insert', args: { table: 'article', objects: [{ id: 5, author_id: null }] } },
    ])
    const columns = async (id: number, role = 'both') => (await explain('select', { role, key: { id } })).columns
    const [allowed, refused] = [
      ['id', 'fee'],
      ['author_id', 'state', 'title', 'score'],
    ]
    t.same(await columns(2), { allowed, refused, null: ['fee'] })
    t.same(await columns(5), { allowed, refused, null: ['fee'] }, 'unknown is not true')
    t.same(await columns(1), { allowed, refused, null: [] })
    t.same(await columns(1, 'payer'), { allowed, refused }, 'a role that sees its columns in all rows')
  },
  'inherit.export': async (t, server) => {
    await magazine(server)
    const other = await testServer(t, { databaseUrl: server.databaseUrl })
    const exported = await server.must('export_metadata', {})
    const without = { ...exported, inherited_roles: undefined }

    t.same(exported.inherited_roles, [{ role: 'editor', roles: ['author', 'reviewer'] }])
    const { changes } = await server.must('diff_metadata', without)
    t.match(changes, [
      {
        change: 'removed',
        object: 'inherited-role editor',
        from: { comment: null, role: 'editor', roles: ['author', 'reviewer'] },
        to: null,
      },
      {
        object: 'permission article.editor.select',
        effects: [{ role: 'editor', effect: 'narrower', text: 'role editor can no longer read article' }],
      },
    ])
    t.equal((await ask(other, 'select', { columns: ['id'] })).length, 3)
    await server.must('replace_metadata', without)
    t.match(await ask(server, 'select', { columns: ['id'] }), { code: 'permission-denied' })
    await server.must('replace_metadata', exported)
    t.equal((await ask(server, 'select', { columns: ['id'] })).length, 3)
    const twice = { ...exported, inherited_roles: [...exported.inherited_roles, ...exported.inherited_roles] }
    t.match(await server.query('replace_metadata', twice), { status: 400, body: { path: '$.args.inherited_roles[1]' } })
  },
  'inherit.contradiction': async (t, server) => {
    await magazine(server)
    await rowsOf(
      server.databaseUrl,
      `insert into svc_catalog.svc_permission values ('public', 'article', 'reviewer', 'update', '{"columns": ["score"], "filter": {}}');
      insert into svc_catalog.svc_inherited_role values ('a', '{b}'), ('b', '{a}')`,
    )
    await server.must('reload_metadata', {})

    t.match(await ask(server, 'update', { where: {}, $set: { title: 'y' } }), { code: 'permission-denied' })
    const { inconsistent_objects: found } = await server.must('get_inconsistent_metadata', {})
    t.same(
      found.map(({ name }: { name: string }) => name),
      ['inherited-role a', 'inherited-role b', 'inherited-role editor'],
    )
    await server.must('drop_inconsistent_metadata', {})
    t.same((await server.must('get_inconsistent_metadata', {})).inconsistent_objects, [])
    t.match(await ask(server, 'select', { columns: ['id'] }), { code: 'permission-denied' })
  },
}

export const inheritedRoles = area('inherited-roles', { promises: PROMISES, start: (t) => testServer(t), cases: CASES })
