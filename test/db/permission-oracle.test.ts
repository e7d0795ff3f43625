import t, { type Test } from 'tap'
import {
  ALL_ROLES,
  COLUMNS,
  generateExp,
  generateGroups,
  generateModel,
  generateRow,
  generateSelect,
  INHERITED,
  Random,
  ROLES,
  usable,
} from '../kit/oracle/generate.js'
import {
  all,
  any,
  type Caller,
  type Model,
  not,
  Refused,
  type Row,
  type TableModel,
  type Truth,
  type Value,
} from '../kit/oracle/model.js'
import { type Case, DOORS, type Out } from '../kit/oracle/doors.js'
import {
  count,
  groups,
  insert,
  insertRelated,
  remove,
  select,
  type Update,
  update,
  updateRelated,
  write,
} from '../kit/oracle/requests.js'
import { cases } from '../kit/property.js'
import { type As, testServer, type TestServer } from '../kit/server.js'

const CASES = cases(400, 'ROWHOUSE_ORACLE_CASES')
const SEED = Number(process.env['ROWHOUSE_ORACLE_SEED'] ?? 20240607)
const PER_MODEL = Math.min(80, Math.ceil(CASES / 5))

t.test(`what a role may see and do is what a naive reading of its permissions says (seed ${SEED})`, async (t) => {
  const server = await testServer(t, { threads: 1, config: { limits: { newQueries: { perSecond: 0 }, price: 0 } } })
  const random = new Random(SEED)
  const seen: Seen = {
    answered: 0,
    refused: 0,
    writes: 0,
    related: 0,
    ...Object.fromEntries(Object.keys(DOORS).map((door) => [door, 0])),
  }
  for (let done = 0; done < CASES; done += PER_MODEL) {
    const model = generateModel(random)
    await install(server, model)
    for (let i = 0; i < PER_MODEL; i++) await oneCase(t, server, model, random, seen, done + i)
  }
  t.comment(JSON.stringify(seen))
  t.ok(seen.answered > CASES / 3 && seen.refused > CASES / 20 && seen.writes > CASES / 10, 'the cases say something')
  t.ok(seen.related > CASES / 100, 'related rows were written')
  for (const door of Object.keys(DOORS)) t.ok((seen[door] ?? 0) > CASES / 60, `the door ${door} was used`)
})

const QUESTIONS = cases(240, 'ROWHOUSE_ORACLE_QUESTIONS')

t.test(`explain_permission says what the request then does (seed ${SEED})`, async (t) => {
  const server = await testServer(t, { threads: 1, config: { limits: { newQueries: { perSecond: 0 }, price: 0 } } })
  const random = new Random(SEED)
  const seen: Record<string, number> = {}
  for (let done = 0; done < QUESTIONS; done++) {
    if (done % PER_MODEL === 0) model = await installed()
    await oneQuestion(t, server, model as Model, random, seen)
  }
  t.comment(JSON.stringify(seen))
  for (const kind of ['allowed', 'permission', 'row', 'filter', 'check']) t.ok(seen[kind], `${kind} occurred`)

  async function installed(): Promise<Model> {
    const made = generateModel(random)
    await install(server, made)
    return made
  }
})
let model: Model | undefined

