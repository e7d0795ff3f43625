import t from 'tap'
import { type CatalogData, openCatalog, shareTables, type TableData } from '../../core/catalog/catalog.js'
import { decodeCatalog, encodeCatalog } from '../../core/compile/encoded.js'

t.test('what a worker reads is the snapshot', (t) => {
  const data = catalogOf([table('note'), table('größe\n"', 'other')])

  const { catalog } = decodeCatalog(encodeCatalog(data).buffer, undefined)

  t.same(catalog, openCatalog(data))
  t.end()
})

t.test('a worker keeps the tables that are the same, and no other', (t) => {
  const before = decodeCatalog(
    encodeCatalog(catalogOf([table('note'), table('gone'), table('changed')])).buffer,
    undefined,
  )
  const now = catalogOf([table('new'), { ...table('changed'), insertable: false }, table('note')])

  const after = decodeCatalog(encodeCatalog(now).buffer, before)

  t.equal(after.catalog.tables.get('public\0note'), before.catalog.tables.get('public\0note'))
  t.same(after.catalog, openCatalog(now))
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
    relationships: [],
    computedFields: [],
    permissions: [{ role: 'user', delete: { filter: 0 } }],
  }
}
