import type { TypeKind } from '../../../core/ir.js'
import { fingerprint } from '../../../plugins/graphql/plan/opaque.js'
import { anyId, type Asker, generateCondition, mayAggregate, pickColumn, relationOf, rightSide } from './conditions.js'
import { grantsOf } from './permissions.js'
import { COMPUTED_ROWS, FUNCTIONS, type Json, mayCall, PLAIN_FUNCTIONS, type Table, tableOf } from './schema.js'
import { NAMES } from './worlds.js'
import { generateIncrement, generateRows, generateSet, type Generator, mayCount, pickTable } from './writes.js'

/** A GraphQL document for a role, to be sent with many variables. */
export interface Document {
  readonly asker: Asker
  readonly query: string
  readonly variables: readonly Variable[]
  readonly writes: boolean
  readonly relay: boolean
}
interface Variable {
  readonly name: string
  make(): Json
}

/** @param relay whether it is for the schema of Relay */
export function generateDocument(generator: Generator, asker: Asker, relay = false): Document {
  const writer = new Writer(generator, asker, relay)
  const { random } = generator
  const count = random.chance(85) ? 1 : 2
  const writes = random.chance(30)
  const roots = Array.from({ length: count }, (_, i) => `f${i}: ${writes ? writer.mutation() : writer.root()}`)
  return writer.document(writes ? 'mutation' : 'query', roots)
}

class Writer {
  private readonly variables: Variable[] = []
  private readonly declared: string[] = []
  private readonly generator: Generator
  private readonly asker: Asker
  private readonly relay: boolean

  constructor(generator: Generator, asker: Asker, relay: boolean) {
    this.generator = generator
    this.asker = asker
    this.relay = relay
  }

  document(kind: 'query' | 'mutation', roots: readonly string[]): Document {
    const declared = this.declared.length > 0 ? `(${this.declared.join(', ')})` : ''
    const query = `${kind} q${declared} { ${roots.join(' ')} }`
    return { asker: this.asker, query, variables: this.variables, writes: kind === 'mutation', relay: this.relay }
  }

  root(): string {
    const { random } = this.generator
    const table = pickTable(this.generator, this.asker.role, 'select')
    if (this.relay) return random.chance(15) ? this.node(table) : this.connection(table, table.name, 2)
    if (this.asker.dialect === 'alpha') return `${table.name}${this.rows(table)} { ${this.fields(table, 2)} }`
    switch (random.below(10)) {
      case 0:
        return `${table.name}_by_pk(id: ${anyId(random)}) { ${this.fields(table, 2)} }`
      case 1:
      case 2:
        if (!mayAggregate(random, this.asker, table.name)) return this.root()
        return `${table.name}_aggregate${this.rows(table)} ${this.aggregate(table)}`
      case 3:
        return this.call(false)
      default:
        return `${table.name}${this.rows(table)} { ${this.fields(table, 2)} }`
    }
  }

  /** A row of any table, which may be hidden or missing. */
  private node(table: Table): string {
    const { random } = this.generator
    const id = () => {
      const name = random.chance(15) ? random.pick([NAMES[0].shadow, NAMES[1].shadow, 'thing', 'nothing']) : table.name
      return base64([1, 'public', name, anyId(random)])
    }
    return `node(id: ${this.declare(id, 'ID!')}) { id __typename ... on ${table.name} { ${this.fields(table, 1)} } }`
  }

