import { type Data, ServiceError, type Transaction } from 'rowhouse'
import { Batch } from './batch.js'
import type { Version } from './conditions.js'
import type { FilestoreConfig } from './config.js'
import { AlreadyExists, notFound, uploadLost } from './errors.js'

/** A file and the blob with its bytes. */
export interface StoredFile extends Version {
  readonly contentType: string
  readonly size: number
  readonly blob: string
  readonly provider: string
  /** Whether the bytes are known to differ from what was written. Missing bytes do not count: they may have been restored. */
  readonly damaged: boolean
}

export interface NewFile {
  readonly id: string
  /** Whether the file must not exist yet. */
  readonly create: boolean
  readonly contentType: string
  /** See `Caller`. */
  readonly userId: string | null
  readonly role: string
  /** Id of the resumable upload that it comes from. */
  readonly upload?: string
  /** Present if it becomes a file later: the key under which the caller's pending uploads are counted. */
  readonly pending?: string | undefined
}

/** A file that counts for the quota of its owner. */
export type Owned = Pick<NewFile, 'id' | 'role' | 'upload' | 'pending'> & { readonly userId: string }

/** A blob with durable bytes, and its file. */
export interface StoredBlob {
  readonly blob: string
  readonly size: number
  readonly sha256: Buffer
  readonly file: NewFile
}

/** Time after which the collector takes an unfinished blob unless its lease is renewed. */
export const LEASE_SECONDS = 60

/** The records of files and blobs. Each change is one statement, and therefore atomic. */
export class Files {
  private readonly finds = new Batch((ids: readonly string[]) => this.findAll(ids))
  private readonly reservations = new Batch((blobs: readonly NewBlob[]) => this.reserveAll(blobs))
  private readonly creations = new Batch((blobs: readonly StoredBlob[]) =>
    this.storeBatch(this.writes.createBatch, blobs),
  )
  private readonly replacements = new Batch((blobs: readonly StoredBlob[]) =>
    this.storeBatch(this.writes.replaceBatch, blobs),
  )

  private readonly writes: Writes

  /** @param owner the setting `userId`, which decides the type of owners in the database */
  constructor(
    private readonly data: Data,
    owner: FilestoreConfig['userId'],
  ) {
    this.writes = writesOf(owner === 'integer' ? 'bigint' : 'text')
  }

  /** @throws ServiceError 404 */
  async find(id: string): Promise<StoredFile> {
    const found = await this.finds.run(id)
    if (!found) throw notFound(id)
    return found
  }

  private async findAll(ids: readonly string[]): Promise<readonly (StoredFile | undefined)[]> {
    const rows = await this.data.query<FoundRow>(FIND, [ids])
    const files = new Map(rows.map(({ id, updated, ...row }) => [id, { ...row, updatedAt: new Date(updated) }]))
    return ids.map((id) => files.get(id))
  }

  /**
   * Creates the row of a blob before its bytes are written.
   * @param size what quotas count until the blob belongs to a file: the announced size, or the largest possible one
   * @throws ServiceError 400 when the file must not exist but does
   */
  async reserve(
    blob: string,
    provider: string,
    { id, create, userId }: Pick<NewFile, 'id' | 'create' | 'userId'>,
    size?: number,
    transaction?: Transaction,
  ): Promise<void> {
    const row = { blob, provider, newFile: create ? id : null, size: size ?? null, userId }
    const reserved = transaction ? (await this.reserveAll([row], transaction))[0] : await this.reservations.run(row)
    if (!reserved) throw new AlreadyExists(id)
  }

  private async reserveAll(blobs: readonly NewBlob[], transaction?: Transaction): Promise<readonly boolean[]> {
    const column = <K extends keyof NewBlob>(name: K) => blobs.map((blob) => blob[name])
    const values = [column('blob'), column('provider'), column('newFile'), column('size'), column('userId')]
    const rows = await this.data.query<{ blob: string }>(this.writes.reserve, values, transaction)
    const reserved = new Set(rows.map(({ blob }) => blob))
    return blobs.map(({ blob }) => reserved.has(blob))
  }

  /**
   * Returns the bytes that count towards a user's quota: those of all other files, and of all other unfinished and pending
   * uploads.
   * Blocks other requests of the user until the transaction ends.
   */
  async usedBytes(file: Owned, transaction: Transaction): Promise<number> {
    const { id, userId, role, upload = null, pending } = file
    await this.data.query(LOCK_USER, [userId], transaction)
    return this.bytesOf([userId, id, upload, pending === undefined ? null : role], transaction)
  }

  /** Returns all bytes that count towards a user's quota. */
  usage(userId: string): Promise<number> {
    return this.bytesOf([userId, '', null, null])
  }

  private async bytesOf(values: readonly unknown[], transaction?: Transaction): Promise<number> {
    const [row] = await this.data.query<{ used: number }>(USED, values, transaction)
    return row?.used ?? 0
  }

  /** Replaces an estimated size with the real one. */
  async setSize(blob: string, size: number): Promise<void> {
    await this.data.query(SET_SIZE, [blob, size])
  }

