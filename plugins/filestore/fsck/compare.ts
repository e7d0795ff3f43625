import type { CommandContext } from 'rowhouse'
import { Verified } from '../verified.js'
import { type Damage, verify, type Written } from '../verify.js'
import { Progress } from './progress.js'
import type { Finding, Report } from './report.js'
import { type Listed, listStore, listStores } from './stores.js'

export interface Wanted {
  readonly deep: boolean
  readonly fix: boolean
  /** Between two rounds of the collector. */
  readonly everySeconds: number
}

/**
 * Compares rows with bytes while servers go on. The stores are listed before the rows are read, and a row is there before
 * its bytes: bytes without a row are those of a blob that was forgotten meanwhile, and gone, or they are orphans. What
 * looks wrong with a row is looked at again: a blob never changes, and as long as it is live its bytes are there.
 */
export async function compare(context: CommandContext, wanted: Wanted): Promise<Report> {
  const { deep, fix } = wanted
  const progress = new Progress(context.tell)
  const stores = await listStores(context, deep, progress)
  const report: Report = {
    deep,
    fix,
    files: 0,
    blobs: 0,
    stores: [],
    read: { files: 0, bytes: 0 },
    repaired: 0,
    findings: [],
  }
  const work: Work = {
    context,
    wanted,
    progress,
    report,
    stores,
    verified: new Verified(context),
    known: new Map(),
    copies: new Map(),
    total: 0,
    since: performance.now(),
  }
  if (deep) work.total = await countFiles(context)

  for (let after = NIL; ;) {
    const rows = await context.query<BlobRow>(PAGE, [after, PAGE_ROWS, wanted.everySeconds])
    for (const { provider } of rows)
      if (!stores.has(provider)) stores.set(provider, await listStore(context, provider, deep, progress))
    await inLanes(rows, (row) => checkBlob(work, row))
    if (rows.length < PAGE_ROWS) break
    after = (rows.at(-1) as BlobRow).blob
  }
  for (const [provider, listed] of stores) {
    await checkOrphans(work, provider, listed).catch((error: unknown) => {
      context.signal.throwIfAborted()
      listed.report.problem = `bytes without a file could not be looked at: ${messageOf(error)}`
    })
    report.stores.push(listed.report)
  }
  report.findings.sort((a, b) => order(a.kind + a.blob, b.kind + b.blob))
  return report
}

const order = (a: string, b: string): number => (a < b ? -1 : 1)

interface Work {
  readonly context: CommandContext
  readonly wanted: Wanted
  readonly progress: Progress
  readonly report: Report
  readonly stores: Map<string, Listed>
  readonly verified: Verified
  /** How many objects of each store have a row; and how many have one that names another store. */
  readonly known: Map<string, number>
  readonly copies: Map<string, number>
  /** Files to read. */
  total: number
  readonly since: number
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
  readonly fileSize: string | null
  readonly etag: string | null
}

const NIL = '00000000-0000-0000-0000-000000000000'
const PAGE_ROWS = 1000
const LANES = 4
const PIECE_BYTES = 8 * 2 ** 20

async function checkBlob(work: Work, row: BlobRow): Promise<void> {
  const { report, stores, known, copies, wanted } = work
  const { blob, provider, state, file } = row
  const { left } = stores.get(provider) as Listed
  const listed = left?.get(blob)
  report.blobs += 1
  // In whatever store it is: what has a row is no orphan.
  for (const [name, { left: held }] of stores) if (held?.delete(blob)) count(name === provider ? known : copies, name)
  if (row.abandoned) return putAway(work, row, GIVE_UP, 'abandoned', 'an upload has ended without a word')
  if (file === null) return state === 'live' ? putAway(work, row, DISOWN, 'unowned', 'no file has it') : undefined
  report.files += 1
  const wrong = contradiction(row)
  if (wrong !== undefined) add(work, row, 'record', wrong)
  if (state !== 'live' || row.size === null || row.sha256 === null) return
  const suspicious = row.damaged !== null || (left && listed !== Number(row.size))
  if (wanted.deep || suspicious) await read(work, row, { ...row, size: Number(row.size), sha256: row.sha256 })
}

/** How the record of a file says something else than its blob. */
function contradiction({ state, size, sha256, fileSize, etag }: BlobRow): string | undefined {
  if (state !== 'live') return `has a blob that is ${state}: its bytes are taken away soon`
  if (fileSize !== size) return `has ${fileSize} bytes by its record and ${size} by its blob`
  if (etag !== `"${sha256?.toString('hex')}"`) return 'has another etag than the SHA-256 of its blob'
  return undefined
}

const DETAIL: Readonly<Record<Damage, string>> = {
  missing: 'has no bytes',
  size: 'has more or fewer bytes than were written',
  sha256: 'has other bytes than were written',
}