  /** A page of rows, mostly from a row that may be hidden or missing. */
  private connection(table: Table, name: string, depth: number): string {
    const { random } = this.generator
    const column = random.chance(50) ? pickColumn(random, this.asker, table) : undefined
    const way = random.pick(['asc', 'desc', 'asc_nulls_first', 'desc_nulls_last'])
    const own = column ? `[{${column.name}: ${way}}, {id: asc}]` : `{id: ${way}}`
    const [distinct, other] = random.chance(25) ? this.order(table) : ['', undefined]
    const cursor = () => {
      const sorted = column && column.name !== 'id' ? [column.name, 'id'] : ['id']
      const by = sorted.map((each) => ({ by: { kind: 'column', column: each } }) as const)
      const value = column ? (random.chance(15) ? null : rightSide(random, 'eq', column)) : undefined
      const values = sorted.length > 1 ? [value as Json, anyId(random)] : [anyId(random)]
      return base64([fingerprint({ schema: 'public', name: table.name }, by), ...values])
    }
    const [count, side] = random.pick([
      ['first', 'after'],
      ['first', 'before'],
      ['last', 'after'],
      ['last', 'before'],
    ] as const)
    const parts = [
      `order_by: ${other ?? own}`,
      ...(distinct === '' ? [] : [distinct]),
      ...(random.chance(80) ? [`where: ${this.where(table)}`] : []),
      ...(random.chance(80) ? [`${count}: ${random.below(6)}`] : []),
      ...(other === undefined && random.chance(70) ? [`${side}: ${this.declare(cursor, 'String')}`] : []),
    ]
    const info = 'pageInfo { startCursor endCursor hasNextPage hasPreviousPage }'
    return `${name}_connection(${parts.join(', ')}) { ${info} edges { cursor node { ${this.fields(table, depth)} } } }`
  }

  mutation(): string {
    const { random } = this.generator
    const { role, dialect } = this.asker
    const modern = dialect === 'modern'
    const kind = random.below(modern ? 9 : 5)
    const action = ([0, 1, 7] as readonly number[]).includes(kind)
      ? 'insert'
      : kind === 4 || kind === 6
        ? 'delete'
        : 'update'
    const table = pickTable(this.generator, role, action)
    const { name } = table
    switch (kind) {
      case 0:
      case 1: {
        const conflict = modern && random.chance(30) && this.mayUpsert(table)
        const rows = () =>
          generateRows(this.generator, role, table, conflict).map((row) => this.withRelated(row, table)) as Json
        const type = modern ? `[${name}_insert_input!]!` : `[${name}_input!]!`
        return `insert_${name}(objects: ${this.declare(rows, type)}${conflict ? this.onConflict(table) : ''}) ${this.written(table)}`
      }
      case 2:
      case 3:
        return `update_${name}(where: ${this.where(table)}, ${this.change(table)}) ${this.written(table)}`
      case 4:
        return `delete_${name}(where: ${this.where(table)}) ${this.written(table)}`
      case 5:
        return `update_${name}_by_pk(pk_columns: {id: ${anyId(random)}}, ${this.change(table)}) { ${this.fields(table, 1)} }`
      case 6:
        return `delete_${name}_by_pk(id: ${anyId(random)}) { ${this.fields(table, 0)} }`
      case 7: {
        const row = () => generateRows(this.generator, role, table, false)[0] as Json
        return `insert_${name}_one(object: ${this.declare(row, `${name}_insert_input!`)}) { ${this.fields(table, 1)} }`
      }
      default:
        return this.call(true)
    }
  }

  /** A row that brings rows of another table, now and then. */
  private withRelated(row: { readonly [key: string]: Json }, table: Table): Json {
    const { random } = this.generator
    if (this.asker.dialect === 'alpha' || random.chance(85)) return row
    const [name, relation] = relationOf(random, this.asker, table)
    const rows = generateRows(this.generator, this.asker.role, tableOf(relation.table), false)
    return { ...row, [name]: { data: relation.single ? (rows[0] as Json) : (rows as Json) } }
  }

  private mayUpsert({ name }: Table): boolean {
    const { insert } = grantsOf(this.asker.era, this.asker.role, name)
    return insert !== undefined || this.generator.random.chance(5)
  }

  private onConflict(table: Table): string {
    const { random } = this.generator
    const columns = grantsOf(this.asker.era, this.asker.role, table.name).update?.columns ?? ['shared']
    const where = random.chance(50) ? `, where: ${this.where(table)}` : ''
    return `, on_conflict: {constraint: ${table.name}_pkey, update_columns: [${random.some(columns, 30).join(', ')}]${where}}`
  }