  /** Renews leases. Returns how many of the blobs still have one. */
  async renew(blobs: readonly string[]): Promise<number> {
    return (await this.data.query(RENEW, [blobs])).length
  }

  /** Returns false when the blob belongs to a file or a pending upload. A blob without a row can never belong to one. */
  async abandon(blob: string): Promise<boolean> {
    if ((await this.data.query(ABANDON_ONE, [blob])).length > 0) return true
    return (await this.data.query(EXISTS, [blob])).length === 0
  }

  /** Returns the current version of a file; a transaction also locks it. */
  async version(id: string, transaction?: Transaction): Promise<Version | undefined> {
    const [row] = await this.data.query<Version>(transaction ? `${VERSION} for update` : VERSION, [id], transaction)
    return row
  }

  /**
   * Makes a blob the content of a file.
   * @param create whether the file must not exist
   * @returns JSON text of the record
   * @throws ServiceError 400 when the file must not exist but does; 503 when the blob has been abandoned
   */
  async store(blob: StoredBlob, create: boolean, transaction?: Transaction): Promise<string> {
    const batched = transaction ? undefined : await (create ? this.creations : this.replacements).run(blob)
    if (batched !== undefined) return batched
    const [record] = await this.storeAll(create ? this.writes.create : this.writes.replace, [blob], transaction).catch(
      (error: unknown) => {
        throw isDuplicate(error) ? new AlreadyExists(blob.file.id) : error
      },
    )
    if (record === undefined) throw uploadLost()
    return record
  }

  /** Stores all with one commit. If that fails or would wait, each is stored alone and gets its own error. */
  private async storeBatch(text: string, blobs: readonly StoredBlob[]): Promise<readonly (string | undefined)[]> {
    return blobs.length > 1 ? this.storeAll(text, blobs).catch(() => []) : []
  }

  private async storeAll(
    text: string,
    blobs: readonly StoredBlob[],
    transaction?: Transaction,
  ): Promise<readonly (string | undefined)[]> {
    const values = [
      blobs.map(({ blob }) => blob),
      blobs.map(({ size }) => size),
      blobs.map(({ sha256 }) => sha256.toString('hex')),
      blobs.map(({ file }) => file.id),
      blobs.map(({ file }) => file.contentType),
      blobs.map(({ file }) => file.userId),
      blobs.map(({ file }) => file.role),
    ]
    const rows = await this.data.query<{ blob: string; record: string }>(text, values, transaction)
    const records = new Map(rows.map(({ blob, record }) => [blob, record]))
    return blobs.map(({ blob }) => records.get(blob))
  }

  /** Removes the row of a blob whose bytes have been deleted. */
  async forget(blob: string): Promise<void> {
    await this.data.query(FORGET, [blob])
  }

  /** @throws ServiceError 404 */
  async remove(id: string, transaction?: Transaction): Promise<void> {
    const rows = await this.data.query(REMOVE, [id], transaction)
    if (rows.length === 0) throw notFound(id)
  }

  /**
   * Lists blobs to delete: those that no file has used for the grace period, those whose lease has expired, and pieces of
   * expired uploads.
   * @param except blobs whose deletion has just failed
   */
  async garbage(
    graceSeconds: number,
    limit: number,
    except: readonly string[],
  ): Promise<readonly { readonly blob: string; readonly provider: string }[]> {
    await this.data.query(REMOVE_EXPIRED_UPLOADS)
    await this.data.query(ABANDON_EXPIRED)
    return this.data.query(GARBAGE, [graceSeconds, limit, except])
  }
}

/** SQLSTATE 23505 (unique_violation) on the primary key of svc_file. */
function isDuplicate(error: unknown): boolean {
  const cause = (error instanceof ServiceError ? error.cause : error) as
    | { code?: string; constraint?: string }
    | undefined
  return cause?.code === '23505' && cause.constraint === 'svc_file_pkey'
}

const RECORD = `pg_catalog.json_build_object('file_id', file_id, 'content_type', content_type, 'file_status', file_status,
  'file_size', file_size, 'user_id', user_id, 'user_role', user_role, 'created_at', created_at)::text as record`

const FIND = `
select file_id as id, content_type as "contentType", file_size::float8 as size, etag,
  extract(epoch from updated_at)::float8 * 1000 as updated, blob_id as blob, provider,
  coalesce(damaged in ('size', 'sha256'), false) as damaged
from svc_catalog.svc_file join svc_catalog.svc_blob using (blob_id) where file_id = any ($1)`
interface FoundRow extends Omit<StoredFile, 'updatedAt'> {
  readonly id: string
  /** Milliseconds since 1970. */
  readonly updated: number
}

const VERSION = 'select etag, updated_at as "updatedAt" from svc_catalog.svc_file where file_id = $1'

