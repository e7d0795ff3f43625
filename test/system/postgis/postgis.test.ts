import t, { type Test } from 'tap'
import { type As, testServer, type TestServer } from '../../kit/server.js'

/** PostGIS in a schema that nobody's search_path has and that must be quoted. */
const GIS = '"Geo Things"'
const SCHEMA = `
create schema ${GIS};
create extension postgis schema ${GIS};
create domain spot as ${GIS}.geometry(Point, 3857);
create table district (id int primary key, name text not null, area ${GIS}.geometry(Polygon, 4326) not null);
create table place (id int primary key, name text, district_id int references district,
  at ${GIS}.geometry(Point, 4326), on_earth ${GIS}.geography(Point), on_map ${GIS}.geometry(Point, 3857), spot spot,
  shape ${GIS}.geometry, high ${GIS}.geometry(PointZ, 4326) default ${GIS}.st_setsrid(${GIS}.st_makepoint(7, 8, 9), 4326));
create view place_view as select id, at, on_earth, on_map from place;
create table survey (id int primary key, spot ${GIS}.geography(Point, 4269));
create table line (a ${GIS}.geometry(Point, 4326) primary key, b ${GIS}.geometry(Point, 4326), place_id int)`

const point = (...coordinates: number[]) => ({ type: 'Point', coordinates })
const square = (x: number, y: number, side: number) => ({
  type: 'Polygon',
  coordinates: [
    [
      [x, y],
      [x + side, y],
      [x + side, y + side],
      [x, y + side],
      [x, y],
    ],
  ],
})
const crs = (srid: number) => ({ crs: { type: 'name', properties: { name: `EPSG:${srid}` } } })

/** Two districts side by side; a place in each, one on the border, one in neither. */
async function town(t: Test): Promise<TestServer> {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SCHEMA })
  await server.must('bulk', [
    ...['district', 'place', 'place_view', 'survey', 'line'].map((table) => ({ type: 'track_table', args: table })),
    {
      type: 'create_array_relationship',
      args: {
        table: 'district',
        name: 'places',
        using: { foreign_key_constraint_on: { table: 'place', column: 'district_id' } },
      },
    },
    {
      type: 'create_object_relationship',
      args: { table: 'place', name: 'district', using: { foreign_key_constraint_on: 'district_id' } },
    },
    insert('district', [
      { id: 1, name: 'west', area: square(0, 0, 1) },
      { id: 2, name: 'east', area: square(1, 0, 1) },
    ]),
    insert('place', [
      { id: 1, at: point(0.5, 0.5), on_earth: point(0, 0), on_map: point(0.5, 0.5), district_id: 1 },
      { id: 2, at: point(1.5, 0.5), on_earth: point(1, 0), on_map: point(1.5, 0.5), district_id: 2 },
      { id: 3, at: point(1, 0.5), on_earth: point(0, 1), on_map: point(1, 0.5), district_id: 2 },
      { id: 4, at: point(5, 5), on_earth: point(0, 80), on_map: point(5, 5), district_id: null },
      { id: 5, at: null, on_earth: null, on_map: null, district_id: null },
    ]),
  ])
  return server
}

const insert = (table: string, objects: readonly object[], returning?: readonly string[]) => ({
  type: 'insert',
  args: { table, objects, ...(returning ? { returning } : {}) },
})

async function ids(server: TestServer, where: object, as: As = {}, table = 'place'): Promise<number[]> {
  const { status, text, body } = await server.query('select', { table, columns: ['id'], where, order_by: 'id' }, as)
  if (status !== 200) throw new Error(text)
  return (body as { id: number }[]).map(({ id }) => id)
}

