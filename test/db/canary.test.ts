import type { GeneratorValue } from 'fast-check'
import t from 'tap'
import { databaseForServer } from '../kit/database.js'
import fc, { cases } from '../kit/property.js'
import { testServer } from '../kit/server.js'
import { startSqlTap } from '../kit/sql-tap.js'

const SQL = `
create table town (id serial primary key, name text, note varchar, info jsonb, tags text[], n int);
create table person (id serial primary key, name text, n int, town_id int references town);
insert into town (name, info, tags, n) select 'town ' || n, '{"a": 1}', '{a}', n from generate_series(1, 5) n;
insert into person (name, n, town_id) select 'p' || n, n, 1 + n % 5 from generate_series(1, 9) n;`

/** What goes into a request: no text of a statement may hold a secret, and a key only as a quoted name. */
class Canaries {
  readonly secrets: string[] = []
  readonly keys: string[] = []
  private readonly gen: GeneratorValue

  constructor(gen: GeneratorValue) {
    this.gen = gen
  }

  pick<T>(...of: readonly T[]): T {
    return this.gen(fc.constantFrom<T[]>, ...of)
  }
  /** A name, e.g. of a variable. */
  name(): string {
    const name = this.letters()
    this.secrets.push(name)
    return name
  }
  /** A text with signs that mean something to SQL. */
  text(): string {
    const letters = this.name()
    return this.pick(letters, `'${letters}`, `"${letters}`, `$1${letters}`, `\\${letters}'--`, `%${letters}`)
  }
  number(): number {
    const number = this.gen(fc.integer, { min: 100_000_000, max: 999_999_999 })
    this.secrets.push(String(number))
    return number
  }
  key(): string {
    const key = this.letters()
    this.keys.push(key)
    return key
  }
  private letters(): string {
    return this.gen(fc.stringMatching, /^[a-z]{14}$/)
  }
}

/** A GraphQL request of either dialect whose every value, name and alias is a canary. */
class Document {
  readonly canaries: Canaries
  readonly variables: Record<string, unknown> = {}
  private readonly declared: string[] = []
  private readonly modern: boolean
  private depth = 0

  constructor(canaries: Canaries, modern: boolean) {
    this.canaries = canaries
    this.modern = modern
  }

  request(): { query: string; operationName: string; variables: object } {
    const { pick, name } = bound(this.canaries)
    const mutates = pick(true, false)
    const roots = Array.from({ length: pick(1, 2, 3) }, () => (mutates ? this.write() : this.read()))
    const fragment = this.modern ? name() : ''
    const spread = this.modern && !mutates ? ` ${this.canaries.key()}: town(limit: 1) { ...${fragment} }` : ''
    const defined = spread === '' ? '' : ` fragment ${fragment} on town { ${this.fields('town')} }`
    const operationName = name()
    const declared = this.declared.length > 0 ? `(${this.declared.join(', ')})` : ''
    const query = `${mutates ? 'mutation' : 'query'} ${operationName}${declared} { ${roots.join(' ')}${spread} }`
    return { query: `# ${name()}\n${query}${defined}`, operationName, variables: this.variables }
  }

  private read(): string {
    const key = this.canaries.key()
    if (this.modern && this.canaries.pick(true, false, false)) {
      return `${key}: town_aggregate(${this.page('town')}) { ${this.canaries.key()}: aggregate { ${this.canaries.key()}: count ${this.canaries.key()}: max { ${this.canaries.key()}: name } } nodes { ${this.fields('town')} } }`
    }
    return `${key}: town(${this.page('town')})${this.directive()} { ${this.fields('town')} }`
  }

  private write(): string {
    const { pick, key } = bound(this.canaries)
    const way = pick('insert', 'update', 'delete', ...(this.modern ? ['many', 'one', 'key'] : []))
    if (way === 'one') {
      return `${key()}: insert_person_one(object: {name: ${this.text()}, town: {data: {name: ${this.text()}}}}) { ${this.fields('person')} }`
    }
    const returning = `{ ${key()}: affected_rows ${key()}: returning { ${this.fields('town')} } }`
    switch (way) {
      case 'insert':
        return `${key()}: insert_town(objects: [{name: ${this.text()}, info: ${this.json()}, n: ${this.number()}}, {note: ${this.text()}}]) ${returning}`
      case 'update':
        return `${key()}: update_town(where: ${this.where('town')}, _set: {name: ${this.text()}, n: ${this.number()}, tags: ${this.tags()}}) ${returning}`
      case 'many':
        return `${key()}: update_town_many(updates: [{where: ${this.where('town')}, _append: {info: ${this.json()}}}]) ${returning}`
      case 'key':
        return `${key()}: update_town(where: ${this.where('town')}, _delete_key: {info: ${this.text()}}) ${returning}`
      default:
        return `${key()}: delete_town(where: {name: {_eq: ${this.text()}}, _and: [${this.where('town')}]}) ${returning}`
    }
  }

