import type { CommandContext } from 'rowhouse'
import { CheckResults } from './results.js'
import { type Finding, newReport, type Report } from './report.js'
import { errorText, type ListedStore, listStore, progressTo } from './stores.js'
import { type Damage, verify, type Written } from './verify.js'

/** What a check needs of its surroundings: of the command line, or of a server. */
type CheckContext = Pick<CommandContext, 'query' | 'provider' | 'providerNames' | 'tell' | 'signal'>

interface Options {
  readonly deep: boolean
  readonly fix: boolean
  /** The collector's interval. */
  readonly everySeconds: number
}

/**
 * Compares database rows with stored objects while servers keep running. Lists the stores before it reads rows, and a
 * row is written before its object. An object without a row is therefore an orphan, or the collector has deleted it
 * since. A finding about a row is checked against the store again, because a blob never changes, and its object exists
 * as long as the blob is live.
 */
export async function compare(context: CheckContext, options: Options): Promise<Report> {
  const { deep, fix, everySeconds } = options
  const progress = progressTo(context.tell)
  const stores = new Map<string, ListedStore>()
  const list = async (provider: string): Promise<void> => {
    if (!stores.has(provider)) stores.set(provider, await listStore(context, provider, deep, progress))
  }
  for (const provider of context.providerNames('storage')) await list(provider)
  const report = newReport(deep, fix)
  const total = deep ? await countFiles(context) : 0
  const onBytes = readingProgress(report, total, progress)
  const run: Run = { context, options, report, stores, results: new CheckResults(context), onBytes }

  for (let after = NIL; ;) {
    const rows = await context.query<BlobRow>(PAGE, [after, PAGE_ROWS, everySeconds])
    for (const { provider } of rows) await list(provider)
    await inParallel(rows, (row) => checkBlob(run, row))
    if (rows.length < PAGE_ROWS) break
    after = (rows.at(-1) as BlobRow).blob
  }
  for (const [provider, store] of stores) {
    await checkOrphans(run, provider, store).catch((error: unknown) => {
      context.signal.throwIfAborted()
      store.report.problem = `objects without a row could not be checked: ${errorText(error)}`
    })
    report.stores.push(store.report)
  }
  report.findings.sort((a, b) => (a.kind + a.blob < b.kind + b.blob ? -1 : 1))
  return report
}

interface Run {
  readonly context: CheckContext
  readonly options: Options
  readonly report: Report
  readonly stores: ReadonlyMap<string, ListedStore>
  readonly results: CheckResults
  readonly onBytes: (bytes: number) => void
}

interface BlobRow {
  readonly blob: string
  readonly provider: string
  readonly state: 'writing' | 'live' | 'dead'
  readonly size: string | null
  readonly sha256: Buffer | null
  readonly damaged: Damage | null
  readonly abandoned: boolean
  readonly file: string | null
  /** The id of a pending upload. */
  readonly pending: string | null
  readonly fileSize: string | null
  readonly etag: string | null
}

const NIL = '00000000-0000-0000-0000-000000000000'
const PAGE_ROWS = 1000
const PARALLEL_CHECKS = 4
const PIECE_BYTES = 8 * 2 ** 20

async function checkBlob(run: Run, row: BlobRow): Promise<void> {
  const { report, stores } = run
  const { blob, provider, state, file } = row
  const listed = stores.get(provider)?.unmatched
  const listedSize = listed?.get(blob)
  report.blobs += 1
  // An object is not an orphan if any row has its key, even a row of another store.
  for (const [name, store] of stores) {
    if (store.unmatched?.delete(blob)) store[name === provider ? 'matched' : 'misplaced'] += 1
  }
  const unfinished = row.pending === null ? 'its upload did not finish' : 'nobody attached it'
  if (row.abandoned) return release(run, row, ABANDON, 'abandoned', unfinished)
  const suspicious = row.damaged !== null || (listed && listedSize !== Number(row.size))
  if (row.pending !== null && state === 'writing') return checkBytes(run, row, suspicious)
  if (file === null) return state === 'live' ? release(run, row, DISOWN, 'unowned', 'no file uses it') : undefined
  report.files += 1
  const wrong = contradiction(row)
  if (wrong !== undefined) add(run, row, 'record', wrong)
  if (state === 'live') await checkBytes(run, row, suspicious)
}

async function checkBytes(run: Run, row: BlobRow, suspicious: boolean | undefined): Promise<void> {
  const { size, sha256 } = row
  if (size === null || sha256 === null) return
  if (run.options.deep || suspicious) await verifyBlob(run, row, { ...row, size: Number(size), sha256 })
}

/** Returns how the row of a file contradicts the row of its blob. */
function contradiction({ state, size, sha256, fileSize, etag }: BlobRow): string | undefined {
  if (state !== 'live') return `uses a blob that is ${state}: its bytes will be deleted soon`
  if (fileSize !== size) return `has ${fileSize} bytes in its record and ${size} in its blob`
  if (etag !== `"${sha256?.toString('hex')}"`) return 'has an etag that is not the SHA-256 of its blob'
  return undefined
}