t.test('rows are found by where they are', async (t) => {
  const server = await town(t)
  const west = square(0, 0, 1)
  const path = (...coordinates: number[][]) => ({ type: 'LineString', coordinates })
  const places: readonly (readonly [string, object, number[]])[] = [
    ['within, where the border is outside', { at: { $st_within: west } }, [1]],
    ['intersects, where the border counts', { at: { $st_intersects: west } }, [1, 3]],
    ['touches: the border alone', { at: { _st_touches: west } }, [3]],
    ['equals', { at: { $st_equals: point(5, 5) } }, [4]],
    ['not', { $not: { at: { $st_intersects: west } } }, [2, 4]],
    ['null is nowhere', { at: { $st_within: null } }, []],
    ['is null', { at: { $is_null: true } }, [5]],
    ['both operators hold', { at: { $st_intersects: west, $st_touches: west } }, [3]],
    ['a multi polygon', { at: { $st_within: { type: 'MultiPolygon', coordinates: [west.coordinates] } } }, [1]],
    ['a distance in degrees', { at: { $st_d_within: { distance: 0.5, from: point(1, 0.5) } } }, [1, 2, 3]],
    ['a value that is a text', { at: { $st_within: JSON.stringify(west) } }, [1]],
    ['the same bytes', { at: { $eq: point(5, 5) } }, [4]],
    ['other bytes', { at: { $ne: point(5, 5) } }, [1, 2, 3]],
    ['one of several', { at: { $in: [point(5, 5), point(1, 0.5), point(9, 9)] } }, [3, 4]],
    ['none of several', { at: { $nin: [point(5, 5), point(1, 0.5)] } }, [1, 2]],
    ['another column of the same type', { at: { $ceq: 'on_map' } }, []],
    ['a map in metres is asked in degrees', { on_map: { $st_within: west } }, [1]],
    ['or in its own metres', { on_map: { $st_within: { ...square(0, 0, 100_000), ...crs(3857) } } }, [1]],
    ['a distance in metres of the map', { on_map: { $st_d_within: { distance: 1, from: point(5, 5) } } }, [4]],
    ['through a relationship', { district: { area: { $st_contains: point(1.5, 0.5) } } }, [2, 3]],
    ['on the globe', { on_earth: { $st_intersects: square(-0.5, -0.5, 1) } }, [1]],
    ['geometry as geography', { at: { $cast: { geography: { $st_intersects: point(5, 5) } } } }, [4]],
    ['geography as geometry', { on_earth: { _cast: { geometry: { _st_within: square(-0.5, -0.5, 1) } } } }, [1]],
  ]
  for (const [sentence, where, expected] of places) t.same(await ids(server, where), expected, sentence)

  const districts: readonly (readonly [string, object, number[]])[] = [
    ['contains', { area: { $st_contains: point(0.5, 0.5) } }, [1]],
    ['overlaps', { area: { $st_overlaps: square(0.5, 0.5, 0.8) } }, [1, 2]],
    ['crosses', { area: { $st_crosses: path([0.5, 0.5], [0.5, 5]) } }, [1]],
    ['some related row', { places: { at: { $st_equals: point(0.5, 0.5) } } }, [1]],
  ]
  for (const [sentence, where, expected] of districts) {
    t.same(await ids(server, where, {}, 'district'), expected, sentence)
  }
})

t.test('the height counts in three dimensions alone', async (t) => {
  const server = await town(t)
  await server.must('run_sql', {
    sql: `create table balloon (id int primary key, at ${GIS}.geometry(PointZ, 4326) not null, secret bool not null default false);
      insert into balloon values (1, ${GIS}.ST_GeomFromEWKT('SRID=4326;POINT Z (0 0 0)')), (2, ${GIS}.ST_GeomFromEWKT('SRID=4326;POINT Z (0 0 100)')),
        (3, ${GIS}.ST_GeomFromEWKT('SRID=4326;POINT Z (0 0 100)')), (4, ${GIS}.ST_GeomFromEWKT('SRID=4326;POINT Z (90 0 100)'));
      update balloon set secret = id = 3`,
  })
  await server.must('track_table', 'balloon')
  await server.must('create_select_permission', {
    table: 'balloon',
    role: 'user',
    permission: { columns: ['id', 'at'], filter: { secret: false } },
  })
  const high = { type: 'Point', coordinates: [0, 0, 100] }
  const places: readonly (readonly [object, number[], number[]])[] = [
    [{ at: { $st_intersects: high } }, [1, 2, 3], [1, 2]],
    [{ at: { $st_3d_intersects: high } }, [2, 3], [2]],
    [{ at: { $st_d_within: { distance: 50, from: high } } }, [1, 2, 3], [1, 2]],
    [{ at: { $st_3d_d_within: { distance: 50, from: high } } }, [2, 3], [2]],
    [{ at: { _st_3d_d_within: { distance: 100, from: high } } }, [1, 2, 3, 4], [1, 2, 4]],
  ]
  for (const [where, all, seen] of places) {
    t.same(await ids(server, where, {}, 'balloon'), all, JSON.stringify(where))
    t.same(await ids(server, where, { role: 'user' }, 'balloon'), seen, JSON.stringify(where))
  }
  const query =
    'query q($p: geometry!, $d: Float!) { a: balloon(where: {at: {_st_3d_intersects: $p}}, order_by: {id: asc}) { id } b: balloon(where: {at: {_st_3d_d_within: {distance: $d, from: $p}}}, order_by: {id: asc}) { id } }'
  const body = JSON.stringify({ query, variables: { p: high, d: 50 } })
  t.same((await server.fetch('/v1/graphql', { method: 'POST', body })).body, {
    data: { a: [{ id: 2 }, { id: 3 }], b: [{ id: 2 }, { id: 3 }] },
  })
  t.match(
    await server.query('select', { table: 'place', columns: ['id'], where: { on_earth: { $st_3d_intersects: high } } }),
    {
      status: 400,
      body: { error: /works only on columns of type "geometry"/ },
    },
  )
})