/** PostgreSQL takes an `unnest` of several arrays for its own, and only without a schema. */
const reserveText = (owner: OwnerType) => `
insert into svc_catalog.svc_blob (blob_id, provider, state, leased_until, size, user_id)
select blob, provider, 'writing', pg_catalog.now() + interval '${LEASE_SECONDS} seconds', size, user_id
from unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::${owner}[]) as new (blob, provider, new_file, size, user_id)
where new_file is null or not exists (select 1 from svc_catalog.svc_file where file_id = new_file)
returning blob_id as blob`
interface NewBlob {
  readonly blob: string
  readonly provider: string
  /** Id of the file if it must not exist yet. */
  readonly newFile: string | null
  readonly size: number | null
  readonly userId: string | null
}

/** One lock per user. $4 is the role if a pending upload replaces another one. */
const LOCK_USER =
  "select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('svc_catalog.svc_file of ' || $1, 0))"
const USED = `
select (
  coalesce((select pg_catalog.sum(file_size) from svc_catalog.svc_file where user_id = $1 and file_id <> $2), 0) +
  coalesce((select pg_catalog.sum(size) from svc_catalog.svc_blob as blob
    where user_id = $1 and state = 'writing' and not exists (select from svc_catalog.svc_pending_file as pending
      where pending.blob_id = blob.blob_id and pending.file_id = $2 and pending.user_role = $4)), 0) +
  coalesce((select pg_catalog.sum(length) from svc_catalog.svc_upload
    where user_id = $1 and stored_at is null and expires_at > pg_catalog.now() and upload_id is distinct from $3), 0)
)::float8 as used`
const SET_SIZE = `update svc_catalog.svc_blob set size = $2 where blob_id = $1 and state = 'writing'`

const RENEW = `
update svc_catalog.svc_blob set leased_until = greatest(leased_until, pg_catalog.now() + interval '${LEASE_SECONDS} seconds')
where blob_id = any($1) and state = 'writing' returning 1`

/** Stores nothing unless the blob is still `writing`: the bytes of an abandoned one may have been deleted. */
const storeText = (owner: OwnerType) => `
with stored as (
  select * from unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::${owner}[], $7::text[])
    as stored (blob_id, bytes, hex, file_id, content_type, user_id, user_role)
), blob as (
  update svc_catalog.svc_blob as blob set state = 'live', size = bytes, sha256 = pg_catalog.decode(hex, 'hex'), leased_until = null
  from stored where blob.blob_id = stored.blob_id and state = 'writing' returning stored.*
)
insert into svc_catalog.svc_file (file_id, blob_id, content_type, file_size, user_id, user_role, etag)
select file_id, blob_id, content_type, bytes, user_id, user_role, '"' || hex || '"' from blob`
const RETURNING = `returning blob_id as blob, ${RECORD}`
const ON_CONFLICT = `
on conflict (file_id) do update set blob_id = excluded.blob_id, content_type = excluded.content_type,
  file_size = excluded.file_size, user_id = excluded.user_id, user_role = excluded.user_role, etag = excluded.etag,
  updated_at = greatest(pg_catalog.clock_timestamp(), svc_file.updated_at)`
/** Fails when a file stays locked, even one that another transaction creates: no request waits for another's file. */
const BATCH = "where pg_catalog.set_config('lock_timeout', '50ms', true) is not null order by file_id"

type OwnerType = 'bigint' | 'text'
type Writes = ReturnType<typeof writesOf>
/** The statements that write owners. */
function writesOf(owner: OwnerType) {
  const store = storeText(owner)
  return {
    reserve: reserveText(owner),
    create: `${store} ${RETURNING}`,
    replace: `${store} ${ON_CONFLICT} ${RETURNING}`,
    createBatch: `${store} ${BATCH} ${RETURNING}`,
    replaceBatch: `${store} ${BATCH} ${ON_CONFLICT} ${RETURNING}`,
  }
}

const REMOVE = 'delete from svc_catalog.svc_file where file_id = $1 returning 1'
const FORGET = `delete from svc_catalog.svc_blob where blob_id = $1 and state <> 'live'`

/** A trigger makes their pieces dead. Keeps those that a request is using. */
const REMOVE_EXPIRED_UPLOADS = `
delete from svc_catalog.svc_upload where upload_id in (
  select upload_id from svc_catalog.svc_upload where expires_at <= pg_catalog.now() and (holder is null or held_until < pg_catalog.now())
  order by expires_at limit 1000 for update skip locked
)`
const ABANDON_EXPIRED = `
update svc_catalog.svc_blob set state = 'dead', dead_at = 'epoch' where state = 'writing' and leased_until < pg_catalog.now()`
/**
 * If the bytes cannot be deleted now, the grace period applies, because the store may still be receiving them. A blob has a
 * hash once it belongs to a file or a pending upload.
 */
const ABANDON_ONE = `
update svc_catalog.svc_blob set state = 'dead', dead_at = pg_catalog.now() 
where state <> 'live' and sha256 is null and blob_id = $1 returning 1`
const EXISTS = 'select 1 from svc_catalog.svc_blob where blob_id = $1'
const GARBAGE = `
select blob_id as blob, provider from svc_catalog.svc_blob
where state = 'dead' and dead_at <= pg_catalog.now() - pg_catalog.make_interval(secs => $1) and blob_id <> all ($3::uuid[])
order by dead_at limit $2`
