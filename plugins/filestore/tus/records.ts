import { type Call, type Data, type ServiceError, serviceError, type Transaction } from 'rowhouse'
import type { Caller } from '../caller.js'
import { AlreadyExists } from '../errors.js'
import type { UploadHeaders } from './protocol.js'

/** The record of an upload. Its offset is the size of its staged bytes. */
export interface Upload {
  readonly id: string
  readonly fileId: string
  readonly contentType: string
  readonly replace: boolean
  readonly length: number
  readonly metadata: string
  /** Offset from which staged bytes have not been compared with their checksum, and do not count. */
  readonly uncheckedFrom: number | null
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

/** Stores the records of uploads in the database. */
export class UploadRecords {
  /** @param place identifies the folder in which this server stages bytes */
  constructor(
    private readonly data: Data,
    private readonly limits: { readonly expireHours: number; readonly maxPerUser: number },
    private readonly place: string,
  ) {}

  /**
   * @param check throws if the upload must be refused; runs in the same transaction
   * @throws ServiceError 400 when the file must not exist but does; 429 when the caller has too many unfinished uploads
   */
  async create(upload: NewUpload, call: Call, check: (transaction: Transaction) => Promise<unknown>): Promise<Upload> {
    const { id, fileId, contentType, replace, length, metadata, userId, role, counted } = upload
    const { expireHours, maxPerUser } = this.limits
    const values = [id, this.place, fileId, contentType, replace, length, metadata, userId, role, counted, expireHours]
    const [row] = await this.data.transaction(call, async ({ transaction }) => {
      // Without the lock, two simultaneous requests would not count each other.
      await this.data.query(LOCK_COUNTED, [counted], transaction)
      await check(transaction)
      return this.data.query<{ exists: boolean; expiresAt: Date | null }>(CREATE, [...values, maxPerUser], transaction)
    })
    if (!row || row.exists) throw new AlreadyExists(fileId)
    if (row.expiresAt === null) throw tooMany(maxPerUser)
    return { ...upload, uncheckedFrom: null, stored: false, expiresAt: row.expiresAt }
  }

  /**
   * @throws ServiceError 404 unless the caller owns the upload; 410 when it has expired or its server is gone; 503 when
   *   another server has its bytes
   */
  async find(id: string, { userId, role }: Caller): Promise<Upload> {
    const [row] = await this.data.query<Found>(FIND, [id, userId, role])
    if (!row) throw unknownUpload(id)
    if (row.expired) throw gone('the upload has expired; start a new one')
    if (row.place !== this.place && !row.stored)
      throw row.alive ? otherServer() : gone('the server with the bytes of this upload is gone; start a new one')
    return row
  }

  /**
   * Postpones the expiry of an upload that receives bytes.
   * @param uncheckedFrom offset from which bytes do not count until they have been compared with their checksum
   * @returns the new time of expiry
   */
  async extend(id: string, uncheckedFrom: number | null): Promise<Date> {
    const [row] = await this.data.query<{ expiresAt: Date }>(EXTEND, [id, uncheckedFrom, this.limits.expireHours])
    if (!row) throw unknownUpload(id)
    return row.expiresAt
  }

  /** Makes all staged bytes count. */
  async markChecked(id: string): Promise<void> {
    await this.data.query(CHECKED, [id])
  }

  async remove(id: string): Promise<void> {
    await this.data.query('delete from svc_catalog.svc_upload where upload_id = $1', [id])
  }

  async reportAlive(): Promise<void> {
    await this.data.query(REPORT_ALIVE, [this.place])
  }

  /** Lists expired uploads of this server. @param ids lists only these, if given */
  async expired(limit: number, ids: readonly string[] | null = null): Promise<readonly string[]> {
    const rows = await this.data.query<{ id: string }>(EXPIRED, [this.place, limit, ids])
    return rows.map(({ id }) => id)
  }

  /** Returns the uploads among `ids` whose bytes are still needed. */
  async unfinished(ids: readonly string[]): Promise<ReadonlySet<string>> {
    const rows = await this.data.query<{ id: string }>(UNFINISHED, [ids])
    return new Set(rows.map(({ id }) => id))
  }

  /** Removes the records of servers that have been gone for a day. */
  async forgetGoneServers(): Promise<void> {
    await this.data.query(FORGET_UPLOADS, [this.place])
    await this.data.query(FORGET_PLACES, [this.place])
  }
}

export const unknownUpload = (id: string): ServiceError => serviceError('not-found', `upload not found : ${id}`)
const gone = (message: string) => serviceError('gone', message)
const otherServer = () =>
  serviceError(
    'other_server',
    'the bytes of this upload are on another server; retry until a request reaches it',
    '$',
    { retryAfter: 1 },
  )
const tooMany = (limit: number) => {
  const message = `the limit of ${limit} unfinished uploads is reached (plugins.filestore.resumable.maxPerUser)`
  return serviceError('too_many_uploads', message, '$', { retryAfter: 60 })
}

interface Found extends Upload {
  readonly expired: boolean
  readonly place: string
  readonly alive: boolean
}

const LOCK_COUNTED = "select pg_advisory_xact_lock(hashtextextended('svc_catalog.svc_upload of ' || $1, 0))"

/** `expiresAt` is null if no upload was created. */
const CREATE = `
with state as (
  select
    not $5 and exists (select from svc_catalog.svc_file where file_id = $3) as "exists",
    (select count(*) from svc_catalog.svc_upload
      where counted = $10 and stored_at is null and expires_at > now()) < $12 as free
), made as (
  insert into svc_catalog.svc_upload (upload_id, place, file_id, content_type, replace, length, metadata, user_id,
    user_role, counted, expires_at)
  select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, now() + make_interval(hours => $11)
  from state where free and not "exists"
  returning expires_at
)
select "exists", (select expires_at from made) as "expiresAt" from state`

const FIND = `
select upload_id as id, file_id as "fileId", content_type as "contentType", replace, length::float8, metadata,
  unchecked_from::float8 as "uncheckedFrom", stored_at is not null as stored, expires_at as "expiresAt",
  expires_at <= now() as expired, place, seen_at > now() - interval '5 minutes' as alive
from svc_catalog.svc_upload join svc_catalog.svc_upload_place using (place)
where upload_id = $1 and user_id is not distinct from $2 and user_role = $3`

const EXTEND = `
update svc_catalog.svc_upload set unchecked_from = $2, expires_at = now() + make_interval(hours => $3)
where upload_id = $1 returning expires_at as "expiresAt"`
const CHECKED = 'update svc_catalog.svc_upload set unchecked_from = null where upload_id = $1'

const REPORT_ALIVE = `
insert into svc_catalog.svc_upload_place (place) values ($1) on conflict (place) do update set seen_at = now()`
const EXPIRED = `
select upload_id as id from svc_catalog.svc_upload
where place = $1 and expires_at <= now() and ($3::uuid[] is null or upload_id = any($3::uuid[]))
order by expires_at limit $2`
const UNFINISHED = `
select upload_id as id from svc_catalog.svc_upload where upload_id = any($1::uuid[]) and stored_at is null`

const FORGET_UPLOADS = `
delete from svc_catalog.svc_upload where place <> $1 and expires_at <= now() - interval '1 day'`
const FORGET_PLACES = `
delete from svc_catalog.svc_upload_place p where place <> $1 and seen_at <= now() - interval '1 day'
  and not exists (select from svc_catalog.svc_upload u where u.place = p.place)`
