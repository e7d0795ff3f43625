import type { ClientBase } from 'pg'
import type { Logger } from 'pino'
import type { CatalogData } from '../catalog/catalog.js'
import { readAll, type Reading } from '../catalog/change.js'
import type { TemplateResolver } from '../catalog/draft.js'
import { type Watch, watchCatalog } from '../catalog/watch.js'
import { type Database, inTransaction, withClient } from '../db/database.js'
import { openSnapshot, type Snapshot } from './snapshot.js'

/** The snapshot that requests run against, and how it follows the database. */
export interface Snapshots {
  readonly current: Snapshot
  /** @see Data.resolveTemplates */
  resolveTemplates(resolve: TemplateResolver): void
  readonly resolve: TemplateResolver | undefined
  /** Reads what is committed, all at one instant. */
  readCommitted<T>(read: (client: ClientBase) => Promise<T>): Promise<T>
  /** Reads metadata and database again. */
  reload(): Promise<void>
  /** As `reload`, for a statement that failed as if the snapshot were stale. @returns whether it was */
  refresh(): Promise<boolean>
  /** Says that a change is about to be committed, which other instances may hear of before it is in place here. */
  expect(reading: Reading): void
  /** Puts an expected change in place, or forgets it when it was not committed. */
  settle(expected: Reading, committed?: boolean): Promise<void>
  /** Follows changes of other instances. */
  watch(): Promise<void>
  /** Why changes of other instances may be seen late; undefined when all is well. */
  readonly degraded: string | undefined
  close(): Promise<void>
}

/** How often a stale snapshot is looked for: a trigger that names what is not there looks like one at every call. */
const REFRESH_MS = 1000
/** How many snapshots that workers may have are kept, to send them differences alone. */
const RECENT = 5

export async function openSnapshots(database: Database, log: Logger): Promise<Snapshots> {
  let resolve: TemplateResolver | undefined
  let watch: Watch | undefined
  let refreshedAt = 0
  /** The versions of changes made here, from before their commit until they are in place. */
  const coming = new Set<string>()

  const readCommitted: Snapshots['readCommitted'] = (read) =>
    withClient(database.admin, (client) =>
      inTransaction(client, () => read(client), { mode: 'isolation level repeatable read read only' }),
    )
  const readAgain = (known?: Reading): Promise<Reading> => readCommitted((client) => readAll(client, resolve, known))

  let recent: readonly CatalogData[] = []
  let current!: Snapshot
  put(await readAgain())

  function put(reading: Reading): void {
    current = openSnapshot(reading.data, reading, recent)
    recent = [...recent, current.data].slice(-RECENT)
    for (const each of current.catalog.inconsistent) log.warn(each, 'metadata no longer matches the database')
  }

  /** Requests under way finish on the snapshot that they began with. */
  async function swap(reading: Reading): Promise<void> {
    if (!isOlder(reading, current)) return put(reading)
    // Most likely it was read before a change of ours. Unless the database went back: then it says the same again.
    const before = current
    const again = await readAgain(before.reading)
    if (!isOlder(again, before)) return swap(again)
    if (current !== before) return
    log.warn({ version: again.data.version, was: before.catalog.version }, 'the database has gone back in time')
    put(again)
  }

  const reload = async (): Promise<void> => swap(await readAgain(current.reading))
  const isKnown = (version: string): boolean => version === current.catalog.version || coming.has(version)

  return {
    get current() {
      return current
    },
    get resolve() {
      return resolve
    },
    get degraded() {
      return watch?.degraded
    },
    resolveTemplates: (fn) => void (resolve = fn),
    readCommitted,
    reload,
    async refresh() {
      if (Date.now() - refreshedAt <= REFRESH_MS) return false
      refreshedAt = Date.now()
      const fresh = await readAgain(current.reading)
      // When nothing has changed the statement would fail again, and what is compiled is worth keeping.
      if (sameCatalog(fresh.data, current.data)) return false
      log.info({ version: fresh.data.version }, 'the snapshot is stale')
      await swap(fresh)
      return true
    },
    expect: ({ data }) => void coming.add(data.version),
    async settle(expected, committed = true) {
      try {
        if (committed) await swap(expected)
      } finally {
        coming.delete(expected.data.version)
      }
    },
    async watch() {
      // The first snapshot was read before templates had a meaning.
      if (resolve && current.catalog.templates.length > 0) await reload()
      watch = await watchCatalog(database, isKnown, reload, log)
    },
    close: async () => watch?.close(),
  }
}

const isOlder = ({ data }: Reading, { catalog }: Snapshot): boolean => BigInt(data.version) < BigInt(catalog.version)

/** Whether a reading found the same as the one before it, whose tables it shares; each has an id of its own. */
function sameCatalog({ tables, ...one }: CatalogData, { tables: before, ...other }: CatalogData): boolean {
  const sameTables = tables.length === before.length && tables.every((table, i) => table === before[i])
  return sameTables && JSON.stringify({ ...one, id: '' }) === JSON.stringify({ ...other, id: '' })
}