t.test('a degree of the equator is 111,319.5 m on WGS 84, and 111,195.1 m on a sphere', async (t) => {
  const server = await town(t)
  const within = (distance: number, more: object = {}) => ({ $st_d_within: { distance, from: point(0, 0), ...more } })
  const east = (condition: object) => ids(server, { id: 2, on_earth: condition })

  t.same(await east(within(111_319)), [])
  t.same(await east(within(111_320)), [2])
  t.same(await east(within(111_195, { use_spheroid: false })), [])
  t.same(await east(within(111_196, { use_spheroid: false })), [2])
  t.same(await ids(server, { on_earth: within(110_575) }), [1, 3], 'a degree of latitude is 110,574.4 m')

  const near = (distance: number) => ({ $cast: { geography: { $st_d_within: { distance, from: point(2.5, 0.5) } } } })
  t.same(await ids(server, { at: near(111_315.4) }), [2], 'at half a degree north it is 4.2 m less')
  t.same(await ids(server, { at: near(111_315.2) }), [])
  t.same(await ids(server, { on_map: near(111_315.4) }), [2], 'a map is cast from its own metres')
})

t.test('what is inserted comes back, in every shape', async (t) => {
  const server = await town(t)
  const ring = square(0, 0, 1).coordinates[0]
  const shapes = [
    point(1.1, 2.123456789012345),
    point(1, 2, 3),
    {
      type: 'LineString',
      coordinates: [
        [0, 0],
        [1, 1],
        [-1.5, 2e-7],
      ],
    },
    {
      type: 'LineString',
      coordinates: [
        [0, 0, 5],
        [1, 1, 6],
      ],
    },
    { type: 'Polygon', coordinates: [square(0, 0, 9).coordinates[0], ring] },
    {
      type: 'MultiPoint',
      coordinates: [
        [0, 0],
        [1, 1],
      ],
    },
    {
      type: 'MultiLineString',
      coordinates: [
        [
          [0, 0],
          [1, 1],
        ],
        [
          [2, 2],
          [3, 3],
        ],
      ],
    },
    { type: 'MultiPolygon', coordinates: [[ring], [square(3, 3, 1).coordinates[0]]] },
    {
      type: 'GeometryCollection',
      geometries: [
        point(1, 2),
        {
          type: 'LineString',
          coordinates: [
            [0, 0],
            [1, 1],
          ],
        },
      ],
    },
    { type: 'Point', coordinates: [] },
    { type: 'MultiPolygon', coordinates: [] },
    null,
  ]
  const objects = shapes.map((shape, i) => ({ id: 100 + i, shape }))
  const expected = JSON.stringify(objects)

  const inserted = await server.must('insert', { table: 'place', objects, returning: ['id', 'shape'] })
  t.equal(JSON.stringify(inserted.returning), expected, 'returned')
  const where = { id: { $gte: 100 } }
  const args = { table: 'place', columns: ['id', 'shape'], where, order_by: 'id' }
  t.equal(JSON.stringify(await server.must('select', args)), expected, 'selected')

  for (const shape of shapes) {
    const set = { table: 'place', where: { id: 1 }, $set: { shape }, returning: ['shape'] }
    t.same((await server.must('update', set)).returning, [{ shape }], `updated to ${shape?.type}`)
  }
  const gone = await server.must('delete', { table: 'place', where, returning: ['shape'] })
  t.same(
    gone.returning,
    shapes.map((shape) => ({ shape })),
    'deleted',
  )
})