  private change(table: Table): string {
    const { random } = this.generator
    const { role, dialect } = this.asker
    if (dialect === 'modern' && random.chance(10) && this.has(table, 'data', 'update')) {
      return random.pick([
        '_append: {data: {z: 1}}',
        '_delete_key: {data: "n"}',
        '_delete_elem: {data: 0}',
        '_delete_at_path: {data: ["k", "0"]}',
      ])
    }
    const alpha = dialect === 'alpha'
    const kind = !alpha && random.chance(35) && mayCount(this.generator, role, table) ? 'inc' : 'set'
    const type = alpha ? `${table.name}_input!` : `${table.name}_${kind}_input`
    const make = kind === 'inc' ? generateIncrement : generateSet
    return `_${kind}: ${this.declare(() => make(this.generator, role, table), type)}`
  }

  private has({ name }: Table, column: string, action: 'select' | 'update'): boolean {
    return grantsOf(this.asker.era, this.asker.role, name)[action]?.columns.includes(column) ?? false
  }

  private written(table: Table): string {
    return this.generator.random.chance(30)
      ? '{ affected_rows }'
      : `{ affected_rows returning { ${this.fields(table, 1)} } }`
  }

  private call(writes: boolean): string {
    const { random } = this.generator
    if (random.chance(35)) return this.plainCall(writes)
    if (!this.has(tableOf('note'), 'id', 'select') && random.chance(95)) return writes ? this.mutation() : this.root()
    const some = Object.entries(FUNCTIONS).filter(
      ([, { reads, writes: mayWrite = false }]) =>
        mayWrite === writes &&
        (reads === undefined ||
          (this.has(tableOf('note'), reads, 'select') && !this.asker.era.hidden['note']?.includes(reads))),
    )
    const [name, { args }] = random.pick(some)
    const table = tableOf('note')
    const given =
      args === 'none'
        ? ''
        : args === 'n'
          ? `args: {n: ${anyId(random)}}`
          : `args: {word: ${JSON.stringify(random.pick(['Secret', 'a', '\\', 'Secret-1']))}}`
    if (name === 'one_note') return `${name}(${given}) { ${this.fields(table, 1)} }`
    const aggregate = random.chance(20) && !writes && mayAggregate(random, this.asker, 'note')
    const rows = this.rows(table, given)
    return `${name}${aggregate ? '_aggregate' : ''}${rows} ${aggregate ? this.aggregate(table) : `{ ${this.fields(table, 1)} }`}`
  }

  /** Calls a function that returns no rows of a table. */
  private plainCall(writes: boolean): string {
    const { random } = this.generator
    const may = mayCall(this.asker.role) || random.chance(5)
    const some = Object.entries(PLAIN_FUNCTIONS).filter(([, each]) => (each.writes ?? false) === writes)
    if (!may) return writes ? this.mutation() : this.root()
    const [name, { args, columns = [] }] = random.pick(some)
    const given = args === 'n' ? `{n: ${anyId(random)}}` : `{word: ${JSON.stringify(random.pick(['', 'a', 'ab']))}}`
    const called = `${random.chance(3) ? random.pick(['secret', 'hush']) : name}(args: ${given})`
    return columns.length > 0 ? `${called} { ${random.pick(columns)} __typename }` : called
  }

  private where(table: Table): string {
    const { random, used } = this.generator
    return this.declare(() => generateCondition(random, this.asker, table, used), `${table.name}_bool_exp!`)
  }

  /** Always in a total order, or rows would come as they lie. */
  private rows(table: Table, given = ''): string {
    const { random } = this.generator
    const { dialect } = this.asker
    const [distinct, order] = dialect === 'alpha' ? ['', this.alphaOrder(table)] : this.order(table)
    const parts = [
      ...(given === '' ? [] : [given]),
      ...(random.chance(88) ? [`where: ${this.where(table)}`] : []),
      ...(distinct === '' ? [] : [distinct]),
      `order_by: ${order}`,
      ...(random.chance(40) ? [`limit: ${random.below(9)}`] : []),
      ...(random.chance(15) ? [`offset: ${random.below(3)}`] : []),
    ]
    return `(${parts.join(', ')})`
  }

  private alphaOrder(table: Table): string {
    const { random } = this.generator
    return random.chance(50) ? '["+id"]' : `["-${pickColumn(random, this.asker, table).name}", "id"]`
  }