async function oneQuestion(
  t: Test,
  server: TestServer,
  model: Model,
  random: Random,
  seen: Record<string, number>,
): Promise<void> {
  const table = random.pick(Object.values(model))
  const role = random.pick(ALL_ROLES)
  const userId = random.chance(10) ? 'nobody' : String(random.below(6))
  const operation = random.pick(['select', 'insert', 'update', 'delete'] as const)
  const key = { id: 1 + random.below(10) }
  const permission = table.permissions[role]?.[operation]
  const may = permission && 'columns' in permission ? permission.columns : COLUMNS
  const fresh = generateRow(random, operation === 'insert' ? key.id + random.below(100) : key.id)
  const wanted = random.some(random.chance(90) ? may : COLUMNS, 60).filter((name) => name !== 'id')
  const object = Object.fromEntries(
    (operation === 'insert' ? ['id', ...wanted] : wanted).map((name) => [name, fresh[name] as Value]),
  )
  const question = {
    role,
    session: { 'X-Service-User-Id': userId },
    operation,
    table: table.name,
    ...(operation === 'insert' ? {} : { key }),
    ...(operation === 'insert' || operation === 'update' ? { object } : {}),
  }
  const explained = await server.must('explain_permission', question)
  const args = {
    select: { columns: ['id'], where: key },
    insert: { objects: [object] },
    update: { where: key, $set: object },
    delete: { where: key },
  }[operation]
  const as = { role, variables: { 'x-service-user-id': userId } }
  const { status, body } = await server.query(operation, { table: table.name, ...args }, as)
  const isDone = status === 200 && (operation === 'select' ? body.length : body.affected_rows) === 1
  seen[explained.reason ?? explained.verdict] = (seen[explained.reason ?? explained.verdict] ?? 0) + 1
  const wrong = [explained.filter, explained.check].filter((rule) => rule && !addsUp(rule, userId))
  if ((explained.verdict === 'allowed') === isDone && wrong.length === 0) return
  t.fail('the explanation differs', { question, explained, status, body, permissions: table.permissions[role] })
  throw new Error('the explanation differs')
}

interface Explained {
  readonly result: Truth
  readonly all?: readonly Explained[]
  readonly any?: readonly Explained[]
  readonly not?: Explained
  readonly rows?: readonly { readonly rule: Explained }[]
  readonly more?: true
}

/**
 * Returns whether the results of the parts of a rule are those that give its own. With a user id that fits no column, the
 * negation of a condition on other rows is unknown, whatever these are.
 */
function addsUp({ result, all: each, any: some, not: other, rows, more }: Explained, userId: string): boolean {
  const parts = [...(each ?? []), ...(some ?? []), ...(other ? [other] : []), ...(rows ?? []).map(({ rule }) => rule)]
  const results = parts.map((part) => part.result)
  const expected = each
    ? all(results)
    : some
      ? any(results)
      : other
        ? userId === 'nobody' && result === null
          ? null
          : not(other.result)
        : rows && !more
          ? results.includes(true)
          : result
  return expected === result && parts.every((part) => addsUp(part, userId))
}

async function install(server: TestServer, model: Model): Promise<void> {
  await server.must('clear_metadata', {})
  const tables = Object.values(model)
  const sql = tables.map(({ name }) => `create table ${name} (id int primary key, n int, b bool, s text, ref int);`)
  const functions = tables.map(
    ({ name }) => `create function all_${name}() returns setof ${name} language sql stable as 'select * from ${name}';`,
  )
  const steps = tables.map(
    ({ name }) => `drop function if exists steps_${name}; create function steps_${name}(n int)
      returns table (id int, twice int) language sql stable as 'select i, 2 * i from generate_series(1, n) i';`,
  )
  const drop = 'drop table if exists t0, t1, t2, t3, t4 cascade;'
  await server.must('run_sql', { sql: `${drop}${sql.join('')}${functions.join('')}${steps.join('')}` })
  await server.must('bulk', [
    ...tables.map(({ name }) => ({ type: 'track_table', args: name })),
    ...tables.flatMap(({ name, relations }) =>
      Object.entries(relations).map(([relation, { single, table, local, remote }]) => ({
        type: `create_${single ? 'object' : 'array'}_relationship`,
        args: {
          table: name,
          name: relation,
          using: { manual_configuration: { remote_table: table, column_mapping: { [local]: remote } } },
        },
      })),
    ),
    ...tables.flatMap(({ name, permissions }) =>
      Object.entries(permissions).flatMap(([role, all]) =>
        Object.entries(all.own ?? all).map(([type, permission]) => ({
          type: `create_${type}_permission`,
          args: { table: name, role, permission },
        })),
      ),
    ),
    ...tables.flatMap(({ name }) => [
      { type: 'track_function', args: `all_${name}` },
      ...ROLES.map((role) => ({ type: 'create_function_permission', args: { function: `all_${name}`, role } })),
    ]),
    ...tables.flatMap((table) => [
      { type: 'track_function', args: stepsOf(table) },
      ...ROLES.filter((role) => mayCall(role, table)).map((role) => ({
        type: 'create_function_permission',
        args: { function: stepsOf(table), role },
      })),
    ]),
    ...Object.entries(INHERITED).map(([role, roles]) => ({ type: 'set_role_inheritance', args: { role, roles } })),
    ...tables.map(({ name, rows }) => ({ type: 'insert', args: { table: name, objects: rows } })),
  ])
}

