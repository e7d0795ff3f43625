import { createHash } from 'node:crypto'
import type { ClientBase } from 'pg'
import { STYLES } from '../db/pooler.js'
import { unexpectedPayload } from '../errors.js'
import type { Json } from '../json/parse.js'
import { ident, join, literal, type Sql, sql } from '../sql/text.js'
import { tableName } from '../catalog/catalog.js'
import type { DatabaseTable } from './introspect.js'
import type { Definitions } from './metadata.js'
import type { PrintCondition } from './row-condition.js'
import { CAPTURE_PREFIX as PREFIX } from './schema.js'

/**
 * What a plugin records of each change of a table, from any writer: change data capture by triggers. A table has one trigger for
 * each kind of statement, which does what all plugins ask for.
 */
export interface Capture {
  /** Whether it reads who writes, as `service.role` and others. */
  readonly asksWriter?: boolean
  /** Whether it stores values. They are then formatted in the same way for every session. */
  readonly keepsValues?: boolean
  /** @throws ServiceError 400 with a path below `$`, for a definition that does not fit the table */
  check(definition: Json, table: DatabaseTable, condition: PrintCondition): void
  /**
   * Returns statements of PL/pgSQL that run once after each statement on the table, as the owner of the metadata. They read the
   * rows as they were in `rows_old` (update, delete), and as they are in `rows_new` (insert, update).
   */
  statements(
    definition: Json,
    table: DatabaseTable,
    condition: PrintCondition,
  ): Readonly<Partial<Record<CaptureEvent, Sql>>>
}
export type CaptureEvent = 'insert' | 'update' | 'delete' | 'truncate'
/** By the name of the plugin. */
export type Captures = ReadonlyMap<string, Capture>

/** A trigger, and its function of the same name. */
export interface CaptureTrigger {
  /** Says the table that it is for, and what it does, so that no two tables and no two versions share it. */
  readonly name: string
  readonly event: CaptureEvent
  readonly asksWriter: boolean
  readonly keepsValues: boolean
  readonly body: Sql
}

const EVENTS: readonly CaptureEvent[] = ['insert', 'update', 'delete', 'truncate']
/** Transition tables by event. */
const REFERENCING: Readonly<Record<CaptureEvent, Sql>> = {
  insert: sql` referencing new table as rows_new`,
  update: sql` referencing old table as rows_old new table as rows_new`,
  delete: sql` referencing old table as rows_old`,
  truncate: sql``,
}

/** @throws ServiceError 400 for a table whose changes cannot be captured, or a definition that does not fit it */
export function checkCapture(
  capture: Capture,
  definition: Json,
  table: DatabaseTable,
  condition: PrintCondition,
): void {
  if (table.kind !== 'table' && table.kind !== 'partitioned') {
    throw unexpectedPayload(`"${tableName(table)}" is a ${table.kind}, and only changes of tables can be noted`, '$')
  }
  capture.check(definition, table, condition)
}

/** Returns the triggers of a table. */
export function triggersOf(
  table: DatabaseTable,
  wanted: Definitions,
  captures: Captures,
  condition: PrintCondition,
): readonly CaptureTrigger[] {
  const asked = Object.entries(wanted).flatMap(([name, definition]) => {
    const capture = captures.get(name)
    return capture ? [{ capture, statements: capture.statements(definition, table, condition) }] : []
  })
  return EVENTS.flatMap((event) => {
    const bodies = asked.flatMap(({ statements }) => statements[event] ?? [])
    if (bodies.length === 0) return []
    const body = join(bodies, sql`\n`)
    const some = (key: 'asksWriter' | 'keepsValues') =>
      asked.some(({ capture, statements }) => capture[key] === true && statements[event])
    const [asksWriter, keepsValues] = [some('asksWriter'), some('keepsValues')]
    const digest = createHash('sha256').update(`${asksWriter} ${keepsValues} ${body}`).digest('hex').slice(0, 16)
    return [{ name: `${PREFIX}${table.oid}_${digest}_${event}`, event, asksWriter, keepsValues, body }]
  })
}

/** A trigger that is there, and the table that it is on. */
interface Present {
  readonly relation: string
  readonly name: string
}

