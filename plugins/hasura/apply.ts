import pg from 'pg'
import { type CommandContext, OperationRefused } from 'rowhouse'
import { isObject, type Json, type JsonObject, NO_LIMITS, parseJson, stringifyJson, type TableRef } from 'rowhouse/plan'
import { labelOf, listOf, type Metadata, objects, remoteOf, textOf } from './metadata.js'
import type { Report } from './report.js'

/**
 * Replaces the metadata of a database. Removes what the server refuses, so that one mistake does not hide the others,
 * and reports it. What is applied in the end is one transaction.
 * @throws Error when the server refuses something else
 */
export async function applyMetadata(ask: Ask, metadata: Metadata, report: Report): Promise<void> {
  await removeMissingTables(ask, metadata, report)
  for (;;) {
    try {
      await ask('replace_metadata', stringifyJson(metadata as unknown as Json))
      break
    } catch (error) {
      if (!(error instanceof OperationRefused) || !removeAt(metadata, error, report)) throw error
    }
  }
  await noteBroken(ask, manualJoins(metadata), report)
}

/** Returns the number of objects in the metadata of a database. */
export async function countObjects(ask: Ask): Promise<number> {
  const now = parseJson(await ask('export_metadata', '{}'), NO_LIMITS) as JsonObject
  return Object.values(now).reduce((sum: number, list) => sum + listOf(list).length, 0)
}

const TABLES = `select pg_catalog.jsonb_build_array(n.nspname, c.relname) from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'v', 'm', 'f', 'p')`

/** Removes the tables that do not exist together, because a database that lacks one often lacks many. */
async function removeMissingTables(ask: Ask, metadata: Metadata, report: Report): Promise<void> {
  const answer = await ask(
    'run_sql',
    JSON.stringify({ sql: `select pg_catalog.jsonb_agg(x) from (${TABLES}) t (x)`, read_only: true }),
  )
  const { result } = JSON.parse(answer) as { result: [unknown, [string]] }
  const existing = new Set((JSON.parse(result[1][0]) as [string, string][]).map((name) => name.join('\0')))
  const isMissing = (name: Json | undefined) => !existing.has(keyOf(name))
  for (const { table } of metadata.tables.filter((each) => isMissing(each['table']))) {
    report.refused.push({ kind: 'table', name: labelOf(table), reason: 'it does not exist in the database' })
  }
  replaceList(metadata.tables, (each) => !isMissing(each['table']))
  for (const table of metadata.tables) {
    for (const key of ['object_relationships', 'array_relationships']) {
      const rows = table[key] as JsonObject[]
      for (const { name } of rows.filter((row) => isMissing(remoteOf(row) ?? table['table']))) {
        const label = `${labelOf(table['table'])}.${textOf(name)}`
        report.refused.push({
          kind: 'relationship',
          name: label,
          reason: 'the other table does not exist in the database',
        })
      }
      replaceList(rows, (row) => !isMissing(remoteOf(row) ?? table['table']))
    }
  }
}

const refOf = (name: Json | undefined): TableRef =>
  isObject(name)
    ? { schema: textOf(name['schema']), name: textOf(name['name']) }
    : { schema: 'public', name: textOf(name) }
const keyOf = (name: Json | undefined): string => Object.values(refOf(name)).join('\0')

function replaceList<T>(list: T[], keep: (each: T) => boolean): void {
  list.splice(0, list.length, ...list.filter(keep))
}

type Ask = CommandContext['ask']
const { escapeIdentifier } = pg

/** The join of a relationship, to see whether PostgreSQL can compare its columns. */
interface Join {
  readonly name: string
  readonly query: string
}

function manualJoins({ tables }: Metadata): readonly Join[] {
  return tables.flatMap(({ table, object_relationships: one, array_relationships: many }) =>
    [...objects(one), ...objects(many)].flatMap(({ name, using }) => {
      const { manual_configuration: manual } = using as JsonObject
      if (!isObject(manual)) return []
      const on = Object.entries(manual['column_mapping'] as JsonObject).map(
        ([local, remote]) => `a.${escapeIdentifier(local)} = b.${escapeIdentifier(textOf(remote))}`,
      )
      const [from, to] = [refOf(table), refOf(manual['remote_table'])].map(
        ({ schema, name }) => `${escapeIdentifier(schema)}.${escapeIdentifier(name)}`,
      )
      const query = `(select 1 from ${from} a join ${to} b on ${on.join(' and ')} limit 0)`
      return [{ name: `${labelOf(table)}.${textOf(name)}`, query }]
    }),
  )
}

/** Notes joins that no query can use, neither here nor in Hasura. Halves them until it has found each. */
async function noteBroken(ask: Ask, joins: readonly Join[], report: Report): Promise<void> {
  const [first] = joins
  if (!first) return
  try {
    const all = joins.map(({ query }) => query)
    await ask('run_sql', JSON.stringify({ sql: all.join(' union all '), read_only: true }))
  } catch (error) {
    if (!(error instanceof OperationRefused)) throw error
    if (joins.length === 1)
      return report.note('relationship', first.name, `no query can use it, as in Hasura: ${error.reason}`)
    const half = joins.length >> 1
    await noteBroken(ask, joins.slice(0, half), report)
    await noteBroken(ask, joins.slice(half), report)
  }
}

const PLACE = /^\$\.args\.(tables|functions|query_templates|inherited_roles)\[(\d+)\](?:\.(\w+)(?:\[(\d+)\])?(.*))?$/
/** Names in a permission. Without one of them, a role may do less. */
const NAMED = /^\.permission\.(columns|computed_fields)\[(\d+)\]$/
const KINDS: Readonly<Record<string, string>> = {
  object_relationships: 'relationship',
  array_relationships: 'relationship',
  computed_fields: 'computed field',
  permissions: 'function permission',
  configuration: 'configuration',
}

/** Removes the smallest part at the path of an error. @returns whether there is one */
function removeAt(metadata: Metadata, { reason, path }: OperationRefused, report: Report): boolean {
  const [, list, index, key = '', place, below = ''] = PLACE.exec(path) ?? []
  if (list === undefined) return false
  const all = metadata[list as keyof Metadata]
  const entry = all[Number(index)]
  if (!entry) return false
  const owner = labelOf(entry['table'] ?? entry['function'] ?? entry['name'] ?? entry['role'])
  const part = place === undefined ? undefined : objects(entry[key])[Number(place)]
  if (part) {
    const [, names, position] = NAMED.exec(below) ?? []
    const named = names === undefined ? undefined : (part['permission'] as JsonObject)[names]
    const kind = KINDS[key] ?? key.replace(/_permissions$/, ' permission')
    const name = `${owner}.${textOf(part['name'] ?? part['role'])}`
    report.refused.push({ kind, name, reason: Array.isArray(named) ? `${reason}; moved without it` : reason })
    if (Array.isArray(named)) named.splice(Number(position), 1)
    else (entry[key] as Json[]).splice(Number(place), 1)
  } else if ((key === 'configuration' || key === 'captures') && list === 'tables') {
    report.refused.push({ kind: key === 'captures' ? 'event trigger' : key, name: owner, reason })
    delete entry[key]
  } else {
    report.refused.push({ kind: list.replace(/s$/, '').replace('_', ' '), name: owner, reason })
    all.splice(Number(index), 1)
  }
  return true
}