const stepsOf = ({ name }: TableModel): string => `steps_${name}`
/** Half of the roles may call the function of a table, whatever else they may do. */
const mayCall = (role: string, table: TableModel): boolean => {
  const parts = INHERITED[role]
  if (role === 'admin' || parts) return parts?.some((part) => mayCall(part, table)) ?? true
  return (ROLES.findIndex((each) => each === role) + Number(table.name.slice(1))) % 2 === 0
}

type Seen = Record<string, number> & Record<'answered' | 'refused' | 'writes' | 'related', number>

async function oneCase(
  t: Test,
  server: TestServer,
  model: Model,
  random: Random,
  seen: Seen,
  number: number,
): Promise<void> {
  const caller: Caller = {
    role: random.chance(8) ? 'admin' : random.pick(ALL_ROLES),
    userId: random.chance(10) ? null : random.below(6),
  }
  const table = random.pick(Object.values(model))
  const { type, args, expect, remote } = generateCase(model, table, random, caller)
  const door = random.pick(Object.keys(DOORS))
  const as = { role: caller.role, variables: { 'x-service-user-id': String(caller.userId ?? 'nobody') } }
  const expected = outcome(expect)
  const test = { type, args, table, caller }
  const isWrite = type === 'insert' || type === 'update' || type === 'delete'
  const dry = isWrite && number % 2 === 0 ? await dryRun(server, model, door, test, as, number) : undefined
  const asked = DOORS[door]?.(server, test, as, random)
  if (asked) seen[door] = (seen[door] ?? 0) + 1
  const out = await (asked ?? DOORS['query']?.(server, test, as, random))

  const comparable = (one: typeof out) =>
    typeof one === 'object' && 'answer' in one ? byKey(type, one.answer) : one === 'refused' ? one : JSON.stringify(one)
  const got = comparable(out)
  if (dry && JSON.stringify(comparable(dry)) !== JSON.stringify(got)) {
    t.fail(`the dry run of case ${number} differs`, { caller, type, args, got, dry, door })
    throw new Error(`the dry run of case ${number} differs`)
  }
  const wanted = expected === 'refused' ? expected : byKey(type, expected)
  if (JSON.stringify(got) !== JSON.stringify(wanted)) {
    const { rows: _, ...rest } = table
    t.fail(`case ${number}`, {
      caller,
      type,
      args,
      got,
      wanted,
      door,
      table: rest,
      rows: table.rows,
    })
    throw new Error(`case ${number} differs`)
  }
  seen[expected === 'refused' ? 'refused' : 'answered']++
  if (!isWrite) return
  if (expected !== 'refused') seen.writes++
  if (expected !== 'refused' && remote) seen.related++
  for (const each of new Set([table, remote ?? table])) {
    const stored = await server.must('select', { table: each.name, columns: [...COLUMNS], order_by: ['id'] })
    const rows = [...each.rows].sort((a, b) => Number(a['id']) - Number(b['id']))
    if (JSON.stringify(stored) !== JSON.stringify(rows.map(inOrder))) {
      t.fail(`case ${number}: what is stored`, { caller, type, args, stored, rows })
      throw new Error(`case ${number} left something else`)
    }
  }
}

function outcome(expect: () => unknown): unknown {
  try {
    return expect()
  } catch (error) {
    if (error instanceof Refused) return 'refused'
    throw error
  }
}

/** Rows of an update or delete come back in any order. */
function byKey(type: string, body: unknown): unknown {
  if (type !== 'update' && type !== 'delete') return body
  const { affected_rows: affected, returning } = body as { affected_rows: number; returning: Row[] }
  return { affected, returning: [...returning].sort((a, b) => Number(a['id']) - Number(b['id'])) }
}

const inOrder = (row: Row) => Object.fromEntries(COLUMNS.map((column) => [column, row[column]]))

interface Generated {
  readonly type: string
  readonly args: object
  readonly expect: () => unknown
  /** The table of related rows that are written too. */
  readonly remote?: TableModel
}

