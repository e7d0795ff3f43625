import { type Data, isAdmin, jsonAnswer, type Operation, permissionRole, roleName } from 'rowhouse'
import {
  type Catalog,
  type Column,
  compareTables,
  type ComputedField,
  type FunctionArgument,
  type FunctionData,
  type Names,
  namesFor,
  operatorsFor,
  permissionsOf,
  type Related,
  type SqlType,
  type Table,
  type TableRef,
  versionOf,
} from 'rowhouse/plan'
import { args } from '../metadata/operation.js'

/** The operation that lists the tables, columns, relationships and functions that the caller's role may use. */
export function describeOperation(data: Data): Operation {
  return {
    args: args({}),
    async run(_args, call) {
      const catalog = data.catalogFor(call)
      const role = permissionRole(call.session)
      const names = namesFor(role, catalog)
      if (isAdmin(call.session)) {
        const comments = await data.query<Comment>(COMMENTS, [], call.transaction)
        const found = describeNames(names, role, new Map(comments.map((each) => [keyOf(each, each.column), each.text])))
        return jsonAnswer({ ...found, roles: rolesIn(catalog) })
      }
      const byNames = known.get(catalog) ?? new Map<Names, string>()
      known.set(catalog, byNames)
      const text = byNames.get(names) ?? JSON.stringify(describeNames(names, role))
      if (byNames.size < MAX_KEPT) byNames.set(names, text)
      return { kind: 'text', text }
    },
  }
}
const known = new WeakMap<Catalog, Map<Names, string>>()
/** Maximum number of roles whose answers are kept. With 1,000 tables an answer may have 3 MB. */
const MAX_KEPT = 20

/** Comments by `keyOf`. */
type Comments = ReadonlyMap<string, string>
interface Comment extends TableRef {
  /** Null for the comment on the table. */
  readonly column: string | null
  readonly text: string
}

/** The primary key of `pg_description` begins with the object. */
const COMMENTS = `
select n.nspname as schema, c.relname as name, a.attname as column, d.description as text
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
join pg_catalog.pg_description d on d.objoid = c.oid and d.classoid = 'pg_catalog.pg_class'::regclass
left join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = d.objsubid and a.attnum > 0
where c.relkind in ('r', 'p', 'v', 'm', 'f')`

const keyOf = (table: TableRef, column: string | null): string => JSON.stringify([table.schema, table.name, column])

/** Describes all that a role may use. Whatever it may not use is absent. */
function describeNames(names: Names, role: string, comments: Comments = new Map()) {
  const types = new Map<string, SqlType>()
  const typeOf = (type: SqlType): string => {
    const name = typeName(type)
    if (!types.has(name)) types.set(name, type)
    return name
  }

  const describeTable = (table: Table) => {
    const mayWrite = (action: keyof typeof SUPPORTS): boolean =>
      !table.system && table[SUPPORTS[action]] && names.may(table, action)
    const actions = {
      select: names.may(table, 'select'),
      insert: mayWrite('insert'),
      update: mayWrite('update'),
      delete: mayWrite('delete'),
    }
    const select = setOf(names.columns(table))
    const insert = setOf(actions.insert ? names.columns(table, 'insert') : [])
    const update = setOf(actions.update ? names.columns(table, 'update') : [])
    const columns = table.columns.filter(
      (each) => select.has(each.name) || insert.has(each.name) || update.has(each.name),
    )
    const seen = setOf(columns)
    const isSeen = (all: readonly string[]) => all.every((name) => seen.has(name))
    return {
      table: refOf(table),
      kind: table.kind === 'partitioned' ? 'partitioned table' : table.kind,
      comment: comments.get(keyOf(table, null)),
      primary_key: isSeen(table.primaryKey) ? table.primaryKey : [],
      unique: names
        .conflictKeys(table)
        .flatMap((key) => (isSeen(key.columns) ? { name: key.name, columns: key.columns } : [])),
      columns: columns.map((column) => ({
        name: column.name,
        type: typeOf(column.type),
        nullable: column.nullable,
        has_default: insert.has(column.name)
          ? column.default !== undefined || column.generated === 'identity'
          : undefined,
        generated: column.generated === 'always',
        values: (column.type.element ?? column.type).labels,
        comment: comments.get(keyOf(table, column.name)),
        select: select.has(column.name),
        insert: insert.has(column.name),
        update: update.has(column.name),
      })),
      computed_fields: names.computedFields(table).map(describeComputed),
      // A role that may only delete has no request that could name a relationship.
      relationships:
        actions.select || actions.insert || actions.update
          ? names.relationships(table).map((related) => describeRelationship(related, select))
          : [],
      actions: { ...actions, upsert: actions.insert && names.mayUpsert(table) },
      aggregations: names.mayAggregate(table),
      limit: permissionsOf(table, role)?.select?.limit ?? null,
      version: versionOf(table, names),
      captures: table.captures,
    }
  }

  /** Gives the columns that it joins only if the role may select all of them. */
  const describeRelationship = ({ relationship, table: remote }: Related, select: ReadonlySet<string>) => {
    const remotes = setOf(names.columns(remote))
    const isSeen = relationship.on.every(([own, other]) => select.has(own) && remotes.has(other))
    return {
      name: relationship.name,
      type: relationship.type,
      table: refOf(remote),
      columns: isSeen ? Object.fromEntries(relationship.on) : undefined,
    }
  }

  const describeComputed = ({ name, gives, arguments: all }: ComputedField) => ({
    name,
    ...('type' in gives ? { type: typeOf(gives.type) } : { table: refOf(gives.table), set: gives.many }),
    arguments: describeArguments(all),
  })

  const describeArguments = (all: readonly FunctionArgument[]) =>
    all.flatMap(({ name, type, optional, is }) =>
      is === 'client' && name !== undefined ? { name, type: typeOf(type), has_default: optional } : [],
    )

  const describeFunction = (called: FunctionData) => ({
    function: refOf(called),
    arguments: describeArguments(called.arguments),
    returns: { ...describeResult(called), set: called.many },
    volatile: called.mutation,
  })

  const describeResult = ({ table, result }: FunctionData) => {
    if (!result) return { table: refOf(table) }
    const columns = result.columns.map(({ name, type }: Column) => ({ name, type: typeOf(type) }))
    return result.values ? { type: columns[0]?.type } : { columns }
  }

  const tables = inOrder(names.tables()).map(describeTable)
  const functions = inOrder(names.functions()).map(describeFunction)
  const operators = Object.fromEntries([...types].map(([name, type]) => [name, operatorsFor(type, '$')]))
  return { tables, functions, operators }
}

const SUPPORTS = { insert: 'insertable', update: 'updatable', delete: 'deletable' } as const

/** Returns `int4`, `int4[]`, or `public.mood` for a type outside of `pg_catalog`. */
const typeName = ({ schema, name, element }: SqlType): string => {
  if (element) return `${typeName(element)}[]`
  return schema === 'pg_catalog' ? name : `${schema}.${name}`
}

const setOf = (columns: readonly Column[]): ReadonlySet<string> => new Set(columns.map(({ name }) => name))

const refOf = ({ schema, name }: TableRef): TableRef => ({ schema, name })

const inOrder = <T extends TableRef>(all: Iterable<T>): T[] => [...all].sort(compareTables)

/** Returns the roles that have permissions. */
function rolesIn({ tables, functions }: Catalog): readonly string[] {
  const ofTables = [...tables.values()].flatMap(({ permissions }) => permissions.map(({ role }) => roleName(role)))
  return [...new Set([...ofTables, ...functions.flatMap(({ roles }) => roles)])].sort()
}
