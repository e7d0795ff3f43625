import pg from 'pg'
import t from 'tap'
import { splitArray, splitObject } from '../../core/json/split.js'
import fc, { cases } from '../kit/property.js'
import { type As, testServer } from '../kit/server.js'
import { TYPES, TYPES_SQL } from '../kit/typed-values.js'

/** A row as it was read: the JSON text of each column. */
interface Row {
  readonly id: string
  readonly cells: ReadonlyMap<string, string>
}
/** Columns to write, and how the values of a row look: as an object of JSON or of GraphQL. */
type Columns = readonly string[]

const ALL = Object.keys(TYPES)
/** The older dialect has no lists of lists. */
const OLDER = ALL.filter((name) => !TYPES[name]?.sql.includes('[][]'))
const COMPARABLE = ALL.filter((name) => !TYPES[name]?.incomparable)
const ADDING = ALL.filter((name) => TYPES[name]?.adds)
/** Lists of lists have variables for their rows only. */
const FLAT = ALL.filter((name) => !TYPES[name]?.sql.includes('[][]'))
/** Their values have no keys, which may be no names in GraphQL. */
const KEYLESS = ALL.filter((name) => !/json|hstore|trip|parcel|crate/.test(TYPES[name]?.sql as string))
/** Some types, doors with a name, and a number of values of each type: to find a fault, and for long runs. */
const ONLY = process.env['ROWHOUSE_VALUES_TYPES']?.split(',')
const DOOR = process.env['ROWHOUSE_VALUES_DOOR']
const MANY = 'ROWHOUSE_VALUES'
const USER: As = { role: 'user' }

const objectOf = (pairs: readonly (readonly [string, string])[]): string =>
  `{${pairs.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`
const jsonOf = ({ id, cells }: Row, columns: Columns, more: readonly (readonly [string, string])[] = []): string =>
  objectOf([['id', id], ...more, ...columns.map((name) => [name, cells.get(name) as string] as const)])
const valuesOf = ({ cells }: Row, columns: Columns) =>
  objectOf(columns.map((name) => [name, cells.get(name) as string] as const))

const rowsOf = (rows: readonly Row[], columns: Columns) => rows.map((row) => jsonOf(row, columns)).join()

/** A value of a GraphQL document, and the variables in it. */
interface Literal {
  readonly text: string
  readonly variables: readonly (readonly [string, string])[]
  readonly types: readonly string[]
}

/** Rows whose values are variables each: an object has at most 1,000 keys. */
const FEW = 4

/**
 * Returns JSON as a value of a GraphQL document, or undefined for an object with a key that is no name.
 * @param variable name of a variable, from which those of the parts are made: each scalar in a list or an object is one
 * @param type of the value
 */
function literalOf(json: string, variable?: string, type = 'jsonb'): Literal | undefined {
  const all = (
    parts: readonly (Literal | undefined)[],
    text: (texts: readonly string[]) => string,
  ): Literal | undefined => {
    const some = parts.filter((part) => part !== undefined)
    if (some.length < parts.length) return undefined
    return {
      text: text(some.map((part) => part.text)),
      variables: some.flatMap((part) => part.variables),
      types: some.flatMap((part) => part.types),
    }
  }
  const inner = (each: string, i: number, of: string) => {
    if (variable === undefined || /^[[{]/.test(each)) return literalOf(each, variable && `${variable}_${i}`, of)
    const name = `${variable}_${i}`
    return { text: `$${name}`, variables: [[name, each] as const], types: [`$${name}: ${of}`] }
  }
  if (json.startsWith('[')) {
    const of = /^\[(.*)\]$/.exec(type)?.[1] ?? type
    return all(
      splitArray(json).map((each, i) => inner(each, i, of)),
      (texts) => `[${texts.join(', ')}]`,
    )
  }
  if (!json.startsWith('{')) return { text: json, variables: [], types: [] }
  const entries = [...splitObject(json)]
  if (!entries.every(([key]) => /^[A-Za-z_]\w*$/.test(key))) return undefined
  return all(
    entries.map(([, each], i) => inner(each, i, 'jsonb')),
    (texts) => `{${texts.map((text, i) => `${entries[i]?.[0]}: ${text}`).join(', ')}}`,
  )
}

/** Returns JSON without white space. */
const compact = (json: string | null) =>
  json?.replaceAll(/"(?:[^"\\]|\\.)*"|\s+/g, (part) => (part.startsWith('"') ? part : ''))

/** Returns the text of a value without what a door need not keep. */
function plain(
  text: string | null,
  column: string,
  { exact, kept }: { readonly exact?: true; readonly kept?: true },
): unknown {
  if (text === null) return null
  if (column === 'j' || column === 'js')
    return exact ? text : kept ? JSON.stringify(ordered(JSON.parse(text))) : compact(text)
  return kept && TYPES[column]?.sql.startsWith('float') ? text.replaceAll(/-0(?![.\d])/g, '0') : text
}

const textOf = (cell: string) => (cell.endsWith('.js') ? `array_to_json(${cell})::text` : `${cell}::text`)

const ordered = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(ordered)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, each]) => [key, ordered(each)]),
  )
}

