import { operatorsOn, TEXT } from '../../../core/plan/operators.js'
import type { Random } from '../oracle/generate.js'
import {
  anyId,
  type Asker,
  type Condition,
  conditionOn,
  generateCondition,
  pickColumn,
  relationOf,
  rightSide,
} from './conditions.js'
import { type Document, generateDocument } from './documents.js'
import { type Era, grantsOf } from './permissions.js'
import { FUNCTIONS, GATE, type Json, PLAIN_FUNCTIONS, type Table, tableOf } from './schema.js'
import { NAMES } from './worlds.js'
import {
  generateIncrement,
  generateRows,
  generateSet,
  type Generator,
  mayCount,
  pickTable,
  type Template,
} from './writes.js'

/** A request as it is sent to both worlds. */
export interface Case {
  readonly door: string
  readonly role: string
  readonly user: number
  readonly org: number
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Json
  /** It may change rows. */
  readonly writes: boolean
  /** What it was made of. */
  readonly document?: Document
  /** What is answered lists names, in any order. */
  readonly listed?: true
}

export function generateCase(generator: Generator): Case {
  const { random, reads } = generator
  const caller = { user: 1 + random.below(3), org: 1 + random.below(3) }
  // Another caller of the role, whose rows are others: the server has planned the request already.
  if (reads.length > 0 && random.chance(50)) return { ...random.pick(reads), ...caller }
  const role = random.pick(Object.keys(generator.era.roles))
  const test = { role, headers: {}, ...caller, ...made(generator, role) }
  if (!test.writes) reads.push(test)
  return test
}

function made(generator: Generator, role: string): Made & Partial<Pick<Case, 'role' | 'document'>> {
  const kind = generator.random.below(100)
  if (kind < 40) return queryCase(generator, role)
  if (kind < 44) return bulkCase(generator, role)
  if (kind < 52) return templateCase(generator)
  if (kind < 60) return documentCase(generator, role, 'alpha')
  if (kind < 88) return documentCase(generator, role, 'modern')
  if (kind < 94) return documentCase(generator, role, 'modern', true)
  return kind < 98 ? fileCase(generator) : otherCase(generator, role)
}
type Made = Pick<Case, 'door' | 'method' | 'path' | 'writes'> & Partial<Pick<Case, 'body' | 'headers' | 'listed'>>

const post = (door: string, path: string, body: Json, writes: boolean): Made => ({
  door,
  method: 'POST',
  path,
  body,
  writes,
})

function queryCase(generator: Generator, role: string): Made {
  const { random } = generator
  const { writes, ...body } = generateQuery(generator, role)
  const accept =
    (body.type === 'select' || body.type === 'call') && random.chance(10)
      ? random.pick(['application/x-ndjson', 'text/csv'])
      : undefined
  const made = post(body.type, '/v1/query', body as unknown as Json, writes)
  if (body.type === 'update' || body.type === 'delete') {
    return random.chance(15) ? { ...made, headers: { 'if-match': random.pick(['*', '"1"', '"2"', '"cup"']) } } : made
  }
  return accept ? { ...made, headers: { accept } } : made
}

function bulkCase(generator: Generator, role: string): Made {
  const all = Array.from({ length: 1 + generator.random.below(3) }, () => generateQuery(generator, role))
  const body = all.map(({ type, args }) => ({ type, args }))
  return post(
    'bulk',
    '/v1/query',
    { type: 'bulk', args: body as unknown as Json },
    all.some(({ writes }) => writes),
  )
}

