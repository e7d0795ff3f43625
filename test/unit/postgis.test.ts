import pg from 'pg'
import t from 'tap'
import { type CatalogData, openCatalog, type TableData } from '../../core/catalog/catalog.js'
import { parsePermission } from '../../core/metadata/permission.js'
import { compile } from '../../core/compile/compile.js'
import { clientError } from '../../core/db/errors.js'
import { ServiceError } from '../../core/errors.js'
import { type Json, parseJson, rowsOf } from '../../core/json/parse.js'
import { geoJsonText } from '../../core/plan/geojson.js'
import type { BoolExp, SqlType } from '../../core/ir.js'
import { allNames } from '../../core/plan/names.js'
import { bind, type Param } from '../../core/sql/bind.js'
import { liftInsert, liftUpdate } from '../../plugins/query/rows/lift/writes.js'
import { liftSelect } from '../../plugins/query/rows/lift/reads.js'
import plan from '../../plugins/query/rows/plan.js'

const geo = (name: 'geometry' | 'geography', srid?: number): SqlType => ({
  schema: 'gis',
  name,
  kind: name,
  array: `_${name}`,
  ...(srid === undefined ? {} : { srid }),
})
const int4: SqlType = { schema: 'pg_catalog', name: 'int4', kind: 'int4', array: '_int4' }
const column = (name: string, type: SqlType, more: object = {}) => ({ name, type, nullable: true, ...more })
const place: TableData = {
  schema: 'public',
  name: 'place',
  kind: 'table',
  system: false,
  insertable: true,
  updatable: true,
  deletable: true,
  columns: [
    column('id', int4),
    column('at', geo('geometry', 4326)),
    column('on_map', geo('geometry', 3857), { default: 'd()' }),
    column('on_earth', geo('geography')),
    column('shape', geo('geometry')),
  ],
  primaryKey: ['id'],
  foreignKeys: [],
  rules: [],
  keys: [
    { name: 'place_pkey', columns: ['id'] },
    { name: 'place_at_key', columns: ['at'] },
  ],
  relationships: [],
  computedFields: [],
  permissions: [],
}
const data: CatalogData = {
  id: 'c',
  version: '1',
  tables: [place],
  filters: [],
  templates: [],
  functions: [],
  inconsistent: [],
}
const catalog = openCatalog(data)
const table = catalog.tables.get('public\0place') as NonNullable<ReturnType<typeof catalog.tables.get>>

const POINT = { type: 'Point', coordinates: [1, 2] }
const MAPPED = { type: 'name', properties: { name: 'EPSG:3857' } }

function compiled(type: 'select' | 'insert' | 'update', args: object) {
  const request = parseJson(JSON.stringify({ table: 'place', ...args }), undefined, /./)
  const { shape, values } = { select: liftSelect, insert: liftInsert, update: liftUpdate }[type](request)
  const { statements, mostRows } = compile(
    { planner: 'query', shape, role: 'admin', form: 'rows' },
    plan as never,
    catalog,
  )
  const { text, params } = statements[0] as NonNullable<(typeof statements)[0]>
  return { text, mostRows, bound: () => bind(params, { values, variables: new Map() }) }
}

