import { type Data, ServiceError, type Transaction } from 'rowhouse'
import type { Version } from './conditions.js'
import { AlreadyExists, notFound, uploadLost } from './errors.js'
import { Merged } from './merged.js'

/** What is known of a file, as clients see it. */
export interface FileRecord {
  readonly file_id: string
  readonly content_type: string
  readonly file_status: string
  readonly file_size: number
  readonly user_id: number
  readonly user_role: string
  /** ISO 8601 with microseconds and UTC offset. */
  readonly created_at: string
}

/** A file and where its bytes are. */
export interface StoredFile extends Version {
  readonly contentType: string
  readonly size: number
  readonly blob: string
  readonly provider: string
  /** Its bytes are others than were written. Missing ones are found out when they are read: they may be back. */
  readonly damaged: boolean
}

export interface NewFile {
  readonly id: string
  /** It must not exist yet. */
  readonly create: boolean
  readonly contentType: string
  readonly userId: string
  readonly role: string
  /** The resumable upload that this is the end of. */
  readonly upload?: string
}

/** Bytes that are durable, and the file that they are to be. */
export interface StoredBlob {
  readonly blob: string
  readonly size: number
  readonly sha256: Buffer
  readonly file: NewFile
}

/** How long an upload may be silent before its bytes are taken away. */
export const LEASE_SECONDS = 60

/** The records of files and blobs. Every change is one statement, so it happens or it does not. */
export class Files {
  private readonly data: Data
  private readonly found = new Merged((ids: readonly string[]) => this.findAll(ids))
  private readonly reserved = new Merged((places: readonly Place[]) => this.reserveAll(places))
  private readonly created = new Merged((blobs: readonly StoredBlob[]) => this.storeTogether(CREATE_AT_ONCE, blobs))
  private readonly replaced = new Merged((blobs: readonly StoredBlob[]) => this.storeTogether(REPLACE_AT_ONCE, blobs))

  constructor(data: Data) {
    this.data = data
  }

  /** @throws ServiceError 404 */
  async find(id: string): Promise<StoredFile> {
    const found = await this.found.ask(id)
    if (!found) throw notFound(id)
    return found
  }

  private async findAll(ids: readonly string[]): Promise<readonly (StoredFile | undefined)[]> {
    const rows = await this.data.query<FoundRow>(FIND, [ids])
    const files = new Map(
      rows.map(({ id, size, updated, ...row }) => [id, { ...row, size: Number(size), updatedAt: new Date(updated) }]),
    )
    return ids.map((id) => files.get(id))
  }

  /**
   * Says that bytes are about to be written.
   * @param size of which quotas know, until they are a file: what is announced, or may come
   * @throws ServiceError 400 when the file must not exist and does
   */
  async reserve(
    blob: string,
    provider: string,
    { id, create, userId }: NewFile,
    size?: number,
    transaction?: Transaction,
  ): Promise<void> {
    const place = { blob, provider, free: create ? id : null, size: size ?? null, userId }
    const reserved = transaction ? (await this.reserveAll([place], transaction))[0] : await this.reserved.ask(place)
    if (!reserved) throw new AlreadyExists(id)
  }

  private async reserveAll(places: readonly Place[], transaction?: Transaction): Promise<readonly boolean[]> {
    const column = <K extends keyof Place>(name: K) => places.map((place) => place[name])
    const values = [column('blob'), column('provider'), column('free'), column('size'), column('userId')]
    const rows = await this.data.query<{ blob: string }>(RESERVE, values, transaction)
    const reserved = new Set(rows.map(({ blob }) => blob))
    return places.map(({ blob }) => reserved.has(blob))
  }

  /**
   * Bytes of all files of a user but the one that will be replaced, and of all that is on its way but what it comes from.
   * Until the transaction ends nobody else asks.
   */
  async used(file: Pick<NewFile, 'id' | 'userId' | 'upload'>, transaction: Transaction): Promise<number> {
    const { id, userId, upload = null } = file
    await this.data.query(LOCK_USER, [userId], transaction)
    const [row] = await this.data.query<{ used: string }>(USED, [userId, id, upload], transaction)
    return Number(row?.used)
  }