/**
 * Makes the triggers of captured tables, of their partitions and of the tables that inherit from them, and drops all others.
 * The transaction must hold the lock of the metadata.
 * @param wanted by the oid of the table
 * @param kept oids of tables whose triggers stay as they are
 */
export async function syncTriggers(
  client: ClientBase,
  wanted: ReadonlyMap<number, readonly CaptureTrigger[]>,
  kept: ReadonlySet<number>,
): Promise<void> {
  const isKept = (name: string) => kept.has(Number(name.slice(PREFIX.length).split('_')[0]))
  const { rows: present } = await client.query<Present>(
    `select t.tgrelid::pg_catalog.regclass::text as relation, t.tgname as name
     from pg_catalog.pg_trigger t join pg_catalog.pg_proc p on p.oid = t.tgfoid
     where p.pronamespace = 'svc_catalog'::pg_catalog.regnamespace and pg_catalog.starts_with(p.proname, '${PREFIX}')`,
  )
  const { rows: places } = await client.query<{ readonly root: number; readonly relation: string }>(
    `with recursive place(root, oid) as (
       select o, o from pg_catalog.unnest($1::oid[]) o
       union select place.root, i.inhrelid from place join pg_catalog.pg_inherits i on i.inhparent = place.oid
     ) select root::int8::float8 as root, oid::pg_catalog.regclass::text as relation
     from place join pg_catalog.pg_class c using (oid) where c.relkind in ('r', 'p')`,
    [[...wanted.keys()]],
  )
  const statements: Sql[] = []
  const isThere = new Set(present.map(({ relation, name }) => `${relation} ${name}`))
  const isWanted = new Set<string>()
  for (const [root, triggers] of wanted) {
    for (const trigger of triggers) {
      statements.push(functionText(trigger))
      for (const { relation } of places.filter((place) => place.root === root)) {
        const key = `${relation} ${trigger.name}`
        isWanted.add(key)
        if (!isThere.has(key)) statements.push(triggerText(trigger, relation as Sql))
        statements.push(sql`alter table ${relation as Sql} enable always trigger ${ident(trigger.name)}`)
      }
    }
  }
  for (const { relation, name } of present) {
    if (!isWanted.has(`${relation} ${name}`) && !isKept(name)) {
      statements.push(sql`drop trigger ${ident(name)} on ${relation as Sql}`)
    }
  }
  if (statements.length > 0) await client.query(join(statements, sql`;\n`))
  // Those of tables that are gone, too.
  const { rows: unused } = await client.query<{ readonly called: string }>(
    `select p.oid::pg_catalog.regprocedure::text as called from pg_catalog.pg_proc p
     where p.pronamespace = 'svc_catalog'::pg_catalog.regnamespace and pg_catalog.starts_with(p.proname, '${PREFIX}')
     and not exists (select from pg_catalog.pg_trigger t where t.tgfoid = p.oid)`,
  )
  for (const { called } of unused) await client.query(`drop function ${called}`)
}

/** Settings that format values in the same way for every session. */
const STYLED = join(
  Object.entries({ ...STYLES, bytea_output: 'hex', extra_float_digits: '1' }).map(
    ([name, value]) => sql`set ${name as Sql} = ${literal(value)}`,
  ),
  sql` `,
)

/** It runs with the rights of its owner, because a writer needs no rights on `svc_catalog`. */
const functionText = ({ name, keepsValues, body }: CaptureTrigger): Sql =>
  sql`create or replace function svc_catalog.${ident(name)}() returns trigger language plpgsql security definer
  set search_path = pg_catalog, pg_temp ${keepsValues ? STYLED : sql``} as ${literal(`begin\n${body}\nreturn null;\nend`)}`

/** An argument says to the reading of the catalog that the trigger asks who writes. */
const triggerText = ({ name, event, asksWriter }: CaptureTrigger, relation: Sql): Sql =>
  sql`create trigger ${ident(name)} after ${event as Sql} on ${relation}${REFERENCING[event]}
  for each statement execute function svc_catalog.${ident(name)}(${asksWriter ? literal('writer') : sql``})`
