import { type Call, type Data, ServiceError, type Transaction } from 'rowhouse'
import type { Caller } from '../caller.js'
import { AlreadyExists } from '../errors.js'
import type { Announced } from './protocol.js'

/** What is known of an upload; how far it has come, the staged bytes tell. */
export interface Upload {
  readonly id: string
  readonly fileId: string
  readonly contentType: string
  readonly replace: boolean
  readonly length: number
  readonly metadata: string
  /** Staged bytes behind this offset do not count. */
  readonly uncheckedFrom: number | null
  /** The file has its bytes. */
  readonly stored: boolean
  readonly expiresAt: Date
}

export interface NewUpload extends Announced, Caller {
  readonly id: string
  readonly fileId: string
  /** Whom the limit of unfinished uploads counts it under. */
  readonly counted: string
}

interface Limits {
  readonly expireHours: number
  readonly maxPerUser: number
}

/** The records of uploads. */
export class UploadRecords {
  private readonly data: Data
  private readonly limits: Limits
  private readonly place: string

  /** @param place where this server stages bytes */
  constructor(data: Data, limits: Limits, place: string) {
    this.data = data
    this.limits = limits
    this.place = place
  }

  /**
   * @param admit what else has to be so; asked in the same transaction
   * @throws ServiceError 400 when the file must not exist and does; 429 when the caller has too many unfinished
   */
  async create(upload: NewUpload, call: Call, admit: (inside: Transaction) => Promise<unknown>): Promise<Upload> {
    const { id, fileId, contentType, replace, length, metadata, userId, role, counted } = upload
    const { expireHours, maxPerUser } = this.limits
    const values = [id, this.place, fileId, contentType, replace, length, metadata, userId, role, counted, expireHours]
    const [row] = await this.data.transaction(call, async ({ transaction }) => {
      // Of two at once neither would count the other.
      await this.data.query(LOCK_COUNTED, [counted], transaction)
      await admit(transaction)
      return this.data.query<Outcome>(CREATE, [...values, maxPerUser], transaction)
    })
    if (!row || row.exists) throw new AlreadyExists(fileId)
    if (row.expiresAt === null) throw tooMany(maxPerUser)
    return { id, fileId, contentType, replace, length, metadata, uncheckedFrom: null, stored: false, ...row }
  }

  /**
   * @throws ServiceError 404 unless it is an upload of the caller's; 410 when it has expired; 503 when its bytes are on
   *   the disk of another server
   */
  async find(id: string, { userId, role }: Caller): Promise<Upload> {
    const [row] = await this.data.query<Found>(FIND, [id, userId, role])
    if (!row) throw unknownUpload(id)
    if (row.expired) throw gone('the upload has expired; start again')
    if (row.place !== this.place && !row.stored) throw row.seen ? elsewhere() : gone('its server is gone; start again')
    const { length, uncheckedFrom } = row
    return { ...row, length: Number(length), uncheckedFrom: uncheckedFrom === null ? null : Number(uncheckedFrom) }
  }

  /**
   * Says that bytes are coming: it expires later.
   * @param uncheckedFrom where they begin when they do not count until they are compared
   * @returns when it expires
   */
  async extend(id: string, uncheckedFrom: number | null): Promise<Date> {
    const [row] = await this.data.query<{ expiresAt: Date }>(EXTEND, [id, uncheckedFrom, this.limits.expireHours])
    if (!row) throw unknownUpload(id)
    return row.expiresAt
  }

  /** Says that all staged bytes count. */
  async checked(id: string): Promise<void> {
    await this.data.query(CHECKED, [id])
  }

  async remove(id: string): Promise<void> {
    await this.data.query('delete from svc_catalog.svc_upload where upload_id = $1', [id])
  }

  /** Says that this server is there. */
  async seen(): Promise<void> {
    await this.data.query(SEEN, [this.place])
  }

  /** Uploads of this server that have expired, or of those given. */
  async expired(most: number, among: readonly string[] | null = null): Promise<readonly string[]> {
    const rows = await this.data.query<{ id: string }>(EXPIRED, [this.place, most, among])
    return rows.map(({ id }) => id)
  }

  /** Those of them whose bytes are still needed. */
  async needed(ids: readonly string[]): Promise<ReadonlySet<string>> {
    const rows = await this.data.query<{ id: string }>(NEEDED, [ids])
    return new Set(rows.map(({ id }) => id))
  }

  /** What servers have left behind that are gone for good. */
  async forgetElsewhere(): Promise<void> {
    await this.data.query(FORGET_UPLOADS, [this.place])
    await this.data.query(FORGET_PLACES, [this.place])
  }
}

export const unknownUpload = (id: string): ServiceError =>
  new ServiceError(404, 'not_found', `upload not found : ${id}`)
const gone = (message: string) => new ServiceError(410, 'gone', message)
const elsewhere = () =>
  new ServiceError(503, 'other_server', 'the upload goes on at the server where it began', '$', { retryAfter: 1 })
const tooMany = (most: number) =>
  new ServiceError(
    429,
    'too_many_uploads',
    `at most ${most} uploads may be unfinished (plugins.filestore.resumable.maxPerUser)`,
    '$',
    { retryAfter: 60 },
  )

interface Outcome {
  readonly exists: boolean
  /** Null: nothing was made. */
  readonly expiresAt: Date
}
interface Found extends Omit<Upload, 'length' | 'uncheckedFrom'> {
  readonly length: string
  readonly uncheckedFrom: string | null
  readonly expired: boolean
  readonly place: string
  readonly seen: boolean
}

const LOCK_COUNTED = "select pg_advisory_xact_lock(hashtextextended('svc_catalog.svc_upload of ' || $1, 0))"

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
select upload_id as id, file_id as "fileId", content_type as "contentType", replace, length::text, metadata,
  unchecked_from::text as "uncheckedFrom", stored_at is not null as stored, expires_at as "expiresAt",
  expires_at <= now() as expired, place, seen_at > now() - interval '5 minutes' as seen
from svc_catalog.svc_upload join svc_catalog.svc_upload_place using (place)
where upload_id = $1 and user_id = $2 and user_role = $3`

const EXTEND = `
update svc_catalog.svc_upload set unchecked_from = $2, expires_at = now() + make_interval(hours => $3)
where upload_id = $1 returning expires_at as "expiresAt"`
const CHECKED = 'update svc_catalog.svc_upload set unchecked_from = null where upload_id = $1'

const SEEN = `
insert into svc_catalog.svc_upload_place (place) values ($1) on conflict (place) do update set seen_at = now()`
const EXPIRED = `
select upload_id as id from svc_catalog.svc_upload
where place = $1 and expires_at <= now() and ($3::uuid[] is null or upload_id = any($3::uuid[]))
order by expires_at limit $2`
const NEEDED = `
select upload_id as id from svc_catalog.svc_upload where upload_id = any($1::uuid[]) and stored_at is null`

const FORGET_UPLOADS = `
delete from svc_catalog.svc_upload where place <> $1 and expires_at <= now() - interval '1 day'`
const FORGET_PLACES = `
delete from svc_catalog.svc_upload_place p where place <> $1 and seen_at <= now() - interval '1 day'
  and not exists (select from svc_catalog.svc_upload u where u.place = p.place)`