t.test('a column keeps its spatial reference', async (t) => {
  const server = await town(t)
  const half = 20_037_508.342789244
  const rows = [
    { id: 10, on_map: point(180, 0), spot: point(180, 0), on_earth: point(179, 1), at: point(1, 2) },
    {
      id: 11,
      on_map: { ...point(half, 0), ...crs(3857) },
      spot: { ...point(-half, 0), ...crs(3857) },
      on_earth: { ...point(half / 2, 0), ...crs(3857) },
      at: { ...point(half / 2, 0), ...crs(3857) },
    },
  ]
  const { returning } = await server.must('insert', {
    table: 'place',
    objects: rows,
    returning: ['on_map', 'spot', 'on_earth', 'at'],
  })

  const mapped = (x: number) => ({ type: 'Point', ...crs(3857), coordinates: [x, 0] })
  const rounded = JSON.parse(JSON.stringify(returning), (_, value: unknown) =>
    typeof value === 'number' ? Math.round(value * 1e6) / 1e6 + 0 : value,
  ) as unknown
  t.same(rounded, [
    { on_map: mapped(20_037_508.342789), spot: mapped(20_037_508.342789), on_earth: point(179, 1), at: point(1, 2) },
    { on_map: mapped(20_037_508.342789), spot: mapped(-20_037_508.342789), on_earth: point(90, 0), at: point(90, 0) },
  ])
  const again = await server.must('update', {
    table: 'place',
    where: { id: 11 },
    $set: returning[1],
    returning: ['on_map', 'spot', 'on_earth', 'at'],
  })
  t.equal(JSON.stringify(again.returning), JSON.stringify([returning[1]]), 'what came out goes in unchanged')

  const any = await server.must('update', {
    table: 'place',
    where: { id: 1 },
    $set: { shape: { ...point(1, 2), ...crs(25833) } },
    returning: ['shape'],
  })
  t.same(
    any.returning,
    [{ shape: { ...point(1, 2), ...crs(25833) } }],
    'a column of any reference keeps that of the value',
  )

  const nad83 = { id: 1, spot: { ...point(1, 2), ...crs(4269) } }
  const surveyed = await server.must('insert', { table: 'survey', objects: [nad83], returning: ['id', 'spot'] })
  t.same(surveyed.returning, [nad83], 'a geography of another reference says which')
})

