import { type Call, type Data, type ServiceError, serviceError, type Transaction } from 'rowhouse'
import type { Caller } from '../caller.js'
import { AlreadyExists } from '../errors.js'
import type { Piece, RecordedPiece } from './pieces.js'
import type { UploadHeaders } from './protocol.js'

/** The record of an upload. */
export interface Upload {
  readonly id: string
  readonly fileId: string
  readonly contentType: string
  readonly replace: boolean
  readonly length: number
  readonly metadata: string
  /** Number of bytes in its pieces. */
  readonly offset: number
  /** Whether the bytes have become a file. */
  readonly stored: boolean
  readonly expiresAt: Date
}

export interface NewUpload extends UploadHeaders, Caller {
  readonly id: string
  readonly fileId: string
  /** The key under which unfinished uploads are counted and limited. */
  readonly counted: string
}

/** Time after which a lock is free unless its lease is renewed. */
const LEASE_SECONDS = 5

/** Stores the records of uploads and their pieces in the database. */
export class UploadRecords {
  constructor(
    private readonly data: Data,
    private readonly limits: { readonly expireHours: number; readonly maxPerUser: number },
  ) {}

  /**
   * @param check throws if the upload must be refused; runs in the same transaction
   * @throws ServiceError 400 when the file must not exist but does; 429 when the caller has too many unfinished uploads
   */
  async create(upload: NewUpload, call: Call, check: (transaction: Transaction) => Promise<unknown>): Promise<Upload> {
    const { id, fileId, contentType, replace, length, metadata, userId, role, counted, pending } = upload
    const { expireHours, maxPerUser } = this.limits
    const kept = [id, fileId, contentType, replace, length, metadata, userId, role, counted]
    const values = [...kept, expireHours, maxPerUser, pending]
    const [row] = await this.data.transaction(call, async ({ transaction }) => {
      // Without the lock, two simultaneous requests would not count each other.
      await this.data.query(LOCK_COUNTED, [counted], transaction)
      await check(transaction)
      return this.data.query<{ exists: boolean; expiresAt: Date | null }>(CREATE, values, transaction)
    })
    if (!row || row.exists) throw new AlreadyExists(fileId)
    if (row.expiresAt === null) throw tooMany(maxPerUser)
    return { ...upload, offset: 0, stored: false, expiresAt: row.expiresAt }
  }

  /**
   * Takes the lock of an upload if it is free. Otherwise the first try makes the request the next one that gets it.
   * @returns `overtaken` when another request has tried since
   * @throws ServiceError 404 unless the caller owns the upload; 410 when it has expired
   */
  async take(
    id: string,
    { userId, role }: Caller,
    holder: string,
    isFirst: boolean,
  ): Promise<{ readonly upload: Upload; readonly state: 'held' | 'waiting' | 'overtaken' }> {
    const [row] = await this.data.query<Taken>(TAKE, [id, userId, role, holder, isFirst])
    if (!row) throw unknownUpload(id)
    const { expired, state, ...upload } = row
    if (expired) throw gone('the upload has expired; start a new one')
    return { upload, state }
  }

  /** Renews leases. Returns the holders whose locks others want. */
  async renew(ids: readonly string[], holders: readonly string[]): Promise<readonly string[]> {
    const rows = await this.data.query<{ holder: string; wanted: boolean }>(RENEW, [ids, holders])
    return rows.filter(({ wanted }) => wanted).map(({ holder }) => holder)
  }

  async release(id: string, holder: string): Promise<void> {
    await this.data.query(RELEASE, [id, holder])
  }

  /**
   * Appends pieces to an upload, and postpones its expiry.
   * @returns the new time of expiry
   * @throws ServiceError 423 when the request has lost the lock, or the pieces their leases
   */
  async append(id: string, holder: string, offset: number, pieces: readonly Piece[]): Promise<Date> {
    const blobs = pieces.map(({ blob }) => blob)
    const sizes = pieces.map(({ size }) => size)
    const values = [id, holder, offset, blobs, sizes, this.limits.expireHours]
    const [row] = await this.data.query<{ expiresAt: Date }>(APPEND, values)
    if (!row) throw takenOver()
    return row.expiresAt
  }

  /** Returns the pieces of an upload in their order. */
  pieces(id: string): Promise<readonly RecordedPiece[]> {
    return this.data.query<RecordedPiece>(PIECES, [id])
  }

  /** Records that an upload has become a file. @throws ServiceError 423 when the request has lost the lock */
  async finish(id: string, holder: string, transaction: Transaction): Promise<void> {
    const rows = await this.data.query(FINISH, [id, holder], transaction)
    if (rows.length === 0) throw takenOver()
  }

  /** Removes an upload. A trigger leaves its pieces to the collector. */
  async remove(id: string): Promise<void> {
    await this.data.query('delete from svc_catalog.svc_upload where upload_id = $1', [id])
  }
}

