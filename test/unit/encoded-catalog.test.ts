import t from 'tap'
import { type CatalogData, openCatalog, shareTables, type TableData } from '../../core/catalog/catalog.js'
import { type Decoded, decodeCatalog, encodeCatalog } from '../../core/compile/encoded.js'
import { type BoolExp, TRUE } from '../../core/ir.js'

t.test('what a worker reads is the snapshot', (t) => {
  const data = catalogOf([table('note'), table('größe\n"', 'other')])

  t.same(decoded(data).catalog, openCatalog(data))
  t.end()
})

t.test('a worker keeps the tables that are the same, and no other', (t) => {
  const before = decoded(catalogOf([table('note'), table('gone'), table('changed')]))
  const now = catalogOf([table('new'), { ...table('changed'), insertable: false }, table('note')])

  const after = decodeCatalog(encodeCatalog(now), new Map([['one', before]]))

  t.equal(after?.catalog.tables.get('public\0note'), before.catalog.tables.get('public\0note'))
  t.same(after?.catalog, openCatalog(now))
  t.end()
})

t.test('a worker that has the snapshot before is sent what is new, and no more', (t) => {
  const tables = Array.from({ length: 100 }, (_, i) => table(`note${i}`))
  const before = { ...catalogOf(tables), filters: [exists('a'), exists('b')] }
  const now = {
    ...before,
    id: 'two',
    tables: [table('new'), ...tables.slice(1)],
    filters: [exists('c'), ...before.filters.slice(1), exists('d')],
  }

  const encoded = encodeCatalog(now, before)

  t.same(decodeCatalog(encoded, new Map([['one', decoded(before)]]))?.catalog, openCatalog(now))
  t.same(String(encoded).match(/"insertable"/g)?.length, 1, 'one table')
  t.notMatch(String(encoded), '"b"', 'no filter that is known')
  t.end()
})

t.test('a worker that has not the snapshot before says so', (t) => {
  const before = catalogOf([table('note')])
  const now = { ...before, id: 'two', tables: [...before.tables, table('new')] }

  t.equal(decodeCatalog(encodeCatalog(now, before), new Map([['three', decoded(before)]])), undefined)
  t.end()
})

t.test('a snapshot holds what the one before holds for tables that are equal, and no other', (t) => {
  const before = catalogOf([table('note'), table('changed')])
  const now = catalogOf([{ ...table('changed'), insertable: false }, table('note')])

  const shared = shareTables(now, before)

  t.same(shared, now)
  t.equal(shared.tables[1], before.tables[0])
  t.equal(openCatalog(shared).tables.get('public\0note'), openCatalog(before).tables.get('public\0note'))
  t.end()
})

function catalogOf(tables: readonly TableData[]): CatalogData {
  const none = { filters: [], templates: [], functions: [], inconsistent: [] }
  return { id: 'one', version: '1', tables, ...none }
}

function table(name: string, schema = 'public'): TableData {
  return {
    schema,
    name,
    kind: 'table',
    system: false,
    insertable: true,
    updatable: true,
    deletable: true,
    columns: [{ name: 'id', type: { schema: 'pg_catalog', name: 'int4', kind: 'int4' }, nullable: false }],
    primaryKey: ['id'],
    keys: [{ name: `${name}_pkey`, columns: ['id'] }],
    foreignKeys: [],
    rules: [],
    relationships: [],
    computedFields: [],
    permissions: [{ role: 'user', delete: { filter: 0 } }],
  }
}

function decoded(data: CatalogData): Decoded {
  return decodeCatalog(encodeCatalog(data), new Map()) as Decoded
}

function exists(name: string): BoolExp {
  return { kind: 'exists', table: { schema: 'public', name }, on: [], where: TRUE }
}