function generateCase(model: Model, table: TableModel, random: Random, caller: Caller): Generated {
  const { role } = caller
  const { name } = table
  const columns = usable(random, table, role)
  const where = () => generateExp(random, model, name, 2, false, columns)
  const returning = [
    'id',
    ...random.some(
      columns.filter((column) => column !== 'id'),
      50,
    ),
  ]
  const kind = random.below(100)
  if (kind < 5) {
    const args = generateGroups(random, model, table, role)
    return { type: 'select', args, expect: () => groups(model, args, table, caller) }
  }
  if (kind < 10) {
    const n = random.below(4)
    const limit = random.below(4)
    const args = { function: stepsOf(table), arguments: { n }, columns: ['id', 'twice'], order_by: ['-id'], limit }
    const rows = Array.from({ length: n }, (_, i) => ({ id: n - i, twice: 2 * (n - i) })).slice(0, limit)
    const expect = () => {
      if (!mayCall(role, table)) throw new Refused()
      return rows
    }
    return { type: 'call', args, expect }
  }
  if (kind < 57) {
    const args = generateSelect(random, model, table, role)
    return { type: 'select', args, expect: () => select(model, args, table, table.rows, caller) }
  }
  if (kind < 63) {
    const args = { table: name, where: where(), distinct: random.some(columns, 30) }
    return { type: 'count', args, expect: () => ({ count: count(model, table, args.where, args.distinct, caller) }) }
  }
  if (kind < 78 && random.chance(25)) return generateRelated(model, table, random, caller)
  if (kind < 78) {
    const may = role === 'admin' ? COLUMNS.slice(1) : (table.permissions[role]?.update?.columns ?? ['n'])
    const target = (random.chance(93) && may.length > 0 ? random.pick(may) : random.pick(COLUMNS.slice(1))) as string
    // What a role sees in some rows only it cannot change by what it is.
    const isWhole = (table.permissions[role]?.select?.parts ?? []).every((part) => part.columns.includes('n'))
    const inc = target === 'n' && isWhole && random.chance(40)
    const fresh = generateRow(random, 0)
    const args: Update = {
      where: where(),
      $set: inc ? {} : { [target]: fresh[target] as Value },
      $inc: inc ? { n: 1 } : {},
      returning,
    }
    const { $set, $inc, ...rest } = args
    return {
      type: 'update',
      args: { table: name, ...rest, ...(inc ? { $inc } : { $set }) },
      expect: () => write([table], () => update(model, table, args, caller)),
    }
  }
  if (kind < 85) {
    const args = { table: name, where: { $and: [where(), { id: { $gt: 3 } }] }, returning }
    return {
      type: 'delete',
      args,
      expect: () => write([table], () => remove(model, table, args.where, returning, caller)),
    }
  }
  if (random.chance(30)) return generateRelated(model, table, random, caller, 'insert')
  const may = role === 'admin' ? COLUMNS : (table.permissions[role]?.insert?.columns ?? COLUMNS)
  const keys = random.chance(93) ? may : COLUMNS
  const conflict = random.chance(35) ? random.pick(['ignore', 'update'] as const) : undefined
  const first = conflict ? 1 + random.below(12) : 100 + random.below(1_000_000)
  const chosen = random.some(
    keys.filter((key) => key !== 'id'),
    70,
  )
  const objects = Array.from({ length: 1 + random.below(3) }, (_, i) => {
    const row = generateRow(random, first + i)
    const own = conflict
      ? chosen
      : random.some(
          keys.filter((key) => key !== 'id'),
          70,
        )
    return Object.fromEntries(['id', ...own].map((key) => [key, row[key] as Value]))
  })
  return {
    type: 'insert',
    args: {
      table: name,
      objects,
      returning,
      ...(conflict
        ? { on_conflict: { action: conflict, ...(conflict === 'update' ? { constraint_on: 'id' } : {}) } }
        : {}),
    },
    expect: () =>
      write([table], () => insert(model, table, { objects, returning, ...(conflict ? { conflict } : {}) }, caller)),
  }
}

