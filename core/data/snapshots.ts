import type { ClientBase } from 'pg'
import type { Logger } from 'pino'
import { type Catalog, type CatalogData, openCatalog, sameCatalog } from '../catalog/catalog.js'
import { announce, readAll, type Reading } from '../metadata/change.js'
import type { CatalogOptions } from '../metadata/draft.js'
import { type Watch, watchCatalog } from '../metadata/watch.js'
import { bytesOf, type Compiled } from '../compile/compile.js'
import { encodeCatalog } from '../compile/encoded.js'
import type { Sendable } from '../compile/pool.js'
import { type Database, inTransaction, withClient } from '../db/database.js'
import { alone } from '../processes/siblings.js'
import { CompileCache } from './shared-cache.js'

/** Maintains the current snapshot and follows changes of the database. */
export interface Snapshots {
  readonly current: Snapshot
  /** @see Data.describeCatalog */
  describeCatalog(options: CatalogOptions): void
  readonly options: CatalogOptions
  /** Reads committed data in one consistent snapshot. */
  readCommitted<T>(read: (client: ClientBase) => Promise<T>): Promise<T>
  /** @see Data.reload */
  reload(): Promise<void>
  /**
   * Reloads after a statement failed as if the snapshot were stale.
   * @returns whether it was stale
   */
  refresh(): Promise<boolean>
  /** Announces a change that is about to commit, because other instances may hear of it before it is applied here. */
  expect(reading: Reading): void
  /** Applies an expected change, or forgets it when it was not committed. */
  settle(expected: Reading, committed?: boolean): Promise<void>
  /** Follows changes of other instances. */
  watch(): Promise<void>
  /** Explains why changes of other instances may arrive late; undefined normally. */
  readonly degraded: string | undefined
  /** Whether it listens for changes of other instances. Otherwise it only polls. */
  readonly listening: boolean
  close(): Promise<void>
}

/**
 * Minimum time between checks for a stale snapshot. A trigger that uses a missing name looks like one in every call.
 */
const REFRESH_MS = 1000
/** Number of recent snapshots to keep, so that workers can be sent differences only. */
const RECENT = 5

type Mutable<T, K extends keyof T> = Omit<T, K> & { -readonly [P in K]: T[P] }