interface Query {
  readonly type: string
  readonly args: Json
  readonly writes: boolean
}
const PICKED: readonly ('select' | 'call' | 'count' | 'update' | 'delete' | 'insert')[] = [
  'select',
  'select',
  'select',
  'select',
  'select',
  'call',
  'count',
  'update',
  'update',
  'delete',
  'insert',
  'insert',
]
export function generateQuery(generator: Generator, role: string): Query {
  const { random, era, used } = generator
  const asker: Asker = { era, role, dialect: 'query' }
  const type = random.pick(PICKED)
  const table = pickTable(generator, role, type === 'count' || type === 'call' ? 'select' : type)
  const where = (): Condition => generateCondition(random, asker, table, used)
  const whereOfWrite = (): { readonly [key: string]: Json } =>
    random.chance(30)
      ? { where: { id: anyId(random) }, ...(random.chance(75) ? { expect: generateVersion(random) } : {}) }
      : { where: where() }
  const name: Json = random.chance(1) ? random.pick([NAMES[0].shadow, NAMES[1].shadow, 'share', 'nothing']) : table.name
  switch (type) {
    case 'select': {
      if (random.chance(15))
        return { type, args: { table: name, ...generateGroups(generator, asker, table) }, writes: false }
      if (random.chance(15)) {
        const columns = generateFields(generator, asker, table, 1)
        return { type, args: { table: name, columns, where: { id: anyId(random) } }, writes: false }
      }
      const args = generateSelect(generator, asker, table, 2)
      return { type, args: { table: name, ...args }, writes: false }
    }
    case 'call':
      return generateCall(generator, asker)
    case 'count': {
      const distinct = random.chance(40) ? { distinct: [pickColumn(random, asker, table).name] } : {}
      return { type, args: { table: name, where: where(), ...distinct }, writes: false }
    }
    case 'update': {
      const args = {
        table: name,
        ...whereOfWrite(),
        ...generateChange(generator, role, table),
        ...returning(generator, asker, table),
      }
      return { type, args, writes: true }
    }
    case 'delete':
      return { type, args: { table: name, ...whereOfWrite(), ...returning(generator, asker, table) }, writes: true }
    case 'insert': {
      const conflict = random.chance(30)
      const on = {
        action: random.pick(['ignore', 'update', 'update']),
        ...(random.chance(50)
          ? { constraint: `${table.name}_${random.chance(90) ? 'pkey' : 'slug_key'}` }
          : { constraint_on: [random.chance(90) ? 'id' : 'slug'] }),
      }
      const objects = generateRows(generator, role, table, conflict)
      return {
        type: 'insert',
        args: { table: name, objects, ...(conflict ? { on_conflict: on } : {}), ...returning(generator, asker, table) },
        writes: true,
      }
    }
  }
}

/** The version of some rows, of hidden ones, or of none. */
const generateVersion = (random: Random): Json => ({
  version: random.pick(['1', '2', '3', '7', 'cup', 'pen', 'Secret-1', String(anyId(random))]),
})

/** A call of a function: of one that the role may call, and now and then of another or of none. */
function generateCall(generator: Generator, asker: Asker): Query {
  const { random } = generator
  const note = tableOf('note')
  const granted = grantsOf(asker.era, asker.role, 'note').select?.columns ?? []
  const masked = asker.era.hidden['note'] ?? []
  const tracked = Object.entries(FUNCTIONS).filter(
    ([, { reads }]) => reads === undefined || (granted.includes(reads) && !masked.includes(reads)),
  )
  const isPlain = random.chance(40)
  const [name, { args, writes = false }] = random.pick(isPlain ? Object.entries(PLAIN_FUNCTIONS) : tracked)
  const given: Json =
    args === 'none'
      ? {}
      : args === 'n'
        ? { n: anyId(random) }
        : { word: random.pick(['Secret', 'a', '\\', 'Secret-1']) }
  const hidden: Json = random.pick([NAMES[0].secret, NAMES[1].secret, 'nothing'])
  const called = { function: random.chance(8) ? hidden : name, arguments: given }
  if (isPlain || name === 'one_note') {
    const columns = isPlain ? undefined : generateFields(generator, asker, note, 1)
    return { type: 'call', args: { ...called, ...(columns ? { columns } : {}) }, writes }
  }
  const { after: _, ...read } = generateSelect(generator, asker, note, 1)
  return { type: 'call', args: { ...called, ...read }, writes }
}

function generateChange(generator: Generator, role: string, table: Table): { readonly [key: string]: Json } {
  const { random } = generator
  const set = () => ({ $set: generateSet(generator, role, table) })
  if (random.chance(65) || !mayCount(generator, role, table)) return set()
  const by = { [random.pick(['$inc', '$mul'])]: generateIncrement(generator, role, table) }
  return random.chance(20) ? { ...by, ...set() } : by
}

/** Always in a total order, or rows would come as they lie. */
function generateSelect(
  generator: Generator,
  asker: Asker,
  table: Table,
  depth: number,
): { readonly [key: string]: Json } {
  const { random, used } = generator
  const distinct = random.chance(10) ? pickColumn(random, asker, table).name : undefined
  if (depth === 2 && distinct === undefined && random.chance(10)) return generatePage(generator, asker, table)
  return {
    columns: generateFields(generator, asker, table, depth),
    ...(distinct === undefined ? {} : { distinct_on: [distinct] }),
    ...(random.chance(88) ? { where: generateCondition(random, asker, table, used) } : {}),
    order_by: [...(distinct === undefined ? generateOrder(random, asker, table) : [distinct]), '+id'],
    ...(random.chance(50) ? { limit: random.below(9) } : {}),
    ...(random.chance(15) ? { offset: random.below(3) } : {}),
  }
}