/** Reads the bytes of a file, and keeps what is found. */
async function read(work: Work, row: BlobRow, written: Written): Promise<void> {
  const { context, report, stores, verified, progress } = work
  const store = stores.get(row.provider)?.store
  if (!store) return
  const onPiece = (bytes: number) => {
    report.read.bytes += bytes
    progress.tell(() => far(work))
  }
  let damage: Damage | undefined
  try {
    damage = await verify(store, written, { pieceBytes: PIECE_BYTES, signal: context.signal, onPiece })
  } catch (error) {
    context.signal.throwIfAborted()
    return add(work, row, 'unreadable', `cannot be read: ${messageOf(error)}`)
  }
  report.read.files += 1
  const found = await verified.record(row.blob, damage)
  if (!found) return
  if (damage) add(work, { ...row, file: found.file }, damage, DETAIL[damage])
  else if (row.damaged) report.repaired += 1
}

function far({ report, total, since }: Work): string {
  const speed = report.read.bytes / 1000 / (performance.now() - since)
  const of = total === 0 ? '' : ` of ${total}`
  return `read ${report.read.files}${of} files, ${speed.toFixed(1)} MB/s`
}

/** Says what the collector should take away, and lets it if that is wanted. Nothing, when it is not so any more. */
async function putAway(work: Work, row: BlobRow, sql: string, kind: 'abandoned' | 'unowned', detail: string) {
  if (!work.wanted.fix) return add(work, row, kind, detail)
  const changed = await work.context.query(sql, [row.blob])
  if (changed.length > 0) add(work, row, kind, detail, true)
}

/** What a store holds and no row knows. A store that holds more of that than of ours may be one of another database. */
async function checkOrphans(work: Work, provider: string, { store, left, report }: Listed): Promise<void> {
  if (!store || !left) return
  const { context, known, copies, wanted } = work
  const orphans: string[] = []
  await inLanes([...left.keys()], async (key) => void ((await isThere(context, store, key)) && orphans.push(key)))
  const ours = orphans.length <= (known.get(provider) ?? 0)
  const others = copies.get(provider) ?? 0
  if (others > 0) report.notes.push(`${others} objects should be in another store by their blobs; they are let be`)
  if (!ours) report.notes.push('most of it is not known to this database: is it the right one? --fix deletes nothing')
  const lost = work.report.findings.some((finding) => finding.provider === provider && finding.kind === 'missing')
  if (lost && report.objects === 0) report.notes.push('it is empty: is it the right place, and mounted?')
  const fixed = ours && wanted.fix
  for (const key of orphans) {
    if (fixed) await store.delete(key)
    add(work, { blob: key, provider, file: null }, 'orphan', `${left.get(key)} bytes that no file has`, fixed)
  }
}

async function isThere({ signal }: CommandContext, store: NonNullable<Listed['store']>, key: string): Promise<boolean> {
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
  { report, stores }: Work,
  { blob, provider, file }: Pick<BlobRow, 'blob' | 'provider' | 'file'>,
  kind: Finding['kind'],
  detail: string,
  fixed = false,
): void {
  const path = stores.get(provider)?.store?.path?.(blob)
  const named = { ...(file === null ? {} : { file }), ...(path === undefined ? {} : { path }) }
  report.findings.push({ kind, provider, blob, ...named, detail, fixed })
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const count = (counts: Map<string, number>, name: string) => counts.set(name, (counts.get(name) ?? 0) + 1)

async function inLanes<T>(items: readonly T[], fn: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values()
  const lane = async () => {
    for (const item of queue) await fn(item)
  }
  await Promise.all(Array.from({ length: LANES }, lane))
}

async function countFiles({ query }: CommandContext): Promise<number> {
  const [row] = await query<{ count: number }>('select count(*)::int as count from svc_catalog.svc_file')
  return row?.count ?? 0
}

/** By primary key. A blob and its file are read as of one moment. */
const PAGE = `
select blob_id as blob, provider, state, size::text as size, sha256, damaged,
  state = 'writing' and leased_until < now() - make_interval(secs => $3 + 60) as abandoned,
  file_id as file, file_size::text as "fileSize", etag
from svc_catalog.svc_blob left join svc_catalog.svc_file using (blob_id)
where blob_id > $1 order by blob_id limit $2`

const GIVE_UP = `
update svc_catalog.svc_blob set state = 'dead', dead_at = 'epoch'
where blob_id = $1 and state = 'writing' and leased_until < now() returning 1`

const DISOWN = `
update svc_catalog.svc_blob as blob set state = 'dead', dead_at = now()
where blob_id = $1 and state = 'live'
  and not exists (select 1 from svc_catalog.svc_file as file where file.blob_id = blob.blob_id) returning 1`