  private page(table: string): string {
    const order = this.modern ? '[{name: desc_nulls_last}]' : '["-name", "+id"]'
    return `where: ${this.where(table)}, order_by: ${order}, limit: ${this.number('Int')}, offset: ${this.number('Int')}`
  }

  private fields(table: string): string {
    const { pick, key } = bound(this.canaries)
    const own = `${key()}: name ${key()}: id${this.directive()} ${key()}: __typename`
    if (this.depth++ > 2) return own
    if (pick(true, false)) return own
    const related = table === 'town' ? `${key()}: persons(${this.page('person')})` : `${key()}: town`
    return `${own} ${related} { ${this.fields(table === 'town' ? 'person' : 'town')} }`
  }

  private directive(): string {
    if (this.canaries.pick(true, false)) return ''
    const variable = this.declare('Boolean!', this.canaries.pick(true, false))
    return ` @${this.canaries.pick('include', 'skip')}(if: ${variable})`
  }

  private where(table: string): string {
    const { pick } = bound(this.canaries)
    if (this.depth++ > 6) return `{name: {_eq: ${this.text()}}}`
    switch (pick('text', 'list', 'number', 'json', 'tags', 'or', 'not', 'related', 'whole')) {
      case 'text':
        return `{name: {${pick('_eq', '_neq', '_gt', '_like', '_nilike', '_similar')}: ${this.text()}}}`
      case 'list':
        return `{name: {${pick('_in', '_nin')}: [${this.text()}, ${this.text()}]}}`
      case 'number':
        return `{n: {_gt: ${this.number()}}, _not: {n: {_in: [${this.number()}]}}}`
      case 'json':
        return table === 'town' ? `{info: {_contains: ${this.json()}}}` : '{}'
      case 'tags':
        return table === 'town' ? `{tags: {_eq: ${this.tags()}}}` : '{}'
      case 'or':
        return `{_or: [${this.where(table)}, ${this.where(table)}]}`
      case 'not':
        return `{_not: ${this.where(table)}}`
      case 'related':
        return table === 'town' ? `{persons: ${this.where('person')}}` : `{town: ${this.where('town')}}`
      case 'whole':
        return this.declare(`${table}_bool_exp!`, {
          _or: [{ name: { _eq: this.canaries.text() } }, { n: { _in: [this.canaries.number()] } }],
        })
    }
  }

  private text(): string {
    const text = this.canaries.text()
    return this.canaries.pick(true, false) ? JSON.stringify(text) : this.declare('String!', text)
  }
  private number(type = 'Int'): string {
    const number = this.canaries.number()
    return this.canaries.pick(true, false) ? String(number) : this.declare(`${type}!`, number)
  }
  private tags(): string {
    const tags = [this.canaries.text(), this.canaries.text()]
    return this.canaries.pick(true, false) ? JSON.stringify(tags) : this.declare('[String]!', tags)
  }
  private json(): string {
    return this.declare('jsonb!', { [this.canaries.name()]: [this.canaries.text(), this.canaries.number()] })
  }
  private declare(type: string, value: unknown): string {
    const name = this.canaries.name()
    this.declared.push(`$${name}: ${type}`)
    this.variables[name] = value
    return `$${name}`
  }
}

const bound = (canaries: Canaries) => ({
  pick: canaries.pick.bind(canaries) as Canaries['pick'],
  name: () => canaries.name(),
  key: () => canaries.key(),
})

