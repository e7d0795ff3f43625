import {
  type ComputedField,
  type FunctionData,
  GRAPHQL_TYPES,
  functionFieldName,
  graphqlName,
  isEnumName,
  isGraphqlName,
  type Names,
  pascalCase,
  resultTable,
  rootFieldName,
  type SqlType,
  type Table,
  tableKey,
  type TableRef,
  upperFirst,
} from 'rowhouse/plan'
import {
  connectionName,
  type Dialect,
  isCamel,
  isCursor,
  NUMERIC_FUNCTIONS,
  scalarName,
  streamName,
  takesNames,
  typeEnd,
} from './names.js'
import { CONNECTION_ACTION, isNode, NODE, offeredRoots, ROOT_ACTIONS, type RootField, STREAM_ACTION } from './roots.js'

/** The tables that a role sees in a dialect, with their names in that dialect. */
export interface Exposed {
  /** By the name of the table's type. */
  readonly tables: ReadonlyMap<string, Table>
  readonly query: ReadonlyMap<string, RootField>
  readonly mutation: ReadonlyMap<string, RootField>
  readonly subscription: ReadonlyMap<string, RootField>
  /** Returns the name of a table's type, if it has one. */
  nameOf(table: TableRef): string | undefined
  /** Returns whether the rows of a table have global ids, in Relay. */
  isNode(table: Table): boolean
  /** Returns the name of the type of a function's arguments. */
  argsOf(call: FunctionData | ComputedField): string
  /** Returns whether a type of a table or of arguments has this name. */
  isTaken(type: string): boolean
  /**
   * Returns the values of a type that is an enum in GraphQL: of all enums with its name, because types of different
   * schemas can share one.
   */
  valuesOf(type: SqlType): readonly string[] | undefined
}

/**
 * The most recently used entries of one snapshot, the newest last. An entry takes 3 MB for 2,000 tables, and there can be
 * many roles.
 */
let cache: readonly { readonly names: Names; readonly dialect: Dialect; readonly exposed: Exposed }[] = []
const MAX_CACHED = 8

export function exposed(names: Names, dialect: Dialect): Exposed {
  const newest = cache.at(-1)
  if (newest?.names === names && newest.dialect === dialect) return newest.exposed
  const current = cache.filter((each) => each.names.snapshot === names.snapshot)
  const found = current.find((each) => each.names === names && each.dialect === dialect)
  const used = found ?? { names, dialect, exposed: expose(names, dialect) }
  cache = [...current.filter((each) => each !== found), used].slice(-MAX_CACHED)
  return used.exposed
}

function expose(names: Names, dialect: Dialect): Exposed {
  const camel = isCamel(names, dialect)
  const { suffixes, comparison, builtIn } = namesIn(dialect, camel)
  const { query, mutation, tables } = exposeTables(names, dialect)
  const byTable = new Map([...tables].map(([name, table]) => [tableKey(table), name]))
  const nodes = new Set(dialect === 'relay' ? [...tables.values()].filter((table) => isNode(table, names)) : [])
  const types = new Set(builtIn)
  const isType = (type: string) =>
    types.has(type) ||
    suffixes.some((suffix) => type.endsWith(suffix) && tables.has(type.slice(0, type.length - suffix.length)))
  let enums: ReturnType<typeof enumsOf> | undefined
  const args = new Map<FunctionData | ComputedField, string>()
  const nameArgs = (call: FunctionData | ComputedField, name: string) => {
    let free = `${camel ? upperFirst(name) : name}${typeEnd('_args', camel)}`
    while (isType(free)) free += '_'
    types.add(free)
    args.set(call, free)
  }
  /** Names the type of the rows that only a function returns. */
  const nameResult = (table: Table, name: string) => {
    let free = `${camel ? upperFirst(name) : name}${typeEnd('_result', camel)}`
    while (suffixes.some((suffix) => isType(free + suffix))) free += '_'
    tables.set(free, table)
    byTable.set(tableKey(table), free)
  }
  const nameOf = (table: TableRef) => byTable.get(tableKey(table))
  if (dialect !== 'alpha') {
    for (const [name, table] of tables) {
      for (const field of names.computedFields(table)) nameArgs(field, `${name}${typeEnd(`_${field.name}`, camel)}`)
    }
    for (const { name, of: call } of inOrder(names.functions(), (call) => functionFieldName(call, names.naming))) {
      const table = call.result ? resultTable(call) : tables.get(nameOf(call.table) ?? '')
      if (!table || !isGraphqlName(name) || query.has(name) || mutation.has(name)) continue
      if (dialect === 'relay' && name === NODE) continue
      if (!takesNames(call.arguments)) continue
      const isConnection = dialect === 'relay' && call.many && !call.mutation
      const field = isConnection ? connectionName(name, names) : name
      if (isConnection && (query.has(field) || !nodes.has(table))) continue
      nameArgs(call, name)
      if (call.result && !call.result.values) nameResult(table, name)
      const roots = call.mutation ? mutation : query
      roots.set(field, { action: isConnection ? CONNECTION_ACTION : ROOT_ACTIONS.select, table, call })
      if (isConnection) continue
      const aggregate = rootFieldName('select_aggregate', call, name, names.naming)
      if (call.many && !call.mutation && !call.result && names.mayAggregate(table) && !query.has(aggregate)) {
        query.set(aggregate, { action: ROOT_ACTIONS.select_aggregate, table, call })
      }
    }
  }
  return {
    tables,
    query,
    mutation,
    subscription: dialect === 'modern' ? withStreams(query, tables, names) : query,
    nameOf,
    isNode: (table) => nodes.has(table),
    argsOf: (call) => args.get(call) as string,
    isTaken: (type) => isType(type) || comparison.test(type),
    valuesOf(type) {
      if (!type.labels || dialect === 'alpha') return undefined
      enums ??= enumsOf(names)
      return enums.get(scalarName(type, dialect, camel)) ?? undefined
    },
  }
}