t.test('what is read can be written back, through whatever door', async (t) => {
  const server = await testServer(t, {
    config: {
      plugins: {
        graphql: { limits: { maxTokens: 100_000, maxBytes: 10_000_000, maxRootFields: 1000, maxAliases: 1000 } },
      },
    },
  })
  const database = new pg.Client({ connectionString: server.databaseUrl })
  await database.connect()
  t.teardown(() => database.end())
  const types = ALL.map((name) => `${name} ${TYPES[name]?.sql as string}`).join(', ')
  await database.query(`set time zone 'UTC'; set search_path = public, ext; ${TYPES_SQL}
    create table source (id int primary key, ${types});
    create table parent (id int primary key);
    create table v (id int primary key, ${types}, parent_id int references parent, keep int);
    create table holder (id int primary key, v_id int references v);
    insert into parent values (1)`)
  // A function has at most 100 arguments.
  const groups = [ALL.slice(0, 40), ALL.slice(40)]
  for (const [i, group] of groups.entries()) {
    const args = group.map((name) => `given_${name} ${TYPES[name]?.sql as string}`)
    const cells = ALL.map((name) => (group.includes(name) ? `given_${name}` : `null::${TYPES[name]?.sql as string}`))
    await database.query(
      `create function take_${i}(given_id int, ${args.join(', ')}) returns setof source language sql stable as 'select given_id, ${cells.join(', ')}'`,
    )
  }
  const columns = (ONLY ?? ALL) as Columns
  const param = (name: string) => [name, { param: name }] as const
  await server.must('bulk', [
    ...['source', 'parent', 'v', 'holder'].map((table) => ({ type: 'track_table', args: table })),
    ...['take_0', 'take_1'].map((name) => ({ type: 'track_function', args: name })),
    {
      type: 'create_array_relationship',
      args: { table: 'parent', name: 'vs', using: { foreign_key_constraint_on: { table: 'v', column: 'parent_id' } } },
    },
    {
      type: 'create_object_relationship',
      args: { table: 'holder', name: 'v', using: { foreign_key_constraint_on: 'v_id' } },
    },
    { type: 'create_select_permission', args: { table: 'v', role: 'user', permission: { columns: '*', filter: {} } } },
    ...Object.entries({
      add: { type: 'insert', args: { table: 'v', objects: { param: 'objects' } } },
      change: {
        type: 'update',
        args: { table: 'v', where: { id: { param: 'id' } }, $set: Object.fromEntries(columns.map(param)) },
      },
    }).map(([name, template]) => ({ type: 'create_query_template', args: { name, template } })),
  ])

  const post = async (path: string, body: string, as?: As): Promise<string> => {
    const answer = await server.fetch(path, { method: 'POST', body }, as)
    if (answer.status !== 200 || answer.body?.errors)
      throw new Error(`${answer.text.slice(0, 1000)} for ${path} ${body.slice(0, 3000)}`)
    return answer.text
  }
  const run = (type: string, args: string, as?: As) => post('/v1/query', `{"type":"${type}","args":${args}}`, as)
  const graphql = (document: string, variables = '{}', path = '/v1/graphql') =>
    post(path, `{"query":${JSON.stringify(document)},"variables":${variables}}`)

  const schema = JSON.parse(
    await graphql(`
      {
        __type(name: "v_insert_input") {
          inputFields {
            name
            type {
              name
              ofType {
                name
              }
            }
          }
        }
      }
    `),
  )
  const typeNames = new Map<string, string>(
    schema.data.__type.inputFields.map(
      ({ name, type }: { name: string; type: { name: string | null; ofType?: { name: string } } }) => [
        name,
        type.name ?? `[${type.ofType?.name as string}]`,
      ],
    ),
  )

  const empty = (rows: readonly Row[]) =>
    database.query(`insert into v (id) select unnest($1::int[])`, [rows.map(({ id }) => id)])
  /**
   * Returns the fields of a GraphQL object for a row, and the variables that it needs.
   * @param all whether each value is a variable; `within`: each part of a value that is a list or an object
   */
  const fields = (row: Row, columns: Columns, all: boolean | 'within', suffix = '') => {
    const variables: (readonly [string, string])[] = []
    const types: string[] = []
    const text = columns.map((name) => {
      const json = row.cells.get(name) as string
      const parts = all === 'within' ? literalOf(json, `v${row.id}_${name}`, typeNames.get(name) as string) : undefined
      if (parts && parts.variables.length > 0) {
        variables.push(...parts.variables)
        types.push(...parts.types)
        return `${name}: ${parts.text}`
      }
      const literal = all === true ? undefined : literalOf(json)?.text
      if (literal !== undefined) return `${name}: ${literal}`
      const variable = `v${row.id}_${name}`
      variables.push([variable, json])
      types.push(`$${variable}: ${typeNames.get(name) as string}${suffix}`)
      return `${name}: $${variable}`
    })
    return { text: text.join(', '), variables, types }
  }
  const withFields = (
    rows: readonly Row[],
    columns: Columns,
    all: boolean | 'within',
    write: (row: Row, text: string) => string,
    path?: string,
  ) => {
    const each = rows.map((row) => fields(row, columns, all))
    const types = each.flatMap((part) => part.types)
    const texts = each.map(({ text }, i) => write(rows[i] as Row, text))
    return {
      run: (document: (texts: readonly string[]) => string) =>
        graphql(
          `mutation${types.length > 0 ? `(${types.join(', ')})` : ''} ${document(texts)}`,
          objectOf(each.flatMap((part) => part.variables)),
          path,
        ),
    }
  }
  const insert = (rows: readonly Row[], columns: Columns, all: boolean | 'within', path?: string) =>
    withFields(rows, columns, all, ({ id }, text) => `{id: ${id}, ${text}}`, path).run(
      (texts) => `{ insert_v(objects: [${texts.join(', ')}]) { affected_rows } }`,
    )
  const inputs = (rows: readonly Row[], columns: Columns) =>
    `{"o":[${rows.map((row) => jsonOf(row, columns)).join(',')}]}`
  const expectOne = (rows: readonly Row[], answer: string, of: (body: any) => number[], columns: Columns) => {
    const wrong = of(JSON.parse(answer)).findIndex((count) => count !== 1)
    if (wrong >= 0) throw new Error(`not found: ${valuesOf(rows[wrong] as Row, columns)}`)
  }
  const copy = () => database.query(`insert into v (id, ${ALL.join(', ')}) select id, ${ALL.join(', ')} from source`)

  interface Door {
    readonly columns?: Columns
    /** Whether white space of `json` reaches the database. */
    readonly exact?: true
    /** Whether the values are kept in metadata, which is jsonb. */
    readonly kept?: true
    /** Whether it compares the values itself. */
    readonly itself?: true
    /** How many rows of a batch it takes. */
    readonly rows?: number
    readonly write: (rows: readonly Row[], columns: Columns) => Promise<unknown>
  }
  const conditions = (columns: Columns, prefix: string, value: (name: string) => string) =>
    columns.map((name) => `"${name}":{"${prefix}":${value(name)}}`).join(',')
  const DOORS: Readonly<Record<string, Door>> = {
    'JSON insert': {
      exact: true,
      write: (rows, c) => run('insert', `{"table":"v","objects":[${rowsOf(rows, c)}]}`),
    },
    'JSON insert of rows with other keys': {
      exact: true,
      write: (rows, c) => run('insert', `{"table":"v","objects":[{"id":0},${rowsOf(rows, c)}]}`),
    },
    'JSON update': {
      write: async (rows, c) => {
        await empty(rows)
        await run(
          'bulk',
          `[${rows.map((row) => `{"type":"update","args":{"table":"v","where":{"id":${row.id}},"$set":${valuesOf(row, c)}}}`).join()}]`,
        )
      },
    },
    'JSON upsert': {
      exact: true,
      write: async (rows, c) => {
        await empty(rows)
        await run(
          'insert',
          `{"table":"v","objects":[${rowsOf(rows, c)}],"on_conflict":{"action":"update","constraint":"v_pkey"}}`,
        )
      },
    },
    $inc: {
      columns: ADDING,
      write: async (rows, c) => {
        await database.query(
          `insert into v (id, ${c.join(', ')}) select unnest($1::int[]), ${c.map(() => `'-0'`).join()}`,
          [rows.map(({ id }) => id)],
        )
        await run(
          'bulk',
          `[${rows.map((row) => `{"type":"update","args":{"table":"v","where":{"id":${row.id}},"$inc":${valuesOf(row, c)}}}`).join()}]`,
        )
      },
    },
    'rows of a JSON array relationship': {
      write: (rows, c) => run('insert', `{"table":"parent","objects":[{"id":2,"vs":{"data":[${rowsOf(rows, c)}]}}]}`),
    },
    'rows of a JSON object relationship': {
      write: (rows, c) =>
        run(
          'insert',
          `{"table":"holder","objects":[${rows.map((row) => `{"id":${row.id},"v":{"data":${jsonOf(row, c)}}}`).join()}]}`,
        ),
    },
    'rows of a template': {
      exact: true,
      write: (rows, c) => post('/v1/template/add', `{"objects":[${rowsOf(rows, c)}]}`),
    },
    'values of a template': {
      write: async (rows, c) => {
        await empty(rows)
        const nulls = columns.filter((name) => !c.includes(name)).map((name) => [name, 'null'] as const)
        for (const row of rows) await post('/v1/template/change', jsonOf(row, c, nulls))
      },
    },
    'defaults of a template': {
      kept: true,
      rows: 1,
      write: async (rows, c) => {
        await empty(rows)
        for (const row of rows) {
          const set = objectOf(
            c.map((name) => [name, `{"param":"${name}","default":${row.cells.get(name) as string}}`] as const),
          )
          await run(
            'create_query_template',
            `{"name":"given","template":{"type":"update","args":{"table":"v","where":{"id":${row.id}},"$set":${set}}}}`,
          )
          try {
            await post('/v1/template/given', '{}')
          } finally {
            await server.must('drop_query_template', { name: 'given' })
          }
        }
      },
    },
    'references of steps': {
      write: async (rows, c) => {
        await empty(rows)
        const select = (row: Row) =>
          `{"type":"select","args":{"table":"source","where":{"id":${row.id}},"columns":["*"]},"as":"s${row.id}"}`
        const update = (row: Row) =>
          `{"type":"update","args":{"table":"v","where":{"id":${row.id}},"$set":${objectOf(c.map((name) => [name, `{"$ref":"s${row.id}[0].${name}"}`]))}}}`
        await run('bulk', `[${rows.flatMap((row) => [select(row), update(row)]).join()}]`)
      },
    },
    'a list of steps': {
      write: (_, c) =>
        run(
          'bulk',
          `[{"type":"select","args":{"table":"source","columns":${JSON.stringify(['id', ...c])}},"as":"all"},{"type":"insert","args":{"table":"v","objects":{"$ref":"all"}}}]`,
        ),
    },
    'JSON conditions': {
      itself: true,
      columns: COMPARABLE,
      write: async (rows, c) => {
        await copy()
        for (const [op, list] of [
          ['$eq', false],
          ['$in', true],
        ] as const) {
          const value = (row: Row) => (name: string) =>
            list ? `[${row.cells.get(name)}]` : (row.cells.get(name) as string)
          const all = rows.map(
            (row) => `{"type":"count","args":{"table":"v","where":{"id":${row.id},${conditions(c, op, value(row))}}}}`,
          )
          const answer = await run('bulk', `[${all.join()}]`)
          expectOne(rows, answer, (body) => body.map(({ count }: { count: number }) => count), c)
        }
      },
    },
    // PostgreSQL keeps no dimensions of arguments: in GraphQL these are lists.
    'arguments of functions': {
      itself: true,
      columns: OLDER,
      write: async (rows, c) => {
        for (const [i, group] of groups.entries()) {
          const used = group.filter((name) => c.includes(name))
          const args = (row: Row) =>
            objectOf([
              ['given_id', row.id],
              ...group.map(
                (name) => [`given_${name}`, used.includes(name) ? (row.cells.get(name) as string) : 'null'] as const,
              ),
            ])
          const calls = rows.map(
            (row) =>
              `{"type":"call","args":{"function":"take_${i}","arguments":${args(row)},"columns":${JSON.stringify(['id', ...used])}}}`,
          )
          const answers =
            used.length === 0
              ? []
              : splitArray(await run('bulk', `[${calls.join()}]`)).map((answer) =>
                  splitObject(splitArray(answer)[0] as string),
                )
          const others = rows.map(async (row) =>
            splitObject(
              splitArray(
                splitObject(
                  splitObject(
                    await graphql(
                      `query($a: take_${i}_args!) { take_${i}(args: $a) { id ${used.join(' ')} } }`,
                      `{"a":${args(row)}}`,
                    ),
                  ).get('data') as string,
                ).get(`take_${i}`) as string,
              )[0] as string,
            ),
          )
          for (const all of [answers, used.length === 0 ? [] : await Promise.all(others)]) {
            for (const [n, row] of all.entries())
              for (const name of used)
                if (compact(row.get(name) as string) !== compact(rows[n]?.cells.get(name) as string))
                  throw new Error(`${name} ${rows[n]?.cells.get(name) as string} became ${row.get(name) as string}`)
          }
        }
      },
    },
    'GraphQL literals': { write: (rows, c) => insert(rows, c, false) },
    'GraphQL literals of variables': { columns: FLAT, rows: FEW, write: (rows, c) => insert(rows, c, 'within') },
    'GraphQL literals, older dialect': {
      columns: OLDER,
      write: (rows, c) => insert(rows, c, false, '/v1alpha1/graphql'),
    },
    'GraphQL variables': { write: (rows, c) => insert(rows, c, true) },
    'GraphQL variables, older dialect': {
      columns: OLDER,
      write: (rows, c) => insert(rows, c, true, '/v1alpha1/graphql'),
    },
    'GraphQL rows': {
      write: (rows, c) =>
        graphql('mutation($o: [v_insert_input!]!) { insert_v(objects: $o) { affected_rows } }', inputs(rows, c)),
    },
    'GraphQL rows, older dialect': {
      columns: OLDER,
      write: (rows, c) =>
        graphql(
          'mutation($o: [v_input!]!) { insert_v(objects: $o) { affected_rows } }',
          inputs(rows, c),
          '/v1alpha1/graphql',
        ),
    },
    'GraphQL defaults': {
      write: async (rows, c) => {
        for (const row of rows) {
          const usable = c.filter((name) => literalOf(row.cells.get(name) as string) !== undefined)
          const types = usable.map(
            (name) =>
              `$${name}: ${typeNames.get(name) as string} = ${literalOf(row.cells.get(name) as string)?.text as string}`,
          )
          const rest = c.filter((name) => !usable.includes(name))
          const more = rest.map((name) => `$${name}: ${typeNames.get(name) as string}`)
          await graphql(
            `mutation(${[...types, ...more].join()}) { insert_v_one(object: {id: ${row.id}, ${c.map((name) => `${name}: $${name}`).join()}}) { id } }`,
            valuesOf(row, rest),
          )
        }
      },
    },
    'GraphQL default row': {
      columns: KEYLESS,
      write: async (rows, c) => {
        for (const row of rows) {
          const cells = c.map((name) => `${name}: ${literalOf(row.cells.get(name) as string)?.text as string}`)
          await graphql(
            `mutation($o: v_insert_input! = {id: ${row.id}, ${cells.join(', ')}}) { insert_v_one(object: $o) { id } }`,
          )
        }
      },
    },
    'GraphQL upsert': {
      write: async (rows, c) => {
        await empty(rows)
        await withFields(rows, c, false, ({ id }, text) => `{id: ${id}, ${text}}`).run(
          (texts) =>
            `{ insert_v(objects: [${texts.join(', ')}], on_conflict: {constraint: v_pkey, update_columns: [${c.join()}]}) { affected_rows } }`,
        )
      },
    },
    'GraphQL related literals': {
      write: (rows, c) =>
        withFields(rows, c, false, ({ id }, text) => `{id: ${id}, ${text}}`).run(
          (texts) => `{ insert_parent_one(object: {id: 2, vs: {data: [${texts.join(', ')}]}}) { id } }`,
        ),
    },
    'GraphQL related rows': {
      write: (rows, c) =>
        graphql(
          'mutation($o: [v_insert_input!]!) { insert_parent_one(object: {id: 2, vs: {data: $o}}) { id } }',
          inputs(rows, c),
        ),
    },
    'GraphQL _set of literals': {
      write: async (rows, c) => {
        await empty(rows)
        await withFields(rows, c, false, ({ id }, text) => `{where: {id: {_eq: ${id}}}, _set: {${text}}}`).run(
          (texts) => `{ update_v_many(updates: [${texts.join(', ')}]) { affected_rows } }`,
        )
      },
    },
    'GraphQL _set of literals of variables': {
      columns: FLAT,
      rows: FEW,
      write: async (rows, c) => {
        await empty(rows)
        await withFields(rows, c, 'within', ({ id }, text) => `{where: {id: {_eq: ${id}}}, _set: {${text}}}`).run(
          (texts) => `{ update_v_many(updates: [${texts.join(', ')}]) { affected_rows } }`,
        )
      },
    },
    'GraphQL _set of variables': {
      write: async (rows, c) => {
        await empty(rows)
        await withFields(
          rows,
          c,
          true,
          ({ id }, text) => `u${id}: update_v(where: {id: {_eq: ${id}}}, _set: {${text}}) { affected_rows }`,
        ).run((texts) => `{ ${texts.join(' ')} }`)
      },
    },
    'GraphQL _set of one variable': {
      write: async (rows, c) => {
        await empty(rows)
        for (const row of rows)
          await graphql(
            'mutation($id: Int!, $set: v_set_input!) { update_v_by_pk(pk_columns: {id: $id}, _set: $set) { id } }',
            `{"id":${row.id},"set":${valuesOf(row, c)}}`,
          )
      },
    },
    'GraphQL _set, older dialect': {
      columns: OLDER,
      write: async (rows, c) => {
        await empty(rows)
        for (const row of rows)
          await withFields(
            [row],
            c,
            false,
            ({ id }, text) => `update_v(where: {id: {_eq: ${id}}}, _set: {${text}}) { affected_rows }`,
            '/v1alpha1/graphql',
          ).run((texts) => `{ ${texts.join(' ')} }`)
      },
    },
    'GraphQL _inc': {
      columns: ADDING,
      write: async (rows, c) => {
        await database.query(
          `insert into v (id, ${c.join(', ')}) select unnest($1::int[]), ${c.map(() => `'-0'`).join()}`,
          [rows.map(({ id }) => id)],
        )
        await withFields(rows, c, false, ({ id }, text) => `{where: {id: {_eq: ${id}}}, _inc: {${text}}}`).run(
          (texts) => `{ update_v_many(updates: [${texts.join(', ')}]) { affected_rows } }`,
        )
      },
    },
    'GraphQL conditions of literals': {
      itself: true,
      rows: FEW,
      columns: COMPARABLE,
      write: async (rows, c) => {
        await copy()
        for (const all of [false, true, 'within'] as const) {
          for (const op of ['_eq', '_in']) {
            const used = c.filter((name) => all !== 'within' || FLAT.includes(name))
            const each = rows.map((row) => {
              const parts = used.map((name) => fields(row, [name], all, op === '_in' ? '!' : ''))
              const is = parts.map(({ text }, i) => {
                const value = text.slice((used[i] as string).length + 2)
                return `${used[i] as string}: {${op}: ${op === '_in' ? `[${value}]` : value}}`
              })
              return { row, is: is.join(', '), parts }
            })
            const texts = each.map(
              ({ row, is }) => `a${row.id}: v_aggregate(where: {id: {_eq: ${row.id}}, ${is}}) { aggregate { count } }`,
            )
            const types = each.flatMap(({ parts }) => parts.flatMap((part) => part.types))
            const answer = await graphql(
              `query${types.length > 0 ? `(${types.join(', ')})` : ''} { ${texts.join(' ')} }`,
              objectOf(each.flatMap(({ parts }) => parts.flatMap((part) => part.variables))),
            )
            expectOne(rows, answer, (body) => Object.values(body.data).map((found: any) => found.aggregate.count), used)
          }
        }
      },
    },
    'presets of a permission': {
      kept: true,
      rows: 1,
      write: async (rows, c) => {
        for (const row of rows) {
          await run(
            'create_insert_permission',
            `{"table":"v","role":"user","permission":{"check":{},"columns":["id"],"set":${valuesOf(row, c)}}}`,
          )
          try {
            await run('insert', `{"table":"v","objects":[{"id":${row.id}}]}`, USER)
          } finally {
            await server.must('drop_insert_permission', { table: 'v', role: 'user' })
          }
        }
      },
    },
    'constants of a permission': {
      itself: true,
      kept: true,
      rows: 1,
      columns: COMPARABLE,
      write: async (rows, c) => {
        await copy()
        for (const row of rows) {
          const filter = `{"id":${row.id},${conditions(c, '$eq', (name) => row.cells.get(name) as string)}}`
          await run(
            'create_update_permission',
            `{"table":"v","role":"user","permission":{"columns":["keep"],"filter":${filter},"check":${filter}}}`,
          )
          try {
            const answer = await run('update', `{"table":"v","where":{},"$set":{"keep":1}}`, USER)
            expectOne([row], answer, (body) => [body.affected_rows], c)
          } finally {
            await server.must('drop_update_permission', { table: 'v', role: 'user' })
          }
        }
      },
    },
  }

  /** Stores values, and returns their rows as the JSON API reads them. */
  const stored = async (samples: readonly (readonly string[])[]): Promise<readonly Row[]> => {
    await database.query('truncate source')
    for (const [i, values] of samples.entries()) {
      const into = columns.map((name, n) =>
        (TYPES[name]?.from ?? `$1::text::${TYPES[name]?.sql as string}`).replaceAll('$1', `$${n + 1}::text`),
      )
      await database.query(`insert into source (id, ${columns.join()}) select ${i + 1}, ${into.join()}`, [...values])
    }
    const rows = splitArray(await run('select', `{"table":"source","columns":["*"],"order_by":"id"}`)).map(splitObject)
    const read = splitArray(
      splitObject(
        splitObject(await graphql(`{ source(order_by: {id: asc}) { id ${columns.join(' ')} } }`)).get('data') as string,
      ).get('source') as string,
    ).map(splitObject)
    for (const [i, row] of rows.entries())
      for (const name of columns)
        if (row.get(name) !== read[i]?.get(name))
          throw new Error(`GraphQL reads ${name} as ${read[i]?.get(name)}, not as ${row.get(name)}`)
    return rows.map((cells) => ({ id: cells.get('id') as string, cells }))
  }

  const BATCH = 20
  const count = cases(25, MANY)
  const samples = columns.map((name) =>
    fc.sample((TYPES[name] as (typeof TYPES)[string]).of, {
      numRuns: count,
      seed: Number(process.env['ROWHOUSE_PROPERTY_SEED'] ?? 1),
    }),
  )
  for (let start = 0; start < count; start += BATCH) {
    const part = Array.from({ length: Math.min(BATCH, count - start) }, (_, i) =>
      samples.map((all) => all[start + i] as string),
    )
    const rows = await stored(part)
    for (const [name, door] of Object.entries(DOORS)) {
      if (DOOR !== undefined && !name.includes(DOOR)) continue
      const some = rows.slice(0, door.rows)
      // What a permission keeps may name a session variable, which stands for another value.
      const isName = (column: string) => some.some(({ cells }) => /x-(service|hasura)-/i.test(cells.get(column) ?? ''))
      const used = columns.filter(
        (column) => (door.columns ?? ALL).includes(column) && !(door.kept === true && isName(column)),
      )
      if (used.length === 0) continue
      const attempt = async (c: Columns): Promise<string[]> => {
        await database.query('truncate v, holder; delete from parent where id > 1')
        try {
          await door.write(some, c)
        } catch (error) {
          return [(error as Error).message]
        }
        if (door.itself) return []
        const written = await database.query(
          `select s.id, ${c.map((column) => `array[${textOf(`s.${column}`)}, ${textOf(`v.${column}`)}] as ${column}`).join()} from source s left join v using (id) where s.id = any($1) order by id`,
          [some.map(({ id }) => id)],
        )
        return written.rows.flatMap((row) =>
          c.flatMap((column) => {
            const [from, to] = row[column] as [string, string]
            return plain(from, column, door) === plain(to, column, door)
              ? []
              : [
                  `${column} ${JSON.stringify(from)} became ${JSON.stringify(to)} (read as ${some.find(({ id }) => id === String(row.id))?.cells.get(column) as string})`,
                ]
          }),
        )
      }
      await t.test(`${name}, from ${start}`, async (t) => {
        let wrong = await attempt(used)
        if (wrong.length > 0) {
          wrong = []
          for (const column of used)
            wrong.push(...(await attempt([column])).slice(0, 2).map((each) => `${column}: ${each.slice(0, 400)}`))
        }
        t.strictSame(wrong, [])
      })
    }
  }
})