t.test('a condition on a geometry compiles to a function of the schema of PostGIS', async (t) => {
  const where = (condition: object): { text: string; values: unknown } => {
    const { text, bound } = compiled('select', { columns: ['id'], where: condition })
    return { text: /where (.*)\) x$/.exec(text)?.[1] as string, values: bound() }
  }
  const json = JSON.stringify(POINT)
  const at = 'ST_Transform("gis".ST_GeomFromGeoJSON($1::text), 4326)'
  const near = { distance: 7.5, from: POINT }
  const cases: readonly (readonly [object, string, readonly string[]])[] = [
    ...['Contains', 'Crosses', 'Equals', 'Intersects', 'Overlaps', 'Touches', 'Within'].flatMap((name) =>
      ['$', '_'].map(
        (sign) =>
          [
            { at: { [`${sign}st_${name.toLowerCase()}`]: POINT } },
            `"gis".ST_${name}(t0."at", "gis".${at})`,
            [json],
          ] as const,
      ),
    ),
    [
      { on_map: { $st_d_within: near } },
      '"gis".ST_DWithin(t0."on_map", "gis".ST_Transform("gis".ST_GeomFromGeoJSON($1::text), 3857), $2::float8)',
      [json, '7.5'],
    ],
    [
      { on_earth: { $st_d_within: { ...near, use_spheroid: false } } },
      `"gis".ST_DWithin(t0."on_earth", "gis".${at}::"gis"."geography", $2::float8, $3::bool)`,
      [json, '7.5', 'false'],
    ],
    [
      { shape: { $st_equals: POINT } },
      '"gis".ST_Equals(t0."shape", case "gis".ST_SRID("gis".ST_GeomFromGeoJSON($1::text)) when 0 then "gis".ST_GeomFromGeoJSON($1::text) else "gis".ST_Transform("gis".ST_GeomFromGeoJSON($1::text), "gis".ST_SRID("gis".ST_GeomFromGeoJSON($1::text))) end)',
      [json],
    ],
    [
      { at: { $cast: { geography: { $st_d_within: near } } } },
      `"gis".ST_DWithin(t0."at"::"gis"."geography", "gis".${at}::"gis"."geography", $2::float8)`,
      [json, '7.5'],
    ],
    [
      { on_map: { _cast: { geography: { _st_intersects: POINT } } } },
      `"gis".ST_Intersects("gis".ST_Transform(t0."on_map", 4326)::"gis"."geography", "gis".${at}::"gis"."geography")`,
      [json],
    ],
    [
      { on_earth: { $cast: { geometry: { $st_within: POINT, $is_null: false } } } },
      `("gis".ST_Within(t0."on_earth"::"gis"."geometry", "gis".${at}) and (not (t0."on_earth" is null)))`,
      [json],
    ],
    [{ at: { $cast: { geography: { $st_intersects: null } } } }, 'null::bool', []],
    [{ at: { $cast: {} } }, 'undefined', []],
    [{ at: { $eq: POINT } }, `(t0."at" operator("gis".=) "gis".${at})`, [json]],
    [{ at: { $ne: POINT } }, `(not (t0."at" operator("gis".=) "gis".${at}))`, [json]],
    [{ at: { $ceq: 'shape' } }, '(t0."at" operator("gis".=) t0."shape")', []],
    [
      { at: { $nin: [POINT] } },
      '(not (t0."at" operator("gis".=) any(array(select "gis".ST_Transform("gis".ST_GeomFromGeoJSON(g), 4326) from pg_catalog.unnest($1::_text) g))))',
      [`{"${json.replaceAll('"', String.raw`\"`)}"}`],
    ],
  ]
  for (const [condition, text, values] of cases) {
    t.same(where(condition), { text: text === 'undefined' ? undefined : text, values }, JSON.stringify(condition))
  }
})

t.test('a key that is equal once it is cast may belong to several rows', async (t) => {
  const mostRows = (at: object) => compiled('select', { columns: ['id'], where: { at } }).mostRows

  t.equal(mostRows({ $eq: POINT }), 1)
  t.equal(mostRows({ $cast: { geography: { $eq: POINT } } }), undefined)
})

t.test('geometry is selected as GeoJSON and written from it', async (t) => {
  const select = compiled('select', { columns: ['id', 'at'] }).text
  t.equal(
    select,
    'select pg_catalog.row_to_json(x)::text from (select t0."id" as "id", "gis".ST_AsGeoJSON(t0."at", 15, 8)::json as "at" from "public"."place" t0) x',
  )
  const insert = compiled('insert', { objects: [{ id: 1, on_earth: POINT }], returning: ['on_earth'] })
  t.equal(
    insert.text,
    'with w as (insert into "public"."place" as t0 ("id", "on_earth") select r0, "gis".ST_Transform("gis".ST_GeomFromGeoJSON(r1), 4326)::"gis"."geography" from rows from (pg_catalog.json_to_recordset($1::json) as ("id" int4, "on_earth" text)) with ordinality as r(r0, r1, ord) order by ord returning "gis".ST_AsGeoJSON(t0."on_earth"::"gis"."geometry", 15, 8)::json as "c0") select (select pg_catalog.row_to_json(r)::text from (select (select pg_catalog.count(*) from w) as "affected_rows", array(select x from (select "c0" as "on_earth" from w) x) as "returning") r)',
  )
  t.same(insert.bound(), [`[{"id":1,"on_earth":${JSON.stringify(POINT)}}]`])
  const some = compiled('insert', { objects: [{ on_map: POINT }, {}] }).text
  t.match(
    some,
    'case when e.o -> $2::text is not null then "gis".ST_Transform("gis".ST_GeomFromGeoJSON(r0), 3857) else (d())::"gis"."geometry" end',
  )
  const update = compiled('update', { where: {}, $set: { at: POINT, shape: null } }).text
  t.match(update, 'set "at" = "gis".ST_Transform("gis".ST_GeomFromGeoJSON($1::text), 4326), "shape" = null')
})

t.test('what is asked of a geometry wrongly is refused, with its path', async (t) => {
  const cases: readonly (readonly [object, string, string])[] = [
    [{ id: { $st_within: POINT } }, '$st_within', 'this operator works only on columns of type "geometry"'],
    [{ on_earth: { $st_touches: POINT } }, '$st_touches', 'this operator works only on columns of type "geometry"'],
    [{ id: { $st_intersects: POINT } }, '$st_intersects', 'only on columns of type "geometry"/"geography"'],
    [{ at: { $st_d_within: 5 } }, '$st_d_within', 'expecting an object of distance and from'],
    [{ at: { $st_d_within: { from: POINT } } }, '$st_d_within', "the key 'distance' was not present"],
    [{ at: { $st_d_within: { distance: 1 } } }, '$st_d_within', "the key 'from' was not present"],
    [{ at: { $st_d_within: { distance: 1, from: null } } }, '$st_d_within.from', 'found null'],
    [{ at: { $st_d_within: { distance: 1, from: POINT, far: 1 } } }, '$st_d_within.far', 'unexpected key'],
    [{ at: { $st_d_within: { distance: -0.1, from: POINT } } }, '$st_d_within.distance', 'a distance is not negative'],
    [{ at: { $st_d_within: { distance: true, from: POINT } } }, '$st_d_within.distance', 'expecting a number'],
    [{ at: { $st_d_within: { distance: 1, from: POINT, use_spheroid: true } } }, '$st_d_within.use_spheroid', 'flat'],
    [
      { on_earth: { $st_d_within: { distance: 1, from: POINT, use_spheroid: 1 } } },
      '$st_d_within.use_spheroid',
      'boolean',
    ],
    [{ at: { $cast: 'geography' } }, '$cast', 'expecting an object'],
    [{ at: { $cast: { geography: POINT } } }, '$cast.geography.type', 'unknown operator'],
    [{ at: { $cast: { geometry: {} } } }, '$cast.geometry', 'cannot be cast to "geometry"'],
    [{ id: { $cast: { geography: {} } } }, '$cast.geography', 'cannot be cast to "geography"'],
    [
      { at: { $cast: { geography: { $st_within: POINT } } } },
      '$cast.geography.$st_within',
      'only on columns of type "geometry"',
    ],
    [{ at: { $cast: { geography: { $cast: { geometry: {} } } } } }, '$cast.geography.$cast', 'within a cast'],
    [{ at: { $cast: { geography: { $ceq: 'on_earth' } } } }, '$cast.geography.$ceq', 'within a cast'],
    [{ at: { $ceq: 'on_earth' } }, '$ceq', 'incompatible column types'],
    [{ at: { $st_within: { ...POINT, coordinates: [1] } } }, '$st_within.coordinates', 'expecting a position'],
    [{ at: { $in: [POINT, { type: 'Dot' }] } }, '$in[1].type', 'expecting the type of a geometry'],
  ]
  for (const [where, path, message] of cases) {
    const [name = ''] = Object.keys(where)
    const run = () => compiled('select', { columns: ['id'], where }).bound()
    t.throws(run, { status: 400, path: `$.args.where.${name}.${path}`, message: new RegExp(escaped(message)) }, path)
  }
})

const escaped = (text: string): string => text.replaceAll(/[$().*?[\]^{|}]/g, String.raw`\$&`)

t.test('a permission may hold geometry, and have it from the session', async (t) => {
  const filters: BoolExp[] = []
  const filter = {
    at: { $st_within: 'X-Service-Area' },
    on_earth: { $st_d_within: { distance: 'X-Service-Far', from: POINT } },
  }
  parsePermission('select', { columns: '*', filter }, table, allNames(catalog), (exp) => filters.push(exp) - 1)

  const float8 = { schema: 'pg_catalog', name: 'float8', kind: 'float', array: '_float8' }
  t.same(filters, [
    {
      kind: 'and',
      of: [
        {
          kind: 'compare',
          column: 'at',
          op: 'st_within',
          to: { kind: 'session', name: 'x-service-area', type: geo('geometry', 4326) },
        },
        {
          kind: 'compare',
          column: 'on_earth',
          op: 'st_d_within',
          to: { kind: 'const', value: JSON.stringify(POINT), type: geo('geography') },
          more: [{ kind: 'session', name: 'x-service-far', type: float8 }],
        },
      ],
    },
  ])

  const area: Param = { kind: 'session', name: 'x-service-area', type: geo('geometry', 4326) }
  const from = (value: string) => bind([area], { values: [], variables: new Map([['x-service-area', value]]) })
  t.same(from(JSON.stringify(POINT)), [JSON.stringify(POINT)])
  t.throws(() => from('POINT(1 2)'), { status: 400, message: 'x-service-area header: expecting a GeoJSON geometry' })
})

const RING = [
  [0, 0],
  [1, 0],
  [1, 1],
  [0, 0],
]
const LINE = [
  [0, 0],
  [1, 1, 1],
]

t.test('GeoJSON is what RFC 7946 says a geometry is', async (t) => {
  const good: readonly Json[] = [
    POINT,
    { coordinates: [1.5, -2e-3, 1e3], type: 'Point', bbox: [1, 2, 3], name: null },
    { type: 'Point', coordinates: [] },
    {
      type: 'MultiPoint',
      coordinates: [
        [0, 0],
        [0, 0],
      ],
    },
    { type: 'LineString', coordinates: LINE },
    { type: 'LineString', coordinates: [] },
    { type: 'MultiLineString', coordinates: [LINE, []] },
    { type: 'Polygon', coordinates: [RING, RING] },
    { type: 'Polygon', coordinates: [] },
    { type: 'MultiPolygon', coordinates: [[RING], [RING, RING]] },
    { type: 'GeometryCollection', geometries: [POINT, { type: 'LineString', coordinates: LINE }] },
    { type: 'GeometryCollection', geometries: [] },
    { ...POINT, crs: MAPPED },
    { ...POINT, crs: { properties: { name: 'urn:ogc:def:crs:EPSG::25833' }, type: 'name' } },
  ]
  for (const value of good) {
    const text = JSON.stringify(value)
    t.equal(geoJsonText(value, geo('geometry'), '$'), text, text)
    t.equal(geoJsonText(` ${text}\n`, geo('geometry'), '$'), ` ${text}\n`, 'as a text')
    const rows = rowsOf([{ g: null }, { id: 1, g: value }, { g: text }] as Json[], '$')
    const param: Param = { kind: 'rows', slot: 0, columns: [{ name: 'g', type: geo('geometry') }] }
    t.same(bind([param], { values: [rows], variables: new Map() }), [rows.source], 'in rows')
  }

  const bad: readonly (readonly [Json, string, string])[] = [
    [5, '', 'expecting a GeoJSON geometry'],
    [true, '', 'expecting a GeoJSON geometry'],
    [[1, 2], '', 'expecting a GeoJSON geometry'],
    ['', '', 'expecting a GeoJSON geometry'],
    ['null', '', 'expecting a GeoJSON geometry'],
    ['POINT(1 2)', '', 'expecting a GeoJSON geometry'],
    ['{"type":"Point","coordinates":[1,2]} and more', '', 'expecting a GeoJSON geometry'],
    ['{"type":"Point","coordinates":["a",2],"coordinates":[1,2]}', '.coordinates', 'duplicate key'],
    [{}, '', "the key 'type' was not present"],
    [{ type: 'Point' }, '', "the key 'coordinates' was not present"],
    [{ type: 'Feature', geometry: POINT }, '.type', 'expecting the type of a geometry'],
    [{ type: 'point', coordinates: [1, 2] }, '.type', 'expecting the type of a geometry'],
    [{ type: 'toString', coordinates: [1, 2] }, '.type', 'expecting the type of a geometry'],
    [{ type: 7, coordinates: [1, 2] }, '.type', 'expecting the type of a geometry'],
    [{ type: 'Point', coordinates: null }, '.coordinates', 'expecting an array'],
    [{ type: 'Point', coordinates: [1] }, '.coordinates', 'expecting a position'],
    [{ type: 'Point', coordinates: [1, 2, 3, 4] }, '.coordinates', 'expecting a position'],
    [{ type: 'Point', coordinates: [1, '2'] }, '.coordinates[1]', 'expecting a number'],
    [{ type: 'Point', coordinates: [[1, 2]] }, '.coordinates[0]', 'expecting a number'],
    ['{"type":"Point","coordinates":[1e400,2]}', '.coordinates[0]', 'too large'],
    [{ type: 'MultiPoint', coordinates: [[]] }, '.coordinates[0]', 'expecting a position'],
    [{ type: 'LineString', coordinates: [[1, 2]] }, '.coordinates', 'two positions'],
    [{ type: 'MultiLineString', coordinates: [LINE, [[1, 2]]] }, '.coordinates[1]', 'two positions'],
    [{ type: 'Polygon', coordinates: RING }, '.coordinates[0][0]', 'expecting an array'],
    [{ type: 'Polygon', coordinates: [RING.slice(0, 3)] }, '.coordinates[0]', 'four positions'],
    [{ type: 'Polygon', coordinates: [[]] }, '.coordinates[0]', 'four positions'],
    [{ type: 'Polygon', coordinates: [[...RING, [0, 1]]] }, '.coordinates[0]', 'the last the same as the first'],
    [
      { type: 'MultiPolygon', coordinates: [[RING], [RING, [...RING, [5, 5]]]] },
      '.coordinates[1][1]',
      'four positions',
    ],
    [{ type: 'GeometryCollection', coordinates: [] }, '', "the key 'geometries' was not present"],
    [{ type: 'GeometryCollection', geometries: [POINT, null] }, '.geometries[1]', 'expecting a GeoJSON geometry'],
    [
      { type: 'GeometryCollection', geometries: [{ ...POINT, crs: MAPPED }] },
      '.geometries[0].crs',
      'no crs of its own',
    ],
    [
      { type: 'GeometryCollection', geometries: [{ type: 'GeometryCollection', geometries: [] }] },
      '.geometries[0].geometries',
      'collection',
    ],
    [{ ...POINT, crs: null }, '.crs', 'expecting {"type": "name"'],
    [{ ...POINT, crs: { type: 'name', properties: { name: 'urn:ogc:def:crs:OGC:1.3:CRS84' } } }, '.crs', 'EPSG'],
    [{ ...POINT, crs: { type: 'link', properties: { name: 'EPSG:3857' } } }, '.crs', 'EPSG'],
  ]
  for (const [value, path, message] of bad) {
    const error = { status: 400, code: 'parse-failed', message: new RegExp(escaped(message)) }
    const name = JSON.stringify(value)
    t.throws(() => geoJsonText(value, geo('geometry'), '$.args.x'), { ...error, path: `$.args.x${path}` }, name)
    const param: Param = { kind: 'rows', slot: 0, columns: [{ name: 'g', type: geo('geometry') }] }
    const inRows = () => bind([param], { values: [rowsOf([{ g: POINT }, { g: value }], '$')], variables: new Map() })
    t.throws(inRows, { ...error, path: `$.args.objects[1].g${path}` }, `${name} in rows`)
  }

  const pole = { type: 'Point', coordinates: [0, 91] }
  t.throws(() => geoJsonText(pole, geo('geography'), '$'), { path: '$.coordinates[1]', message: /latitude/ })
  t.ok(geoJsonText(pole, geo('geometry'), '$'))
  t.ok(geoJsonText({ ...pole, crs: MAPPED }, geo('geography'), '$'), 'metres, not degrees')
})

t.test(
  'what PostGIS calls an internal error is the fault of a geometry; what PostgreSQL calls one is not',
  async (t) => {
    const ADMIN = { role: 'admin', catalog }
    const failed = (code: string, file: string): pg.DatabaseError =>
      Object.assign(new pg.DatabaseError('went wrong', 0, 'error'), { code, file })
    const value = (path: string, type: SqlType): Param => ({ kind: 'value', slot: 0, type, path })
    const inRows: Param = { kind: 'rows', slot: 0, columns: [{ name: 'at', type: geo('geometry') }] }
    const one = value('$.args.where.at.$st_within', geo('geometry'))
    const error = (params: readonly Param[], code = 'XX000', file = 'lwgeom_pg.c') =>
      clientError(failed(code, file), ADMIN, { params })

    const found = error([value('$.args.where.id', int4), one])
    t.ok(found instanceof ServiceError)
    t.match(found, { status: 400, code: 'postgres-error', path: '$.args.where.at.$st_within', message: 'went wrong' })
    t.match(error([inRows]), { status: 400, path: '$.args.objects' })
    t.match(error([inRows, one]), { status: 400, path: '$.args' }, 'either of two')
    t.match(error([]), { status: 400, path: '$.args' })
    t.match(error([one], '22023', 'gserialized_typmod.c'), { status: 400, path: '$.args.where.at.$st_within' })
    t.match(error([one], '22012', 'int.c'), { status: 400, path: '$.args' }, 'another error of the same statement')
    t.match(error([one], 'XX000', 'geography_measurement.c'), { status: 400 })
    for (const file of ['relcache.c', 'geo_ops.c', 'lwlock.c', '']) {
      t.notOk(error([one], 'XX000', file) instanceof ServiceError, `${file}: a 500`)
    }
    t.notOk(error([one], 'XX001', 'lwgeom_pg.c') instanceof ServiceError)
  },
)