/** Adds the streams of tables to the root fields of queries, which have priority. */
function withStreams(query: Exposed['query'], tables: Exposed['tables'], names: Names): Exposed['query'] {
  const all = new Map(query)
  for (const table of tables.values()) {
    if (!names.may(table, 'select') || !names.columns(table).some(isCursor)) continue
    const name = streamName(table.customization?.name ?? graphqlName(table), names)
    if (!all.has(name)) all.set(name, { action: STREAM_ACTION, table })
  }
  return all
}

/** Returns the values of enums by their names. Null: some of them cannot be names in GraphQL. */
function enumsOf(names: Names): ReadonlyMap<string, readonly string[] | null> {
  const enums = new Map<string, readonly string[] | null>()
  const add = (type: SqlType): void => {
    const { labels } = type.element ?? type
    if (!labels) return
    const name = scalarName(type.element ?? type, 'modern', isCamel(names))
    const known = enums.get(name)
    if (known === null || labels.length === 0 || !labels.every(isEnumName)) enums.set(name, null)
    else if (known !== labels) enums.set(name, known ? [...new Set([...known, ...labels])] : labels)
  }
  const addArguments = (call: FunctionData | ComputedField) => call.arguments.forEach(({ type }) => add(type))
  for (const table of names.tables()) {
    for (const action of ['select', 'insert', 'update'] as const) {
      for (const { type } of names.columns(table, action)) add(type)
    }
    for (const { type } of table.columns.filter(({ name }) => table.primaryKey.includes(name))) add(type)
    for (const field of names.computedFields(table)) {
      addArguments(field)
      if ('type' in field.gives) add(field.gives.type)
    }
  }
  for (const call of names.functions()) {
    addArguments(call)
    call.result?.columns.forEach(({ type }) => add(type))
  }
  return enums
}

/** Leaves out a table if an earlier table has its name, or the name of one of its types or root fields. */
function exposeTables(names: Names, dialect: Dialect) {
  const tables = new Map<string, Table>()
  const query = new Map<string, RootField>()
  const mutation = new Map<string, RootField>()
  const camel = isCamel(names, dialect)
  const { suffixes, ends, comparison, builtIn } = namesIn(dialect, camel)
  const isBuiltIn = (name: string) =>
    [...builtIn].some((type) => type.startsWith(name) && suffixes.includes(type.slice(name.length)))
  /** Tables are sorted, so a shorter name has been added already. */
  const sharesType = (name: string) =>
    ends.some((end) => name.endsWith(end) && tables.has(name.slice(0, name.length - end.length)))
  const customization = (table: Table) => (dialect === 'alpha' ? undefined : table.customization)
  const typeOf = (table: Table) => {
    const name = graphqlName(table)
    return customization(table)?.name ?? (camel ? pascalCase(name) : name)
  }
  for (const { name, of: table } of inOrder(names.tables(), typeOf)) {
    if (table.system || (dialect === 'alpha' && table.schema !== 'public')) continue
    if (!isGraphqlName(name) || comparison.test(name) || isBuiltIn(name) || sharesType(name)) continue
    const { name: custom, rootFields } = customization(table) ?? {}
    const fields = offeredRoots(table, names, dialect)
      .map((action) => ({
        action,
        given: action.kind && rootFields?.[action.kind],
        own: action.kind
          ? rootFieldName(action.kind, table, custom, camel ? names.naming : undefined)
          : connectionName(custom ?? graphqlName(table), names),
      }))
      // A configured name has priority over a default name.
      .sort((a, b) => Number(b.given !== undefined) - Number(a.given !== undefined))
    if (fields.some(({ given, own }) => query.has(given ?? own) || mutation.has(given ?? own))) continue
    tables.set(name, table)
    for (const { action, given, own } of fields) {
      const roots = action.needs === 'select' ? query : mutation
      if (!roots.has(given ?? own)) roots.set(given ?? own, { action, table })
    }
  }
  return { tables, query, mutation }
}

