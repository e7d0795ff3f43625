import { type Data, serviceError, type Transaction } from 'rowhouse'
import type { Caller } from './caller.js'
import type { FilestoreConfig } from './config.js'
import { badRequest, uploadLost } from './errors.js'
import type { NewFile, StoredBlob } from './files.js'

/** Uploads that become files with the commit of a transaction. What nobody attaches is left to the collector. */
export class PendingFiles {
  private readonly hours: number
  private readonly maxPerUser: number
  private readonly holdText: string

  constructor(
    private readonly data: Data,
    { pending, userId }: Pick<FilestoreConfig, 'pending' | 'userId'>,
  ) {
    this.hours = pending.expireHours
    this.maxPerUser = pending.maxPerUser
    this.holdText = holdText(userId === 'integer' ? 'bigint' : 'text')
  }

  /** @throws ServiceError 429 when one more pending upload exceeds the limit of the caller; 400 when there are none at all */
  async requireRoom({ id, userId, role, pending }: NewFile, transaction?: Transaction): Promise<void> {
    if (this.maxPerUser === 0) {
      throw badRequest('pending uploads are turned off (plugins.filestore.pending.maxPerUser is 0)')
    }
    const [row] = await this.data.query<{ others: number }>(OTHERS, [pending, id, userId, role], transaction)
    if ((row?.others ?? 0) < this.maxPerUser) return
    const message = `the limit of ${this.maxPerUser} pending uploads is reached (plugins.filestore.pending.maxPerUser)`
    throw serviceError('too_many_uploads', message, '$', { retryAfter: 60 })
  }

  /**
   * Makes a blob, whose bytes are durable, a pending upload. It replaces an earlier one of the same user, role and id.
   * @returns JSON text of its record
   * @throws ServiceError 429; 503 when the collector has taken the blob
   */
  async hold({ blob, size, sha256, file }: StoredBlob, transaction: Transaction): Promise<string> {
    const { id, create, contentType, userId, role, pending } = file
    // Without the lock, two simultaneous requests would not count each other.
    await this.data.query(LOCK_COUNTED, [pending], transaction)
    await this.requireRoom(file, transaction)
    const bytes = [blob, size, sha256.toString('hex'), this.hours]
    const values = [...bytes, id, contentType, !create, userId, role, pending]
    const [row] = await this.data.query<{ record: string }>(this.holdText, values, transaction)
    if (!row) throw uploadLost()
    return row.record
  }

  /**
   * Takes a pending upload from its list, in the transaction that makes it a file.
   * @param counted as `countedAs`; absent: an admin takes the latest one of an anonymous caller
   * @throws ServiceError 400 not-found when the uploader has none
   */
  async take(id: string, { userId, role }: Caller, transaction: Transaction, counted?: string): Promise<StoredBlob> {
    const [taken] = await this.data.query<Taken>(TAKE, [id, userId, role, counted ?? null], transaction)
    const [bytes] = taken ? await this.data.query<Bytes>(BYTES, [taken.blob], transaction) : []
    if (!taken || !bytes) {
      throw serviceError('not-found', `the uploader has no pending upload "${id}"`, '$.args.file_id', { status: 400 })
    }
    const { blob, contentType, replace } = taken
    return { blob, ...bytes, file: { id, create: !replace, contentType, userId, role } }
  }
}

const LOCK_COUNTED =
  "select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('svc_catalog.svc_pending_file of ' || $1, 0))"

/** Uses svc_pending_file_counted. Leaves out the one that the upload replaces. */
const OTHERS = `
select pg_catalog.count(*)::int as others from svc_catalog.svc_pending_file
where counted = $1 and expires_at > pg_catalog.now()
  and not (file_id = $2 and user_id is not distinct from $3 and user_role = $4)`
/** What tells callers of the role anonymous apart. */
const ADDRESS = `(case user_role when 'anonymous' then counted else '' end)`

/** Holds nothing unless the blob is still `writing`: the bytes of an abandoned one may have been deleted. */
const holdText = (owner: 'bigint' | 'text') => `
with blob as (
  update svc_catalog.svc_blob
  set size = $2::bigint, sha256 = pg_catalog.decode($3, 'hex'), leased_until = pg_catalog.now() + pg_catalog.make_interval(hours => $4::int)
  where blob_id = $1 and state = 'writing' returning blob_id
)
insert into svc_catalog.svc_pending_file as pending
  (blob_id, file_id, content_type, replace, user_id, user_role, counted, expires_at)
select blob_id, $5, $6, $7, $8, $9, $10, pg_catalog.now() + pg_catalog.make_interval(hours => $4::int) from blob
on conflict (file_id, coalesce(user_id, ''), user_role, ${ADDRESS}) do update set blob_id = excluded.blob_id,
  content_type = excluded.content_type, replace = excluded.replace, counted = excluded.counted, created_at = pg_catalog.now(),
  expires_at = excluded.expires_at
returning pg_catalog.json_build_object('file_id', file_id, 'content_type', content_type, 'file_status', 'pending',
  'file_size', $2::bigint, 'user_id', user_id::${owner}, 'user_role', user_role, 'created_at', created_at,
  'expires_at', expires_at)::text as record`

const TAKE = `
delete from svc_catalog.svc_pending_file where blob_id = (
  select blob_id from svc_catalog.svc_pending_file
  where file_id = $1 and user_id is not distinct from $2 and user_role = $3 and expires_at > pg_catalog.now()
    and ($4::text is null or counted = $4 or user_role <> 'anonymous')
  order by created_at desc limit 1)
returning blob_id as blob, content_type as "contentType", replace`
interface Taken {
  readonly blob: string
  readonly contentType: string
  readonly replace: boolean
}

/** The lock keeps the collector away. */
const BYTES = `
select size::float8 as size, sha256 from svc_catalog.svc_blob where blob_id = $1 and state = 'writing' for update`
type Bytes = Pick<StoredBlob, 'size' | 'sha256'>