  private order(table: Table): readonly [distinct: string, order: string] {
    const { random } = this.generator
    const way = () => random.pick(['asc', 'desc', 'asc_nulls_first', 'desc_nulls_last'])
    if (random.chance(30)) return ['', '{id: asc}']
    if (random.chance(50)) {
      const { name } = pickColumn(random, this.asker, table)
      return [random.chance(15) ? `distinct_on: [${name}]` : '', `[{${name}: ${way()}}, {id: asc}]`]
    }
    const computed = this.computed(table)
    if (computed.length > 0 && random.chance(40)) return ['', `[{${random.pick(computed)}: ${way()}}, {id: asc}]`]
    const [name, relation] = relationOf(random, this.asker, table)
    const { name: column, type } = pickColumn(random, this.asker, tableOf(relation.table))
    const fn = random.pick(functionsOf(type.kind))
    if (!relation.single && !mayAggregate(random, this.asker, relation.table)) return ['', '{id: desc}']
    const by = relation.single
      ? `{${name}: {${column}: ${way()}}}`
      : `{${name}_aggregate: ${fn === undefined || random.chance(50) ? `{count: ${way()}}` : `{${fn}: {${column}: ${way()}}}`}}`
    return ['', `[${by}, {id: asc}]`]
  }

  private computed(table: Table): readonly string[] {
    const granted = grantsOf(this.asker.era, this.asker.role, table.name).select?.computed_fields ?? []
    return granted.filter((name) => name !== COMPUTED_ROWS)
  }

  private fields(table: Table, depth: number): string {
    const { random } = this.generator
    const modern = this.asker.dialect === 'modern'
    const columns = Array.from({ length: random.below(4) }, () => pickColumn(random, this.asker, table).name)
    const computed = modern && random.chance(25) ? random.some(this.computed(table), 40) : []
    const path = modern && random.chance(5) && this.has(table, 'data', 'select') ? ['d: data(path: "$.k[0]")'] : []
    const nested = depth > 0 && random.chance(50) ? [this.related(table, depth - 1)] : []
    return [...new Set(['id', ...columns, ...computed, ...path, ...nested])].join(' ')
  }

  private related(table: Table, depth: number): string {
    const { random } = this.generator
    const modern = this.asker.dialect === 'modern'
    if (modern && table.name === 'note' && random.chance(15) && this.has(tableOf('item'), 'id', 'select')) {
      return `${COMPUTED_ROWS}${this.rows(tableOf('item'))} { ${this.fields(tableOf('item'), 0)} }`
    }
    const [name, relation] = relationOf(random, this.asker, table)
    const remote = tableOf(relation.table)
    if (relation.single) return `${name} { ${this.fields(remote, depth)} }`
    if (this.relay && random.chance(50)) return this.connection(remote, name, depth)
    const aggregate = modern && random.chance(30) && mayAggregate(random, this.asker, relation.table)
    return `${name}${aggregate ? '_aggregate' : ''}${this.rows(remote)} ${aggregate ? this.aggregate(remote) : `{ ${this.fields(remote, depth)} }`}`
  }

  private aggregate(table: Table): string {
    const { random } = this.generator
    const { name, type } = pickColumn(random, this.asker, table)
    const fn = random.pick(functionsOf(type.kind))
    const column = fn === undefined || random.chance(40) ? '' : ` ${fn} { ${name} }`
    const count = random.chance(30) ? `count(columns: [${name}], distinct: true)` : 'count'
    return `{ aggregate { ${count}${column} } nodes { id } }`
  }

  private declare(make: () => Json, type: string): string {
    const name = `v${this.declared.length}`
    this.declared.push(`$${name}: ${type}`)
    this.variables.push({ name, make })
    return `$${name}`
  }
}

/** What can be computed of a column of many rows, by its kind. */
function functionsOf(kind: TypeKind): readonly (string | undefined)[] {
  if (['int4', 'int8', 'numeric', 'float'].includes(kind)) return ['max', 'min', 'sum', 'avg', 'stddev']
  return ['text', 'other'].includes(kind) ? ['max', 'min'] : [undefined]
}

const base64 = (value: readonly Json[]): string => Buffer.from(JSON.stringify(value)).toString('base64')
