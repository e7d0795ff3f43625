import { gunzipSync } from 'node:zlib'
import t from 'tap'
import { type Catalog, openCatalog } from '../../core/catalog/catalog.js'
import { namesFor } from '../../core/plan/names.js'
import type { Names } from '../../core/plan/index.js'
import { exposed } from '../../plugins/graphql/plan/exposed.js'
import plan, { prepare } from '../../plugins/graphql/plan/index.js'

t.test('one schema serves those who ask about one type after the other', (t) => {
  const { names, reads } = counted(snapshot())
  introspect('note', names)
  const once = reads()

  introspect('Int', names)
  introspect('String', names)
  prepare({ kind: 'schema', dialect: 'modern' }, names)

  t.equal(reads(), once)
  t.end()
})

t.test('a schema is not kept for another role, nor for another dialect', (t) => {
  const catalog = snapshot()
  introspect('note', namesFor('admin', catalog))

  const { schema } = prepare({ kind: 'schema', dialect: 'alpha' }, namesFor('admin', catalog)) as { schema: string }

  t.notMatch(schema, 'note_by_pk')
  t.equal(introspect('note', namesFor('nobody', catalog)), '{"__type":null}')
  t.end()
})

for (const task of ['prepare', 'plan'] as const) {
  t.test(`a schema that nobody asks about is given up with the next document: ${task}`, (t) => {
    const { names, reads } = counted(snapshot())
    introspect('note', names)
    const once = reads()

    aMinuteLater(() => other(task, names))
    introspect('Int', names)

    t.equal(reads(), 2 * once)
    t.end()
  })

  t.test(`a schema is given up with the next document after a change: ${task}`, (t) => {
    const { names, reads } = counted(snapshot())
    introspect('note', names)
    const once = reads()

    other(task, namesFor('nobody', snapshot()))
    introspect('Int', names)

    t.equal(reads(), 2 * once)
    t.end()
  })
}

t.test('four roles in both dialects, and no more than that', (t) => {
  const catalog = snapshot()
  const all = ['a', 'b', 'c', 'd'].map((role) => counted(catalog, role))
  const expose = () => {
    for (const { names } of all) for (const dialect of ['alpha', 'modern'] as const) exposed(names, dialect)
    return all.map(({ exposes }) => exposes())
  }
  t.same(expose(), [2, 2, 2, 2])

  t.same(expose(), [2, 2, 2, 2], 'all are kept')

  exposed(counted(catalog, 'e').names, 'modern')
  exposed((all[0] as Counted).names, 'alpha')
  t.equal((all[0] as Counted).exposes(), 3, 'the one used longest ago is not')
  t.end()
})

t.test('of an old snapshot nothing is kept', (t) => {
  const { names, exposes } = counted(snapshot())
  exposed(names, 'modern')

  exposed(namesFor('a', snapshot()), 'modern')
  exposed(names, 'modern')

  t.equal(exposes(), 2)
  t.end()
})

interface Counted {
  readonly names: Names
  /** How often the relationships of the table were asked for: by every schema that is built, equally often. */
  readonly reads: () => number
  /** How often all tables were looked at. */
  readonly exposes: () => number
}

/** What a role may use, which counts how often it is read. */
function counted(catalog: Catalog, role = 'admin'): Counted {
  const names = namesFor(role, catalog)
  let relationships = 0
  let tables = 0
  return {
    names: {
      ...names,
      relationships: (table) => (relationships++, names.relationships(table)),
      tables: () => (tables++, names.tables()),
    },
    reads: () => relationships,
    exposes: () => tables,
  }
}

function introspect(type: string, names: Names): string {
  const text = `{ __type(name: "${type}") { name } }`
  const { compressed } = prepare({ kind: 'introspection', dialect: 'modern', text, variables: {} }, names) as {
    compressed: string[]
  }
  return compressed.map((piece) => gunzipSync(Buffer.from(piece, 'base64')).toString()).join('')
}

/** Another document. */
function other(task: 'prepare' | 'plan', names: Names): void {
  const text = '{ __typename }'
  const limits = { maxTokens: 100, maxDepth: 10, maxRootFields: 10, maxAliases: 10 }
  if (task === 'prepare') prepare({ kind: 'document', dialect: 'modern', text, keys: [], limits }, names)
  else plan({ dialect: 'modern', text, variables: {} }, names)
}

function aMinuteLater(run: () => void): void {
  const now = performance.now()
  performance.now = () => now + 60_000
  try {
    run()
  } finally {
    Reflect.deleteProperty(performance, 'now')
  }
}

/** One table, which admin sees. */
function snapshot(): Catalog {
  const column = { name: 'id', type: { schema: 'pg_catalog', name: 'int4', kind: 'int4' }, nullable: false } as const
  const note = {
    schema: 'public',
    name: 'note',
    kind: 'table',
    system: false,
    insertable: true,
    updatable: true,
    deletable: true,
    columns: [column],
    primaryKey: ['id'],
    keys: [{ name: 'note_pkey', columns: ['id'] }],
    foreignKeys: [],
    rules: [],
    relationships: [],
    computedFields: [],
    permissions: [],
  } as const
  const none = { filters: [], templates: [], functions: [], inconsistent: [] }
  return openCatalog({ id: 'one', version: '1', tables: [note], ...none })
}