const DETAIL: Readonly<Record<Damage, string>> = {
  missing: 'has no bytes',
  size: 'has a different size than was written',
  sha256: 'has different bytes than were written',
}

async function verifyBlob(run: Run, row: BlobRow, written: Written): Promise<void> {
  const { context, report, stores, results, onBytes } = run
  const store = stores.get(row.provider)?.store
  if (!store) return
  let damage: Damage | undefined
  try {
    damage = await verify(store, written, { pieceBytes: PIECE_BYTES, signal: context.signal, onPiece: onBytes })
  } catch (error) {
    context.signal.throwIfAborted()
    return add(run, row, 'unreadable', `cannot be read: ${errorText(error)}`)
  }
  report.read.files += 1
  const current = await results.record(row.blob, damage)
  if (!current) return
  const what = current.file === null && row.pending !== null ? `pending upload ${JSON.stringify(row.pending)} ` : ''
  if (damage) add(run, { ...row, file: current.file }, damage, what + DETAIL[damage])
  else if (row.damaged) report.repaired += 1
}

/** Reports an unused blob. With `--fix`, leaves it to the collector, unless it is in use now. */
async function release(run: Run, row: BlobRow, sql: string, kind: 'abandoned' | 'unowned', detail: string) {
  const { context, options } = run
  if (!options.fix) return add(run, row, kind, detail)
  const changed = await context.query(sql, [row.blob])
  if (changed.length > 0) add(run, row, kind, detail, true)
}

/** Reports objects without a row. A store with more orphans than matched objects may belong to another database. */
async function checkOrphans(run: Run, provider: string, listed: ListedStore): Promise<void> {
  const { context, options, report } = run
  const { store, unmatched, matched, misplaced } = listed
  const { notes, objects } = listed.report
  if (!store || !unmatched) return
  const orphans: string[] = []
  await inParallel([...unmatched.keys()], async (key) => {
    if (await exists(store, key, context.signal)) orphans.push(key)
  })
  if (misplaced > 0) notes.push(`ignored ${misplaced} objects that belong to another store according to their rows`)
  const isKnown = orphans.length <= matched
  if (!isKnown) notes.push('most objects have no row in this database: is it the right one? --fix deletes none of them')
  const missing = report.findings.some((finding) => finding.provider === provider && finding.kind === 'missing')
  if (missing && objects === 0) notes.push('the store is empty: is the location correct, and mounted?')
  const fixed = isKnown && options.fix
  for (const key of orphans) {
    if (fixed) await store.delete(key)
    add(run, { blob: key, provider, file: null }, 'orphan', `${unmatched.get(key)} bytes that no file uses`, fixed)
  }
}

async function exists(store: NonNullable<ListedStore['store']>, key: string, signal: AbortSignal): Promise<boolean> {
  try {
    const bytes = await store.get(key, undefined, signal)
    bytes.on('error', () => {}).destroy()
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}

function add(
  { report, stores }: Run,
  { blob, provider, file }: Pick<BlobRow, 'blob' | 'provider' | 'file'>,
  kind: Finding['kind'],
  detail: string,
  fixed = false,
): void {
  const path = stores.get(provider)?.store?.path?.(blob)
  report.findings.push({ kind, provider, blob, file: file ?? undefined, path, detail, fixed })
}

function readingProgress({ read }: Report, total: number, progress: (text: () => string) => void) {
  const since = performance.now()
  return (bytes: number): void => {
    read.bytes += bytes
    progress(() => {
      const speed = read.bytes / 1000 / (performance.now() - since)
      return `read ${read.files}${total === 0 ? '' : ` of ${total}`} files, ${speed.toFixed(1)} MB/s`
    })
  }
}

async function inParallel<T>(items: readonly T[], fn: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values()
  const work = async () => {
    for (const item of queue) await fn(item)
  }
  await Promise.all(Array.from({ length: PARALLEL_CHECKS }, work))
}

async function countFiles({ query }: CheckContext): Promise<number> {
  const [row] = await query<{ count: number }>('select pg_catalog.count(*)::int as count from svc_catalog.svc_file')
  return row?.count ?? 0
}

/** In the order of the primary key. One statement reads a blob and its file, so that they are consistent. */
const PAGE = `
select blob_id as blob, provider, state, size::text as size, sha256, damaged,
  state = 'writing' and leased_until < pg_catalog.now() - pg_catalog.make_interval(secs => $3 + 60) as abandoned,
  svc_file.file_id as file, file_size::text as "fileSize", etag, svc_pending_file.file_id as pending
from svc_catalog.svc_blob left join svc_catalog.svc_file using (blob_id)
  left join svc_catalog.svc_pending_file using (blob_id)
where blob_id > $1 order by blob_id limit $2`

const ABANDON = `
update svc_catalog.svc_blob set state = 'dead', dead_at = 'epoch'
where blob_id = $1 and state = 'writing' and leased_until < pg_catalog.now() returning 1`

const DISOWN = `
update svc_catalog.svc_blob as blob set state = 'dead', dead_at = pg_catalog.now()
where blob_id = $1 and state = 'live'
  and not exists (select 1 from svc_catalog.svc_file as file where file.blob_id = blob.blob_id) returning 1`