t.test('geometry is GeoJSON wherever rows are read and written', async (t) => {
  const server = await town(t)

  t.same(
    await server.must('select', {
      table: 'district',
      columns: ['name', { name: 'places', columns: ['at'], order_by: 'id' }],
      order_by: 'id',
    }),
    [
      { name: 'west', places: [{ at: point(0.5, 0.5) }] },
      { name: 'east', places: [{ at: point(1.5, 0.5) }, { at: point(1, 0.5) }] },
    ],
    'in nested rows',
  )
  t.same(
    await server.must('select', { table: 'place', columns: ['*.*'], where: { id: 4 } }),
    [
      {
        id: 4,
        name: null,
        district_id: null,
        at: point(5, 5),
        on_earth: point(0, 80),
        on_map: (await server.must('select', { table: 'place', columns: ['on_map'], where: { id: 4 } }))[0].on_map,
        spot: null,
        shape: null,
        high: point(7, 8, 9),
        district: null,
      },
    ],
    'under a wildcard',
  )
  const view = { table: 'place_view', columns: ['at', 'on_earth'], where: { at: { $st_equals: point(5, 5) } } }
  t.same(await server.must('select', view), [{ at: point(5, 5), on_earth: point(0, 80) }], 'through a view')
  const throughView = insert(
    'place_view',
    [
      { id: 20, at: point(1, 2) },
      { id: 21, on_map: point(0, 0) },
    ],
    ['id', 'at'],
  )
  t.same(
    (await server.must(throughView.type, throughView.args)).returning,
    [
      { id: 20, at: point(1, 2) },
      { id: 21, at: null },
    ],
    'into a view, with different keys',
  )

  const some = insert('place', [{ id: 30 }, { id: 31, high: null }, { id: 32, high: point(1, 2, 3) }], ['id', 'high'])
  t.same(
    (await server.must(some.type, some.args)).returning,
    [
      { id: 30, high: point(7, 8, 9) },
      { id: 31, high: null },
      { id: 32, high: point(1, 2, 3) },
    ],
    'a missing one takes its default, null stays null',
  )
  const upsert = {
    table: 'place',
    objects: [{ id: 30, high: point(4, 4, 4) }],
    on_conflict: { action: 'update', constraint_on: 'id' },
    returning: ['high'],
  }
  t.same((await server.must('insert', upsert)).returning, [{ high: point(4, 4, 4) }], 'in an upsert')
  t.same(
    (
      await server.must('insert', {
        table: 'place',
        objects: [{ id: 33, at: JSON.stringify(point(1, 2)) }],
        returning: ['at'],
      })
    ).returning,
    [{ at: point(1, 2) }],
    'a text that holds a geometry',
  )

  const body = JSON.stringify({
    type: 'select',
    args: { table: 'place', columns: ['id', 'at'], where: { id: { $in: [4, 5] } }, order_by: 'id' },
  })
  const as = async (accept: string) => (await server.raw(body, {}, { accept })).text
  t.equal(await as('application/x-ndjson'), '{"id":4,"at":{"type":"Point","coordinates":[5,5]}}\n{"id":5,"at":null}\n')
  t.equal(await as('text/csv'), 'id,at\r\n4,"{""type"":""Point"",""coordinates"":[5,5]}"\r\n5,\r\n')
  t.same(await server.must('count', { table: 'place', where: { at: { $st_within: square(0, 0, 1) } } }), { count: 1 })
  t.same(await server.must('count', { table: 'place', distinct: ['high'] }), { count: 4 }, 'distinct, with null')
})

t.test('permissions by place', async (t) => {
  const server = await town(t)
  const permit = (type: string, permission: object) => ({
    type: `create_${type}_permission`,
    args: { table: 'place', role: 'local', permission },
  })
  const here = { at: { $st_within: 'X-Service-Area' } }
  const west = { at: { $st_within: square(0, 0, 1) } }
  await server.must('bulk', [
    permit('select', { columns: ['id', 'at'], filter: here }),
    permit('insert', { check: west, columns: ['id', 'at'], set: { on_earth: point(3, 3) } }),
    permit('update', { columns: ['at'], filter: here, check: west }),
    permit('delete', {
      filter: {
        at: { $cast: { geography: { $st_d_within: { distance: 'X-Service-Radius', from: point(0.5, 0.5) } } } },
      },
    }),
  ])
  const of = (area: object, radius = '0'): As => ({
    role: 'local',
    variables: { 'x-service-area': JSON.stringify(area), 'x-service-radius': radius },
  })

  t.same(await ids(server, {}, of(square(0, 0, 1))), [1], 'a filter by a session variable')
  t.same(await ids(server, {}, of(square(0, 0, 9))), [1, 2, 3, 4])
  const add = (id: number, at: object, as = of(square(0, 0, 9))) =>
    server.query('insert', { table: 'place', objects: [{ id, at }], returning: ['id'] }, as)
  t.same((await add(50, point(0.2, 0.2))).body, { affected_rows: 1, returning: [{ id: 50 }] }, 'a check that holds')
  t.match(
    await add(51, point(4, 4)),
    { status: 400, body: { error: /would not pass the (insert|update) check/ } },
    'and one that does not',
  )
  t.same(
    await server.must('select', { table: 'place', columns: ['on_earth'], where: { id: 50 } }),
    [{ on_earth: point(3, 3) }],
    'a preset',
  )
  const move = (to: object) =>
    server.query('update', { table: 'place', where: { id: 50 }, $set: { at: to } }, of(square(0, 0, 1)))
  t.match(await move(point(0.3, 0.3)), { status: 200, body: { affected_rows: 1 } })
  t.match(await move(point(4, 4)), { status: 400, body: { error: /would not pass the (insert|update) check/ } })
  const remove = (radius: string) =>
    server.query('delete', { table: 'place', where: { id: 50 } }, of(square(0, 0, 9), radius))
  t.match(await remove('1000'), { body: { affected_rows: 0 } }, 'a radius from a session variable, in metres')
  t.match(await remove('100000'), { body: { affected_rows: 1 } })

  const bad = await server.query(
    'select',
    { table: 'place', columns: ['id'] },
    { role: 'local', variables: { 'x-service-area': 'POINT(1 1)' } },
  )
  t.match(bad, { status: 400, body: { code: 'parse-failed', error: /^x-service-area header: expecting a GeoJSON/ } })
  const exported = await server.must('export_metadata', {})
  await server.must('replace_metadata', exported)
  t.same(await ids(server, {}, of(square(0, 0, 1))), [1], 'the metadata goes out and in')
})