/** Sorts by name, `author` before `author_set_input`, so that every instance leaves out the same tables. */
function inOrder<T extends TableRef>(all: Iterable<T>, nameOf: (each: T) => string) {
  const named = [...all].map((of) => {
    const name = nameOf(of)
    return { name, of, order: `${name}\0${of.schema === 'public' ? '' : of.schema}` }
  })
  return named.sort((a, b) => (a.order < b.order ? -1 : 1))
}

/** Suffixes of the types that belong to a table. */
const ALPHA_SUFFIXES = ['', '_bool_exp', '_input', '_mutation_response']
const MODERN_SUFFIXES = [
  '',
  '_bool_exp',
  '_order_by',
  ...['', '_insert', '_obj_rel_insert', '_arr_rel_insert', '_pk_columns'].map((part) => `${part}_input`),
  ...['_set', '_inc', '_append', '_prepend', '_delete_key', '_delete_elem', '_delete_at_path'].map(
    (part) => `${part}_input`,
  ),
  '_mutation_response',
  '_aggregate',
  '_aggregate_fields',
  '_aggregate_order_by',
  ...['', '_count', '_bool_and', '_bool_or'].map((part) => `_aggregate_bool_exp${part}`),
  ...[...NUMERIC_FUNCTIONS, 'max', 'min'].flatMap((fn) => [`_${fn}_fields`, `_${fn}_order_by`]),
  '_select_column',
  '_update_column',
  '_constraint',
  '_on_conflict',
  '_updates',
  '_stream_cursor_input',
  '_stream_cursor_value_input',
]
function endsOf(all: readonly string[]): readonly string[] {
  const ends = all.flatMap((one) =>
    all.filter((other) => one.endsWith(other)).map((other) => one.slice(0, one.length - other.length)),
  )
  return [...new Set(ends)]
}

/** Names of comparison types, of their operands, and of what they contain. */
const COMPARISON =
  /_(comparison|cast)_exp$|_aggregate_bool_exp_bool_(and|or)_arguments_columns$|^st_d_within_(geography_)?input$|^full_text_(query|rank)$/
const COMPARISON_IN_CAMEL = /(Comparison|Cast)Exp$|AggregateBoolExpBool(And|Or)ArgumentsColumns$|^FullText(Query|Rank)$/

const RELAY_SUFFIXES = [...MODERN_SUFFIXES, 'Connection', 'Edge']
const RELAY_TYPES = ['Node', 'PageInfo']
const inCamel = (suffixes: readonly string[]) => suffixes.map((suffix) => typeEnd(suffix, true))

/** What the names of a dialect, or of `graphql-default` in it, must not collide with. */
const NAMES: Record<Dialect | 'camel' | 'relayInCamel', NamesOfTypes> = {
  alpha: namesOf(ALPHA_SUFFIXES, COMPARISON),
  modern: namesOf(MODERN_SUFFIXES, COMPARISON),
  relay: namesOf(RELAY_SUFFIXES, COMPARISON, RELAY_TYPES),
  camel: namesOf(inCamel(MODERN_SUFFIXES), COMPARISON_IN_CAMEL, ['OrderBy', 'CursorOrdering']),
  relayInCamel: namesOf(inCamel(RELAY_SUFFIXES), COMPARISON_IN_CAMEL, ['OrderBy', 'CursorOrdering', ...RELAY_TYPES]),
}
const namesIn = (dialect: Dialect, camel: boolean): NamesOfTypes =>
  NAMES[camel ? (dialect === 'relay' ? 'relayInCamel' : 'camel') : dialect]

interface NamesOfTypes {
  readonly suffixes: readonly string[]
  /** Two tables have types of the same name if the name of one table is that of the other plus one of these. */
  readonly ends: readonly string[]
  readonly comparison: RegExp
  readonly builtIn: ReadonlySet<string>
}

function namesOf(suffixes: readonly string[], comparison: RegExp, types: readonly string[] = []): NamesOfTypes {
  return { suffixes, ends: endsOf(suffixes), comparison, builtIn: new Set([...GRAPHQL_TYPES, ...types]) }
}