t.test('what a request says never stands in the text of a statement', async (t) => {
  const database = await databaseForServer()
  t.teardown(() => database.drop())
  const tap = await startSqlTap(t, database.url)
  const server = await testServer(t, {
    databaseUrl: tap.url,
    config: {
      limits: { newQueries: { perSecond: 0 }, price: 0, patterns: { operators: 0, characters: 0 } },
    },
  })
  await server.must('run_sql', { sql: SQL })
  const permit = (type: string, permission: object) => ({
    type: `create_${type}_permission`,
    args: { table: 'town', role: 'user', permission },
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'town' },
    { type: 'track_table', args: 'person' },
    {
      type: 'create_object_relationship',
      args: { table: 'person', name: 'town', using: { foreign_key_constraint_on: 'town_id' } },
    },
    {
      type: 'create_array_relationship',
      args: {
        table: 'town',
        name: 'persons',
        using: { foreign_key_constraint_on: { table: 'person', column: 'town_id' } },
      },
    },
    {
      type: 'create_select_permission',
      args: {
        table: 'person',
        role: 'user',
        permission: { columns: '*', filter: { name: { $ne: 'canaryofperson' } } },
      },
    },
    permit('select', {
      columns: '*',
      filter: { name: { $ne: 'canaryofselect' }, note: { $ne: 'X-Service-Note' } },
      allow_aggregations: true,
    }),
    permit('insert', { check: { name: { $ne: 'canaryofinsert' } }, set: { note: 'canaryofpreset' } }),
    permit('update', {
      columns: ['name', 'n', 'tags', 'info'],
      filter: { name: { $ne: 'canaryofupdate' } },
      check: { name: { $ne: 'canaryofcheck' } },
    }),
    permit('delete', { filter: { name: { $ne: 'canaryofdelete' } } }),
  ])
  const NOTE = 'canaryofvariable'
  const user = { role: 'user', variables: { 'x-service-note': NOTE } }
  const before = tap.texts.size
  let seen = before
  const count = { answered: 0, refused: 0 }

  /** Looks at the texts that are new. */
  function check({ secrets, keys }: Canaries): void {
    if (tap.texts.size === seen) return
    for (const text of [...tap.texts].slice(seen)) {
      const unquoted = text.replaceAll(/"(?:[^"]|"")*"/g, '""')
      const found = secrets.find((each) => text.includes(each)) ?? keys.find((each) => unquoted.includes(each))
      if (found !== undefined || /canaryof/.test(text)) throw new Error(`${found ?? 'of a permission'} is in: ${text}`)
    }
    seen = tap.texts.size
  }
  async function send(path: string, body: unknown, asUser: boolean, canaries: Canaries): Promise<void> {
    const answer = await server.fetch(path, { method: 'POST', body: JSON.stringify(body) }, asUser ? user : {})
    const fine = answer.status === 200 && answer.body?.errors === undefined
    count[fine ? 'answered' : 'refused']++
    if (answer.status >= 500) throw new Error(answer.text)
    check(canaries)
  }

  for (const dialect of ['modern', 'alpha'] as const) {
    await t.test(`a document of the ${dialect} dialect`, async (t) => {
      count.answered = count.refused = 0
      const path = dialect === 'modern' ? '/v1/graphql' : '/v1alpha1/graphql'
      await fc.assert(
        fc.asyncProperty(fc.gen(), fc.boolean(), async (gen, asUser) => {
          const canaries = new Canaries(gen)
          const document = new Document(canaries, dialect === 'modern')
          await send(path, document.request(), asUser, canaries)
        }),
        { numRuns: cases(100) },
      )
      t.comment(JSON.stringify(count))
      t.ok(count.answered > 0.8 * cases(100), 'most of them are answered')
    })
  }

  await t.test('a query, and a template of it with parameters', async (t) => {
    count.answered = count.refused = 0
    let made = 0
    await fc.assert(
      fc.asyncProperty(fc.gen(), fc.boolean(), async (gen, asUser) => {
        const canaries = new Canaries(gen)
        const args: Record<string, unknown> = {}
        const value = (give: () => unknown, asParam: boolean): unknown => {
          if (!asParam) return give()
          const param = canaries.name()
          if (canaries.pick(true, false)) return { param, default: give() }
          args[param] = give()
          return { param }
        }
        const query = (asParam: boolean) => {
          const text = () => value(() => canaries.text(), asParam)
          const number = () => value(() => canaries.number(), asParam)
          const alias = () => `${canaries.key()}"'`
          const where = {
            $or: [{ name: text() }, { n: { $in: [number(), number()] } }, { persons: { name: { $like: text() } } }],
          }
          return canaries.pick<object>(
            {
              type: 'select',
              args: {
                table: 'town',
                columns: [
                  'id',
                  { name: 'persons', alias: alias(), columns: ['name'], where: { name: text() }, limit: number() },
                ],
                where,
                limit: number(),
                offset: number(),
              },
            },
            {
              type: 'update',
              args: { table: 'town', where, $set: { name: text() }, $inc: { n: number() }, returning: ['id'] },
            },
            { type: 'delete', args: { table: 'town', where: { name: text(), n: number() } } },
            { type: 'count', args: { table: 'town', where } },
            {
              type: 'insert',
              args: {
                table: 'town',
                objects: value(() => [{ name: canaries.text(), info: { [canaries.name()]: 1 } }], asParam),
                returning: ['id'],
              },
            },
          )
        }
        await send('/v1/query', query(false), asUser, canaries)
        const name = `${canaries.name()}${made++}`
        await send(
          '/v1/query',
          { type: 'create_query_template', args: { name, template: query(true), comment: canaries.text() } },
          false,
          canaries,
        )
        await send('/v1/query', { type: 'execute_query_template', args: { name, args } }, asUser, canaries)
        await send(`/v1/template/${name}`, args, asUser, canaries)
        await send('/v1/query', { type: 'drop_query_template', args: { name } }, false, canaries)
      }),
      { numRuns: cases(20) },
    )
    t.comment(JSON.stringify(count))
    t.ok(count.answered > 4 * cases(20), 'most of them are answered')
  })
  t.ok(tap.texts.size > before + cases(100), `${tap.texts.size - before} texts were looked at`)
})