  /** Tells quotas that what was announced has come, and is less. */
  async settle(blob: string, size: number): Promise<void> {
    await this.data.query(SETTLE, [blob, size])
  }

  /** How many of them nobody has taken for lost. */
  async renew(blobs: readonly string[]): Promise<number> {
    return (await this.data.query(RENEW, [blobs])).length
  }

  /** False when the bytes are a file's by now. What nobody knows any more can never become one. */
  async giveUp(blob: string): Promise<boolean> {
    if ((await this.data.query(GIVE_UP_ONE, [blob])).length > 0) return true
    return (await this.data.query(KNOWN, [blob])).length === 0
  }

  /** What a file is now; in a transaction it stays so until that ends. */
  async version(id: string, transaction?: Transaction): Promise<Version | undefined> {
    const [row] = await this.data.query<Version>(transaction ? `${VERSION} for update` : VERSION, [id], transaction)
    return row
  }

  /**
   * Makes bytes that are durable the content of the file.
   * @param create it must not exist yet
   * @returns JSON text of the record
   * @throws ServiceError 400 when the file must not exist and does; 503 when the bytes were taken for lost
   */
  async store(blob: StoredBlob, create: boolean, transaction?: Transaction): Promise<string> {
    const together = transaction ? undefined : await (create ? this.created : this.replaced).ask(blob)
    if (together !== undefined) return together
    const [record] = await this.storeAll(create ? CREATE : REPLACE, [blob], transaction).catch((error: unknown) => {
      throw isTaken(error) ? new AlreadyExists(blob.file.id) : error
    })
    if (record === undefined) throw uploadLost()
    return record
  }

  /** By one commit. Where that cannot be, or not at once, each tries alone and is told why: a blob is stored only once. */
  private async storeTogether(text: string, blobs: readonly StoredBlob[]): Promise<readonly (string | undefined)[]> {
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
      blobs.map(({ file }) => file.upload ?? null),
    ]
    const rows = await this.data.query<{ blob: string; record: string }>(text, values, transaction)
    const records = new Map(rows.map(({ blob, record }) => [blob, record]))
    return blobs.map(({ blob }) => records.get(blob))
  }

  /** Forgets bytes that never became a file, or are no file's any more, once they are gone. */
  async forget(blob: string): Promise<void> {
    await this.data.query(FORGET, [blob])
  }

  /** @throws ServiceError 404 */
  async remove(id: string, transaction?: Transaction): Promise<void> {
    const rows = await this.data.query(REMOVE, [id], transaction)
    if (rows.length === 0) throw notFound(id)
  }

  /**
   * Bytes to take away: those that no file has had for a while, and those whose writer is gone.
   * @param stuck those that could not be taken away a moment ago
   */
  async waste(
    graceSeconds: number,
    most: number,
    stuck: readonly string[],
  ): Promise<readonly { readonly blob: string; readonly provider: string }[]> {
    await this.data.query(GIVE_UP)
    return this.data.query(WASTE, [graceSeconds, most, stuck])
  }
}

/** SQLSTATE 23505 on the primary key of the files. */
function isTaken(error: unknown): boolean {
  const cause = (error instanceof ServiceError ? error.cause : error) as
    | { code?: string; constraint?: string }
    | undefined
  return cause?.code === '23505' && cause.constraint === 'svc_file_pkey'
}

const RECORD = `json_build_object('file_id', file_id, 'content_type', content_type, 'file_status', file_status,
  'file_size', file_size, 'user_id', user_id, 'user_role', user_role, 'created_at', created_at)::text as record`

const FIND = `
select file_id as id, content_type as "contentType", file_size::text as size, etag,
  extract(epoch from updated_at)::float8 * 1000 as updated, blob_id as blob, provider,
  coalesce(damaged in ('size', 'sha256'), false) as damaged
from svc_catalog.svc_file join svc_catalog.svc_blob using (blob_id) where file_id = any ($1)`
interface FoundRow extends Omit<StoredFile, 'size' | 'updatedAt'> {
  readonly id: string
  /** A bigint in digits. */
  readonly size: string
  /** Milliseconds since 1970. */
  readonly updated: number
}

const VERSION = 'select etag, updated_at as "updatedAt" from svc_catalog.svc_file where file_id = $1'