t.test('what is wrong with a geometry is said, with its place', async (t) => {
  const server = await town(t)
  const shape = (shape: unknown) =>
    [
      'insert',
      {
        table: 'place',
        objects: [
          { id: 60, name: 'a' },
          { id: 61, shape },
        ],
      },
    ] as const
  const column = (name: string, value: unknown) =>
    ['insert', { table: 'place', objects: [{ id: 60, [name]: value }] }] as const
  const where = (condition: object) => ['select', { table: 'place', columns: ['id'], where: condition }] as const
  const cases: readonly (readonly [readonly [string, object], path: string, error: RegExp])[] = [
    [shape({ type: 'Point', coordinates: ['1', 2] }), '$.args.objects[1].shape.coordinates[0]', /expecting a number/],
    [shape('POINT(1 1)'), '$.args.objects[1].shape', /expecting a GeoJSON/],
    [shape(5), '$.args.objects[1].shape', /expecting a GeoJSON/],
    [shape({ ...point(1, 2), ...crs(99) }), '$.args.objects', /SRID/],
    [column('at', square(0, 0, 1)), '$.args.objects', /Geometry type \(Polygon\) does not match column type \(Point\)/],
    [column('high', point(1, 2)), '$.args.objects', /Z dimension/],
    [column('on_map', point(1, 95)), '$.args.objects', /coordinate/],
    [column('on_earth', point(1, 95)), '$.args.objects[0].on_earth.coordinates[1]', /latitude/],
    [['update', { table: 'place', where: {}, $set: { at: square(0, 0, 1) } }], '$.args.$set.at', /does not match/],
    [['update', { table: 'place', where: {}, $set: { at: 'x' } }], '$.args.$set.at', /expecting a GeoJSON/],
    [where({ at: { $st_within: { type: 'Point' } } }), '$.args.where.at.$st_within', /'coordinates' was not present/],
    [where({ at: { $st_within: { ...point(1, 1), ...crs(99) } } }), '$.args.where.at.$st_within', /SRID/],
    [where({ at: { $in: [point(1, 1), 7] } }), '$.args.where.at.$in[1]', /expecting a GeoJSON/],
    [where({ at: point(1, 1) }), '$.args.where.at.type', /unknown operator "type"/],
    [
      where({ on_earth: { $st_within: point(1, 1) } }),
      '$.args.where.on_earth.$st_within',
      /only on columns of type "geometry"/,
    ],
    [
      where({ name: { $st_within: point(1, 1) } }),
      '$.args.where.name.$st_within',
      /only on columns of type "geometry"/,
    ],
    [where({ name: { $cast: { geometry: {} } } }), '$.args.where.name.$cast.geometry', /cannot be cast/],
    [
      where({ at: { $st_d_within: { distance: -1, from: point(1, 1) } } }),
      '$.args.where.at.$st_d_within.distance',
      /not negative/,
    ],
    [
      where({ at: { $st_d_within: { distance: '-1', from: point(1, 1) } } }),
      '$.args.where.at.$st_d_within.from',
      /less than zero/,
    ],
    [
      where({ at: { $st_d_within: { distance: 1, from: point(1, 1), use_spheroid: true } } }),
      '$.args.where.at.$st_d_within.use_spheroid',
      /geography/,
    ],
  ]
  for (const [[type, args], path, error] of cases) {
    const { status, body } = await server.query(type, args)
    t.match({ status, ...body }, { status: 400, path, error }, `${path}: ${body.error}`)
  }

  await server.must('run_sql', {
    sql: `update place set shape = ${GIS}.st_geomfromtext('CIRCULARSTRING(0 0,1 1,2 0)', 3857) where id = 1`,
  })
  const curve = await server.query('select', { table: 'place', columns: ['shape'] })
  t.match(curve, { status: 400, body: { error: /CircularString/ } }, 'a shape that GeoJSON does not have')
  const mixed = await server.query('select', {
    table: 'place',
    columns: ['id'],
    where: { shape: { $st_intersects: point(1, 1) } },
  })
  t.match(mixed, { status: 400, body: { error: /mixed SRID/, path: '$.args.where.shape.$st_intersects' } })
  const permission = {
    table: 'place',
    role: 'r',
    permission: { columns: '*', filter: { at: { $st_within: { ...point(1, 1), ...crs(99) } } } },
  }
  t.match(await server.query('create_select_permission', permission), { status: 400, body: { path: /permission/ } })
})

