import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import pg, { type ClientBase } from 'pg'
import { inTransaction } from '../db/database.js'
import { placeIn } from '../db/sqlstates.js'
import type { Migration } from '../metadata/schema.js'

/** The migrations of one owner: `core`, or a plugin. */
export interface MigrationSet {
  readonly owner: string
  readonly migrations: readonly Migration[]
}

/** A pending migration. */
export interface Pending {
  readonly owner: string
  readonly id: string
}

/**
 * Migrates the schema `svc_catalog`. One process at a time does so, and others wait. Each migration and its record
 * share a transaction, so a killed process leaves a consistent state.
 * @param client separate connection that is not in a transaction; its settings are changed
 * @returns the migrations that ran
 * @throws Error when a migration fails, was changed after it ran, or a newer version made one that this one cannot run with
 */
export async function migrate(
  client: ClientBase,
  sets: readonly MigrationSet[],
  progress: (message: string) => void = () => {},
): Promise<readonly Pending[]> {
  await client.query('set statement_timeout = 0')
  await takeLock(client, progress)
  try {
    await createRecord(client)
    const pending = unapplied(sets, await readRecord(client))
    for (const migration of pending) {
      progress(`migrating ${migration.owner} ${migration.id}`)
      await run(client, migration)
    }
    return pending.map(({ owner, id }) => ({ owner, id }))
  } finally {
    // A lost connection has released the lock, and its own error is the one to report.
    await client.query('select pg_catalog.pg_advisory_unlock($1)', [LOCK]).catch(() => {})
  }
}

/**
 * Returns the migrations that `migrate` would run, without changes. Throws as `migrate` does when the database does not
 * match.
 */
export async function pendingMigrations(
  client: ClientBase,
  sets: readonly MigrationSet[],
): Promise<readonly Pending[]> {
  const applied = (await recordExists(client)) ? await readRecord(client) : []
  return unapplied(sets, applied).map(({ owner, id }) => ({ owner, id }))
}

/** Advisory lock key. It must stay constant and unique: "rowhouse" in ASCII. */
const LOCK = BigInt('0x' + Buffer.from('rowhouse').toString('hex')).toString()
const LOCK_WAIT_MS = 10 * 60_000
const LOCK_POLL_MS = 200

/** Polls the lock. Waiting for it in PostgreSQL could end in a lock or statement timeout. */
export async function takeLock(
  client: ClientBase,
  progress: (message: string) => void,
  lock: string = LOCK,
): Promise<void> {
  for (let waitedMs = 0; waitedMs < LOCK_WAIT_MS; waitedMs += LOCK_POLL_MS) {
    const { rows } = await client.query<{ taken: boolean }>('select pg_catalog.pg_try_advisory_lock($1) as taken', [
      lock,
    ])
    if (rows[0]?.taken === true) return
    if (waitedMs === 0) progress('waiting for another process that is migrating this database')
    await sleep(LOCK_POLL_MS)
  }
  throw new Error(`another process has been migrating this database for ${LOCK_WAIT_MS / 60_000} minutes`)
}

/**
 * Creates the table of migrations if missing. Checks first, because "if not exists" requires the privilege to create.
 */
async function createRecord(client: ClientBase): Promise<void> {
  if (await recordExists(client)) return
  await inTransaction(client, async () => {
    await client.query(`
      create schema if not exists svc_catalog;
      create table svc_catalog.svc_migration (
        owner text not null,
        id text not null,
        checksum text not null,
        applied_at timestamptz not null default pg_catalog.now(),
        breaks boolean not null default false,
        primary key (owner, id)
      )`)
  })
}

async function recordExists(client: ClientBase): Promise<boolean> {
  const { rows } = await client.query<{ found: boolean }>(
    `select pg_catalog.to_regclass('svc_catalog.svc_migration') is not null as found`,
  )
  return rows[0]?.found === true
}

interface Applied extends Pending {
  readonly checksum: string
  /** @see Migration.breaks */
  readonly breaks: boolean
}

async function readRecord(client: ClientBase): Promise<readonly Applied[]> {
  const { rows } = await client.query<Applied>('select owner, id, checksum, breaks from svc_catalog.svc_migration')
  return rows
}

interface Known extends Applied {
  readonly sql: string
}

function unapplied(sets: readonly MigrationSet[], applied: readonly Applied[]): readonly Known[] {
  const known = sets.flatMap(({ owner, migrations }) =>
    migrations.map(({ id, sql, breaks = false }): Known => ({ owner, id, sql, breaks, checksum: checksumOf(sql) })),
  )
  refuseDuplicates(known)
  refuseNewer(sets, applied)
  const done = new Map(applied.map((migration) => [keyOf(migration), migration.checksum]))
  for (const migration of known) {
    const checksum = done.get(keyOf(migration))
    if (checksum !== undefined && checksum !== migration.checksum)
      throw new Error(`migration "${migration.id}" of "${migration.owner}" was changed after it ran on this database`)
  }
  return known.filter((migration) => !done.has(keyOf(migration)))
}

function refuseDuplicates(known: readonly Known[]): void {
  const seen = new Set<string>()
  for (const migration of known) {
    if (seen.has(keyOf(migration)))
      throw new Error(`there are two migrations "${migration.id}" of "${migration.owner}"`)
    seen.add(keyOf(migration))
  }
}

/**
 * Refuses migrations of newer versions that break this one. Accepts others, so that a server can start beside newer ones,
 * and after they were rolled back. Ignores plugins that are not loaded.
 */
function refuseNewer(sets: readonly MigrationSet[], applied: readonly Applied[]): void {
  for (const { owner, migrations } of sets) {
    const ids = migrations.map(({ id }) => id).toSorted()
    const newest = ids.at(-1) ?? ''
    const unknown = applied.find((each) => each.owner === owner && each.breaks && each.id > newest)
    if (unknown === undefined) continue
    const of = owner === 'core' ? '' : ` of the plugin "${owner}"`
    throw new Error(`this database was migrated by a newer version${of}, which has the migration "${unknown.id}"`)
  }
}

async function run(client: ClientBase, migration: Known): Promise<void> {
  const { owner, id, sql } = migration
  try {
    await inTransaction(client, async () => {
      await client.query(sql)
      await record(client, migration)
    })
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    const { line } = (error instanceof pg.DatabaseError && placeIn(sql, error)) || {}
    const where = line === undefined ? '' : ` (line ${line} of its SQL)`
    throw new Error(`migration "${id}" of "${owner}" failed: ${reason}${where}`, { cause: error })
  }
}

async function record(client: ClientBase, { owner, id, checksum, breaks }: Applied): Promise<void> {
  const text = 'insert into svc_catalog.svc_migration (owner, id, checksum, breaks) values ($1, $2, $3, $4)'
  await client.query(text, [owner, id, checksum, breaks])
}

const keyOf = ({ owner, id }: Pending) => JSON.stringify([owner, id])
const checksumOf = (sql: string) => createHash('sha256').update(sql).digest('hex')