/** Rows behind one that is there, is hidden, or neither. */
function generatePage(generator: Generator, asker: Asker, table: Table): { readonly [key: string]: Json } {
  const { random, used } = generator
  const column = pickColumn(random, asker, table)
  const value = random.chance(20) ? null : rightSide(random, 'eq', column)
  return {
    columns: generateFields(generator, asker, table, 0),
    where: generateCondition(random, asker, table, used),
    order_by: [`${random.pick(['+', '-'])}${column.name}`],
    after: column.name === 'id' ? { id: anyId(random) } : { [column.name]: value, id: anyId(random) },
    limit: 1 + random.below(4),
  }
}

/** Aggregates of the rows that have one or two columns in common, in a total order. */
function generateGroups(generator: Generator, asker: Asker, table: Table): { readonly [key: string]: Json } {
  const { random, used } = generator
  const by = random.chance(80) ? [pickColumn(random, asker, table)] : []
  const having = by[0] && random.chance(50) ? { having: conditionOn(random, asker, by[0], table, used) } : {}
  const value = pickColumn(random, asker, table).name
  const fn = random.pick(['count', 'min', 'max', 'sum'])
  return {
    columns: [
      ...by.map(({ name }) => name),
      { count: '*' },
      { [fn]: value, as: 'value' },
      { array_agg: 'id', as: 'ids' },
    ],
    where: generateCondition(random, asker, table, used),
    ...(by.length > 0 ? { group_by: by.map(({ name }) => name) } : {}),
    ...(having as { readonly [key: string]: Json }),
    order_by: ['ids'],
    ...(random.chance(30) ? { limit: random.below(9) } : {}),
  }
}

function generateFields(generator: Generator, asker: Asker, table: Table, depth: number): readonly Json[] {
  const { random } = generator
  if (random.chance(10)) return ['*']
  const some = Array.from({ length: random.below(4) }, () => pickColumn(random, asker, table).name)
  const columns = [...new Set(['id', ...some]), ...(random.chance(8) ? ['$version'] : [])]
  if (depth === 0 || random.chance(50)) return columns
  const [name, relation] = relationOf(random, asker, table)
  const remote = tableOf(relation.table)
  const nested = relation.single
    ? { name, columns: generateFields(generator, asker, remote, depth - 1) }
    : { name, ...generateSelect(generator, asker, remote, depth - 1) }
  return [...columns, nested]
}

function generateOrder(random: Random, asker: Asker, table: Table): readonly Json[] {
  const sign = random.pick(['+', '-', ''])
  if (random.chance(40)) return []
  if (random.chance(10)) return [generateRank(random, asker, table)]
  const single = Object.entries(table.relations).filter(([, { single }]) => single)
  if (single.length === 0 || random.chance(60)) return [`${sign}${pickColumn(random, asker, table).name}`]
  const [name, relation] = random.pick(single)
  return [`${sign}${name}.${pickColumn(random, asker, tableOf(relation.table)).name}`]
}

/** How well a text matches, mostly. */
function generateRank(random: Random, asker: Asker, table: Table): Json {
  const granted = grantsOf(asker.era, asker.role, table.name).select?.columns ?? []
  const searched = granted.filter((name) => ['title', 'words', 'name'].includes(name))
  const column =
    searched.length > 0 && random.chance(90) ? random.pick(searched) : pickColumn(random, asker, table).name
  const search = rightSide(random, 'matches', { name: column, type: TEXT })
  return { rank: typeof search === 'string' ? { column, query: search } : { column, ...(search as Condition) } }
}

function returning(generator: Generator, asker: Asker, table: Table): { readonly returning?: Json } {
  if (generator.random.chance(40)) return {}
  const fields = generateFields(generator, asker, table, 1)
  return { returning: fields }
}

/** Mostly a document that was sent before, with other variables: what it takes to read one is not what is tried here. */
function documentCase(
  generator: Generator,
  role: string,
  dialect: 'alpha' | 'modern',
  relay = false,
): Made & Pick<Case, 'role' | 'document'> {
  const { random, documents } = generator
  const known = documents.filter((each) => each.asker.dialect === dialect && each.relay === relay)
  const isKnown = known.length > 0 && random.chance(93)
  const document = isKnown
    ? random.pick(known)
    : generateDocument(generator, { era: generator.era, role, dialect }, relay)
  if (!isKnown) documents.push(document)
  const { asker, query, variables, writes } = document
  const body = { query, variables: Object.fromEntries(variables.map(({ name, make }) => [name, make()])) }
  const path = relay ? '/v1beta1/relay' : dialect === 'alpha' ? '/v1alpha1/graphql' : '/v1/graphql'
  return {
    ...post(`${relay ? 'relay' : dialect} ${writes ? 'mutation' : 'query'}`, path, body, writes),
    role: asker.role,
    document,
  }
}