/** @param changed called after the current snapshot was replaced */
export async function openSnapshots(
  database: Database,
  log: Logger,
  siblings = alone(),
  changed: () => void = () => {},
): Promise<Snapshots> {
  let options: CatalogOptions = {}
  let watch: Watch | undefined
  let refreshedAt = 0
  /** Versions of changes made here, from before their commit until they are applied. */
  const announced = new Set<string>()

  const readCommitted: Snapshots['readCommitted'] = (read) =>
    withClient(database.admin, (client) =>
      inTransaction(client, () => read(client), { mode: 'isolation level repeatable read read only' }),
    )
  const readNow = (known?: Reading): Promise<Reading> => readCommitted((client) => readAll(client, options, known))

  let recent: readonly CatalogData[] = []

  function setCurrent(reading: Reading): void {
    opened.current = openSnapshot(reading.data, reading, recent)
    recent = [...recent, opened.current.data].slice(-RECENT)
    changed()
    for (const each of opened.current.catalog.inconsistent) log.warn(each, 'metadata no longer matches the database')
  }

  /** Replaces the current snapshot. Requests in progress finish on their own. */
  async function swap(reading: Reading): Promise<void> {
    if (!isOlder(reading, opened.current)) return setCurrent(reading)
    // The reading probably predates a change of ours. If the database was restored, a second reading confirms it.
    const before = opened.current
    const confirmed = await readNow(before.reading)
    if (!isOlder(confirmed, before)) return swap(confirmed)
    if (opened.current !== before) return
    log.warn(
      { version: confirmed.data.version, was: before.catalog.version },
      'the database was restored to an earlier state',
    )
    setCurrent(confirmed)
  }

  const reload = async (): Promise<void> => swap(await readNow(opened.current.reading))
  siblings.answer('know metadata', async (version?: string) => {
    if (version === undefined || BigInt(opened.current.catalog.version) < BigInt(version)) await reload()
  })
  /** Waits until all processes have this version, because the caller's next request may reach any of them. */
  async function tellSiblings(version?: string): Promise<void> {
    if (siblings.count > 1) await siblings.ask('know metadata', version).catch(() => [])
  }
  const isKnown = (version: string): boolean => version === opened.current.catalog.version || announced.has(version)

  const opened: Mutable<Snapshots, 'current'> = {
    // Set below.
    current: undefined as unknown as Snapshot,
    get options() {
      return options
    },
    get degraded() {
      return watch?.degraded
    },
    get listening() {
      return watch?.listening === true
    },
    describeCatalog(more) {
      const captures = new Map([...(options.captures ?? []), ...(more.captures ?? [])])
      options = { ...options, ...more, captures }
    },
    readCommitted,
    async reload() {
      const version = await withClient(database.admin, announceIfWritable)
      await reload()
      await tellSiblings(version)
    },
    async refresh() {
      if (Date.now() - refreshedAt <= REFRESH_MS) return false
      refreshedAt = Date.now()
      const fresh = await readNow(opened.current.reading)
      // Without a change the statement would fail again, and the compiled plans are worth keeping.
      if (sameCatalog(fresh.data, opened.current.data)) return false
      log.info({ version: fresh.data.version }, 'the snapshot is stale')
      await swap(fresh)
      return true
    },
    expect: ({ data }) => void announced.add(data.version),
    async settle(expected, committed = true) {
      try {
        if (!committed) return
        if (expected.data === opened.current.data)
          return void (opened.current = { ...opened.current, reading: expected })
        await swap(expected)
        await tellSiblings(expected.data.version)
      } finally {
        announced.delete(expected.data.version)
      }
    },
    async watch() {
      // The first snapshot was read before plugins described it.
      const { templates, inferFunctionPermissions, naming } = options
      const hasTemplates = templates && opened.current.catalog.templates.length > 0
      const { metadata } = opened.current.reading as Reading
      const hasCaptures = [...metadata.tables.values()].some(({ captures }) => Object.keys(captures).length > 0)
      if (hasTemplates || hasCaptures || inferFunctionPermissions || naming === 'graphql-default') await reload()
      watch = await watchCatalog(database, isKnown, reload, log)
    },
    close: async () => watch?.close(),
  }
  setCurrent(await readNow())
  return opened
}

/** Announces a new version, unless the database is read-only, as a standby is. */
async function announceIfWritable(client: ClientBase): Promise<string | undefined> {
  const { rows } = await client.query<{ writable: boolean }>(
    `select pg_catalog.current_setting('transaction_read_only') = 'off' as writable`,
  )
  return rows[0]?.writable ? announce(client) : undefined
}

const isOlder = ({ data }: Reading, { catalog }: Snapshot): boolean => BigInt(data.version) < BigInt(catalog.version)

/** A catalog and the plans compiled against it. */
export interface Snapshot {
  readonly data: CatalogData
  /** The committed reading it was made from. */
  readonly reading: Reading | undefined
  readonly catalog: Catalog
  readonly cache: CompileCache<Compiled>
  /** Results that front ends prepared. */
  readonly prepared: CompileCache<unknown>
  /** Data for the workers. A snapshot inside a transaction is never sent. */
  readonly sendable: Sendable | undefined
}

/**
 * @param reading reading of a committed snapshot
 * @param earlier previous snapshots that workers may hold
 */
export function openSnapshot(data: CatalogData, reading?: Reading, earlier: readonly CatalogData[] = []): Snapshot {
  return {
    data,
    reading,
    catalog: openCatalog(data),
    cache: new CompileCache(bytesOf),
    prepared: new CompileCache((value) => 2 * JSON.stringify(value).length),
    sendable: reading && sendable(data, earlier),
  }
}

function sendable(data: CatalogData, earlier: readonly CatalogData[]): Sendable {
  let whole: Uint8Array<ArrayBuffer> | undefined
  return {
    id: data.id,
    encoded(held) {
      const base = earlier.findLast(({ id }) => held.includes(id))
      if (base) return encodeCatalog(data, base)
      if (!whole) {
        whole = encodeCatalog(data)
        setTimeout(() => (whole = undefined), KEPT_MS).unref()
      }
      // Copies the bytes, because the copy is transferred. `slice` of a Buffer would share memory.
      return new Uint8Array(whole)
    },
  }
}

/** Time to keep the data, in milliseconds: workers start one after another, also after a restart. */
const KEPT_MS = 10_000