/** Runs a write as a dry run. Throws when it leaves something. */
async function dryRun(
  server: TestServer,
  model: Model,
  door: string,
  test: Case,
  as: As,
  number: number,
): Promise<Out> {
  const undoing: TestServer = {
    ...server,
    query: (type, args, who) => server.raw(JSON.stringify({ type, args, dry_run: true }), who),
    fetch: (path, init, who) => server.fetch(path, { ...init, headers: { Prefer: 'tx=rollback' } }, who),
  }
  const rows = async () => {
    const ofTable = (table: string) => ({ type: 'select', args: { table, columns: ['*'], order_by: 'id' } })
    return JSON.stringify(await server.must('bulk', Object.keys(model).map(ofTable)))
  }
  const before = await rows()
  const random = new Random(number)
  const out = await (DOORS[door]?.(undoing, test, as, random) ?? DOORS['query']?.(undoing, test, as, random))
  if ((await rows()) !== before) throw new Error(`the dry run of case ${number} left something`)
  return out as Out
}

/** An insert or update of rows with rows of a relationship. */
function generateRelated(
  model: Model,
  table: TableModel,
  random: Random,
  caller: Caller,
  type: 'insert' | 'update' = 'update',
): Generated {
  const { role } = caller
  const [name, relation] = random.pick(Object.entries(table.relations))
  const remote = model[relation.table] as TableModel
  if (remote === table && type === 'update') return generateCase(model, table, random, caller)
  const first = 100 + random.below(1_000_000)
  const tables = [table, remote]
  const returning = ['id']
  /** @param without the column that the relationship determines */
  const row = (of: TableModel, id: number, without: string | undefined): Row => {
    const may = role === 'admin' ? COLUMNS : (of.permissions[role]?.insert?.columns ?? COLUMNS)
    const keys = random.some((random.chance(93) ? may : COLUMNS) as readonly string[], 70)
    const all = generateRow(random, id)
    return Object.fromEntries(
      ['id', ...keys.filter((key) => key !== 'id')]
        .filter((key) => key !== without)
        .map((key) => [key, all[key] as Value]),
    )
  }
  const theirs = (from: number, count: number): Row[] =>
    Array.from({ length: count }, (_, i) => row(remote, from + i, relation.single ? undefined : relation.remote))
  if (type === 'insert') {
    const objects = Array.from({ length: 1 + random.below(3) }, (_, i) =>
      row(table, first + i, relation.single ? relation.local : undefined),
    )
    const some = objects.map((_, i) =>
      i > 0 && random.chance(30) ? undefined : theirs(first + 10 + i * 5, relation.single ? 1 : 1 + random.below(2)),
    )
    const sent = objects.map((each, i) => {
      const rows = some[i]
      return rows ? { ...each, [name]: { data: relation.single ? rows[0] : rows } } : each
    })
    return {
      type,
      remote,
      args: { table: table.name, objects: sent, returning },
      expect: () =>
        write(tables, () => insertRelated(model, table, { objects, relation: name, related: some, returning }, caller)),
    }
  }
  const own = usable(random, table, role)
  const others = usable(random, remote, role)
  const target = (of: TableModel) => {
    const may = role === 'admin' ? COLUMNS.slice(1) : (of.permissions[role]?.update?.columns ?? ['n'])
    const column = (random.chance(93) && may.length > 0 ? random.pick(may) : random.pick(COLUMNS.slice(1))) as string
    return { [column]: generateRow(random, 0)[column] as Value }
  }
  const where = (of: TableModel, columns: readonly string[]) =>
    random.chance(40) ? { id: { $gt: 0 } } : generateExp(random, model, of.name, 2, false, columns)
  const related = {
    ...(random.chance(40) ? { delete: { where: { $and: [where(remote, others), { id: { $gt: 3 } }] } } } : {}),
    ...(random.chance(60) ? { update: { where: where(remote, others), $set: target(remote) } } : {}),
    ...(random.chance(relation.single ? 5 : 30) ? { insert: { data: theirs(first, 1) } } : {}),
  }
  const request = { where: where(table, own), $set: random.chance(50) ? target(table) : {}, $inc: {}, returning }
  return {
    type,
    remote,
    args: { table: table.name, where: request.where, $set: { ...request.$set, [name]: related }, returning },
    expect: () => write(tables, () => updateRelated(model, table, { ...request, relation: name, related }, caller)),
  }
}