/** A template for each of some columns, with an operator and its value as a parameter. */
export function generateTemplates(random: Random, era: Era): readonly Template[] {
  return Array.from({ length: TEMPLATES }, (_, i) => {
    const table = tableOf(random.pick(['note', 'item', 'thing']))
    const hidden = era.hidden[table.name] as readonly string[]
    const may = table.columns.filter(
      ({ name, type }) => name !== GATE && !hidden.includes(name) && type.kind !== 'json',
    )
    const column = random.pick(may)
    const [operator] = random.pick(operatorsOn(column.type))
    const type = random.pick(['select', 'select', 'select', 'count', 'update', 'delete'] as const)
    const where = {
      [column.name]: { [`$${operator}`]: { param: 'value' } },
      id: { $gte: { param: 'from', default: 0 } },
    }
    const more = {
      select: { columns: [...new Set(['id', column.name])], order_by: ['id'], limit: { param: 'limit', default: 9 } },
      count: {},
      update: { $set: { shared: true }, returning: ['id'] },
      delete: { returning: ['id'] },
    }[type]
    return {
      name: `t${i}`,
      query: { type, args: { table: table.name, where, ...more } },
      writes: type === 'update' || type === 'delete',
      args: (chooser) => ({
        value: rightSide(chooser, operator, column),
        ...(chooser.chance(30) ? { from: anyId(chooser) } : {}),
      }),
    }
  })
}
const TEMPLATES = 16

function templateCase({ random, templates }: Generator): Made {
  const template = random.pick(templates)
  const args = template.args(random)
  const way = random.below(3)
  if (way === 0) {
    const body = { type: 'execute_query_template', args: { name: template.name, args } }
    return post('template', '/v1/query', body, template.writes)
  }
  const path = `/v1/template/${template.name}`
  if (way === 1) return post('POST template', path, args, template.writes)
  const query = new URLSearchParams(
    Object.entries(args).map(([key, value]): [string, string] => [
      key,
      typeof value === 'string' ? value : JSON.stringify(value),
    ]),
  )
  return { door: 'GET template', method: 'GET', path: `${path}?${query.toString()}`, writes: template.writes }
}

/** Files whose rule asks `org`; hidden files may be there or not, and nobody may make them. */
export const FILES = { common: ['c1', 'c2', 'c3', 'c4'], hidden: ['h1', 'h2', 'h3', 'h4', 'h5', 'h6'] } as const

function fileCase(generator: Generator): Made {
  const { random } = generator
  const hidden = random.chance(60)
  const id = random.pick(hidden ? FILES.hidden : FILES.common)
  const method = random.pick(['GET', 'GET', 'HEAD', 'DELETE', 'PUT', 'POST'])
  const path = `/v1/file/${id}`
  const conditions = random.pick<Record<string, string>>([
    {},
    {},
    { 'if-none-match': '*' },
    { 'if-match': '*' },
    { range: 'bytes=1-2' },
  ])
  const headers = { ...conditions, ...(method === 'PUT' || method === 'POST' ? { 'content-type': 'text/plain' } : {}) }
  return {
    door: `${method} file`,
    method,
    path,
    headers,
    ...(method === 'PUT' || method === 'POST' ? { body: 'new bytes' } : {}),
    writes: method !== 'GET' && method !== 'HEAD',
  }
}

function otherCase(generator: Generator, role: string): Made {
  const { random } = generator
  switch (random.below(7)) {
    case 0: {
      const { type, args } = generateQuery(generator, role)
      return post('explain', '/v1/query/explain', { query: { type, args } }, false)
    }
    case 1: {
      const path = random.pick(['/v1/graphql', '/v1beta1/relay'])
      return { ...post('introspection', path, { query: INTROSPECTION }, false), listed: true }
    }
    case 2:
      return { door: 'openapi', method: 'GET', path: '/v1/openapi.json', writes: false, listed: true }
    case 3:
      return { door: 'templates', method: 'GET', path: '/v1/template', writes: false, listed: true }
    case 4:
      return post('describe', '/v1/query', { type: 'describe', args: {} }, false)
    case 5: {
      const { name: table } = pickTable(generator, role, 'select')
      const key = { id: 1 + random.below(30) }
      return post('dependents', '/v1/query', { type: 'dependents', args: { table, key } }, false)
    }
    default: {
      const args = {
        table: { schema: 'svc_catalog', name: 'svc_file' },
        columns: ['file_id', 'file_size'],
        order_by: ['file_id'],
      }
      return post('files', '/v1/query', { type: 'select', args }, false)
    }
  }
}
const INTROSPECTION =
  '{ __schema { types { name fields { name args { name } type { name ofType { name } } } inputFields { name } enumValues { name } } } }'