const RESERVE = `
insert into svc_catalog.svc_blob (blob_id, provider, state, leased_until, size, user_id)
select blob, provider, 'writing', now() + interval '${LEASE_SECONDS} seconds', size, user_id
from unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::bigint[]) as place (blob, provider, free, size, user_id)
where free is null or not exists (select 1 from svc_catalog.svc_file where file_id = free)
returning blob_id as blob`
interface Place {
  readonly blob: string
  readonly provider: string
  /** A file that must not exist yet. */
  readonly free: string | null
  readonly size: number | null
  readonly userId: string
}

/** One key for each user, among the locks of this purpose. */
const LOCK_USER = "select pg_advisory_xact_lock(hashtextextended('svc_catalog.svc_file of ' || $1, 0))"
const USED = `
select (
  coalesce((select sum(file_size) from svc_catalog.svc_file where user_id = $1 and file_id <> $2), 0) +
  coalesce((select sum(size) from svc_catalog.svc_blob where user_id = $1 and state = 'writing'), 0) +
  coalesce((select sum(length) from svc_catalog.svc_upload
    where user_id = $1 and stored_at is null and expires_at > now() and upload_id is distinct from $3), 0)
)::text as used`
const SETTLE = `update svc_catalog.svc_blob set size = $2 where blob_id = $1 and state = 'writing'`

const RENEW = `
update svc_catalog.svc_blob set leased_until = now() + interval '${LEASE_SECONDS} seconds'
where blob_id = any($1) and state = 'writing' returning 1`

/** Nothing is stored unless the blob is still being written: who has given it up may have deleted the bytes. */
const STORE = `
with stored as (
  select * from unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::uuid[])
    as stored (blob_id, bytes, hex, file_id, content_type, user_id, user_role, upload_id)
), blob as (
  update svc_catalog.svc_blob as blob set state = 'live', size = bytes, sha256 = decode(hex, 'hex'), leased_until = null
  from stored where blob.blob_id = stored.blob_id and state = 'writing' returning stored.*
), upload as (
  update svc_catalog.svc_upload set stored_at = now() where upload_id in (select upload_id from blob)
)
insert into svc_catalog.svc_file (file_id, blob_id, content_type, file_size, user_id, user_role, etag)
select file_id, blob_id, content_type, bytes, user_id, user_role, '"' || hex || '"' from blob`
const STORED = `returning blob_id as blob, ${RECORD}`
const OVER = `
on conflict (file_id) do update set blob_id = excluded.blob_id, content_type = excluded.content_type,
  file_size = excluded.file_size, user_id = excluded.user_id, user_role = excluded.user_role, etag = excluded.etag,
  updated_at = greatest(clock_timestamp(), svc_file.updated_at)`
const CREATE = `${STORE} ${STORED}`
const REPLACE = `${STORE} ${OVER} ${STORED}`
/** Fails when a file stays locked, also one that another transaction makes: nobody waits for the file of somebody else. */
const AT_ONCE = `${STORE} where set_config('lock_timeout', '50ms', true) is not null order by file_id`
const CREATE_AT_ONCE = `${AT_ONCE} ${STORED}`
const REPLACE_AT_ONCE = `${AT_ONCE} ${OVER} ${STORED}`

const REMOVE = 'delete from svc_catalog.svc_file where file_id = $1 returning 1'
const FORGET = `delete from svc_catalog.svc_blob where blob_id = $1 and state <> 'live'`

const GIVE_UP = `
update svc_catalog.svc_blob set state = 'dead', dead_at = 'epoch' where state = 'writing' and leased_until < now()`
/** If they cannot be deleted now they have the grace of others: a store may still be getting them. */
const GIVE_UP_ONE = `
update svc_catalog.svc_blob set state = 'dead', dead_at = now() where state <> 'live' and blob_id = $1 returning 1`
const KNOWN = 'select 1 from svc_catalog.svc_blob where blob_id = $1'
const WASTE = `
select blob_id as blob, provider from svc_catalog.svc_blob
where state = 'dead' and dead_at <= now() - make_interval(secs => $1) and blob_id <> all ($3::uuid[])
order by dead_at limit $2`