export const unknownUpload = (id: string): ServiceError => serviceError('not-found', `upload "${id}" not found`)
export const locked = (message: string): ServiceError => serviceError('locked', message, '$', { retryAfter: 1 })
export const takenOver = (): ServiceError => locked('another request has taken over this upload')
const gone = (message: string) => serviceError('gone', message)
const tooMany = (limit: number) => {
  const message = `the limit of ${limit} unfinished uploads is reached (plugins.filestore.resumable.maxPerUser)`
  return serviceError('too_many_uploads', message, '$', { retryAfter: 60 })
}

interface Taken extends Upload {
  readonly expired: boolean
  readonly state: 'held' | 'waiting' | 'overtaken'
}

const LOCK_COUNTED =
  "select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('svc_catalog.svc_upload of ' || $1, 0))"

/** `expiresAt` is null if no upload was created. Of a pending upload, `precheck` has checked whether the file exists. */
const CREATE = `
with state as (
  select
    not $4 and not $12::boolean and exists (select from svc_catalog.svc_file where file_id = $2) as "exists",
    (select pg_catalog.count(*) from svc_catalog.svc_upload
      where counted = $9 and stored_at is null and expires_at > pg_catalog.now()) < $11 as free
), made as (
  insert into svc_catalog.svc_upload (upload_id, file_id, content_type, replace, length, metadata, user_id, user_role,
    counted, expires_at)
  select $1, $2, $3, $4, $5, $6, $7, $8, $9, pg_catalog.now() + pg_catalog.make_interval(hours => $10)
  from state where free and not "exists"
  returning expires_at
)
select "exists", (select expires_at from made) as "expiresAt" from state`

/** Locks need not survive a crash of PostgreSQL, so their commits do not wait for the disk. */
const NOT_DURABLE = "set_config('synchronous_commit', 'off', true) is not null"
const LEASE = `pg_catalog.now() + interval '${LEASE_SECONDS} seconds'`

/** The subquery sees what a simultaneous statement has committed, because it locks the row. */
const TAKE = `
update svc_catalog.svc_upload as upload set
  holder = case when free then $4::uuid else holder end,
  held_until = case when free then ${LEASE} else held_until end,
  wanted_by = case when free then null when $5::boolean then $4::uuid else wanted_by end
from (
  select upload_id, expires_at <= pg_catalog.now() as expired,
    (holder is null or held_until < pg_catalog.now()) and ($5::boolean or wanted_by = $4::uuid) and expires_at > pg_catalog.now() as free
  from svc_catalog.svc_upload
  where upload_id = $1 and user_id is not distinct from $2 and user_role = $3 for update
) as found
where upload.upload_id = found.upload_id and ${NOT_DURABLE}
returning upload.upload_id as id, file_id as "fileId", content_type as "contentType", replace, length::float8, metadata,
  case when stored_at is null then received else length end::float8 as offset, stored_at is not null as stored,
  expires_at as "expiresAt", expired,
  case when holder = $4::uuid then 'held' when wanted_by = $4::uuid then 'waiting' else 'overtaken' end as state`

/** Skips rows that a statement of their holder has locked, which may wait for a file. */
const RENEW = `
update svc_catalog.svc_upload set held_until = ${LEASE}
where ${NOT_DURABLE} and upload_id in (
  select upload_id from svc_catalog.svc_upload where upload_id = any ($1::uuid[]) and holder = any ($2::uuid[])
  for update skip locked
)
returning holder, wanted_by is not null as wanted`

const RELEASE = `
update svc_catalog.svc_upload set holder = null, held_until = null
where upload_id = $1 and holder = $2 and ${NOT_DURABLE}`

/** Appends nothing unless all blobs are still `writing`: the bytes of abandoned ones may have been deleted. */
const APPEND = `
with new as (
  select blob_id, size, $3::bigint + pg_catalog.sum(size) over (order by n) - size as start
  from unnest($4::uuid[], $5::bigint[]) with ordinality as new (blob_id, size, n)
), blob as (
  select blob_id from svc_catalog.svc_blob where blob_id = any ($4::uuid[]) and state = 'writing' for update
), upload as (
  update svc_catalog.svc_upload
  set received = received + (select pg_catalog.sum(size) from new), expires_at = pg_catalog.now() + pg_catalog.make_interval(hours => $6)
  where upload_id = $1 and holder = $2 and received = $3 and (select pg_catalog.count(*) from blob) = pg_catalog.cardinality($4)
  returning upload_id, expires_at
), leased as (
  update svc_catalog.svc_blob set leased_until = 'infinity' where blob_id in (select blob_id from new, upload)
), piece as (
  insert into svc_catalog.svc_upload_piece (blob_id, upload_id, start, size)
  select blob_id, upload_id, start, size from new, upload
)
select expires_at as "expiresAt" from upload`

const PIECES = `
select blob_id as blob, piece.size::float8 as size, provider from svc_catalog.svc_upload_piece as piece join svc_catalog.svc_blob using (blob_id)
where upload_id = $1 order by start`

const FINISH = `
with upload as (
  update svc_catalog.svc_upload set stored_at = pg_catalog.now()
  where upload_id = $1 and holder = $2 and stored_at is null returning upload_id
), piece as (
  delete from svc_catalog.svc_upload_piece where upload_id in (select upload_id from upload)
)
select from upload`