t.test('an index serves a condition, of a table of any spatial reference', async (t) => {
  const server = await town(t)
  await server.must('run_sql', {
    sql: `insert into place (id, at, on_map, on_earth)
        select 1000 + i, p, ${GIS}.st_transform(p, 3857), p::${GIS}.geography
        from (select i, ${GIS}.st_setsrid(${GIS}.st_makepoint(i % 100, i / 100), 4326) as p from generate_series(0, 7999) i) s;
      create index at_index on place using gist (at);
      create index on_map_index on place using gist (on_map);
      create index on_earth_index on place using gist (on_earth);
      analyze place`,
  })
  const filter = { id: { $ne: 1 } }
  await server.must('create_select_permission', { table: 'place', role: 'r', permission: { columns: '*', filter } })
  const near = { $st_d_within: { distance: 100, from: point(50, 40) } }
  for (const [index, condition] of Object.entries({
    at: { $st_within: square(49.5, 39.5, 1) },
    on_map: near,
    on_earth: near,
  })) {
    const query = { type: 'select', args: { table: 'place', columns: ['id'], where: { [index]: condition } } }
    for (const role of ['admin', 'r']) {
      const { text } = await server.fetch('/v1/query/explain', {
        method: 'POST',
        body: JSON.stringify({ query, role }),
      })
      t.match(text, `${index}_index`, role)
      t.strictSame((await server.query('select', query.args, { role })).body, [{ id: 5050 }], role)
    }
  }
})

t.test('a key that is a geometry is no way to find a row again', async (t) => {
  const server = await town(t)
  await server.must('bulk', [
    {
      type: 'create_object_relationship',
      args: {
        table: 'line',
        name: 'place',
        using: { manual_configuration: { remote_table: 'place', column_mapping: { place_id: 'id' } } },
      },
    },
    { type: 'create_select_permission', args: { table: 'line', role: 'r', permission: { columns: '*', filter: {} } } },
    {
      type: 'create_insert_permission',
      args: { table: 'line', role: 'r', permission: { check: { place: { at: { $st_equals: point(5, 5) } } } } },
    },
  ])
  const manual = { remote_table: 'district', column_mapping: { a: 'area' } }
  await server.must('create_object_relationship', {
    table: 'line',
    name: 'around',
    using: { manual_configuration: manual },
  })
  const around = { table: 'line', columns: [{ name: 'around', columns: ['id'] }] }
  t.match(
    await server.query('select', around),
    { status: 400 },
    'nor to join rows by, unless its operators are in sight',
  )

  const third = 1 / 30_000
  const add = (place_id: number) =>
    server.query(
      'insert',
      { table: 'line', objects: [{ a: point(third, third), b: null, place_id }], returning: ['place_id'] },
      { role: 'r' },
    )

  t.match(await add(1), { status: 400 })
  t.match(await add(4), { status: 200, body: { affected_rows: 1, returning: [{ place_id: 4 }] } })
})
