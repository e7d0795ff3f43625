import type { Data } from 'rowhouse'
import { ServiceError } from 'rowhouse'
import { alreadyExists, notFound } from './errors.js'

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
export interface StoredFile {
  readonly contentType: string
  readonly size: number
  /** With its quotes. */
  readonly etag: string
  readonly updatedAt: Date
  readonly blob: string
  readonly provider: string
}

export interface NewFile {
  /** Undefined: the server makes one up. */
  readonly id: string
  /** It must not exist yet. */
  readonly create: boolean
  readonly contentType: string
  readonly userId: string
  readonly role: string
}

/** How long an upload may be silent before its bytes are taken away. */
export const LEASE_SECONDS = 60

/** The records of files and blobs. Every change is one statement, so it happens or it does not. */
export class Files {
  private readonly data: Data

  constructor(data: Data) {
    this.data = data
  }

  async find(id: string): Promise<StoredFile> {
    const [row] = await this.data.query<StoredFile & { size: string }>(FIND, [id])
    if (!row) throw notFound(id)
    return { ...row, size: Number(row.size) }
  }

  /** Says that bytes are about to be written. @throws ServiceError 400 when the file must not exist and does */
  async reserve(blob: string, provider: string, { id, create }: NewFile): Promise<void> {
    const rows = await this.data.query(RESERVE, [blob, provider, create ? id : null])
    if (rows.length === 0) throw alreadyExists(id)
  }

  /** False when somebody has taken the bytes for lost. */
  async renew(blob: string): Promise<boolean> {
    return (await this.data.query(RENEW, [blob])).length > 0
  }

  /**
   * Makes bytes that are durable the content of the file.
   * @returns JSON text of the record
   * @throws ServiceError 400 when the file must not exist and does; 503 when the bytes were taken for lost
   */
  async commit(blob: string, size: number, sha256: Buffer, file: NewFile): Promise<string> {
    const { id, create, contentType, userId, role } = file
    const values = [blob, size, sha256, id, contentType, userId, role, `"${sha256.toString('hex')}"`]
    const rows = await this.data
      .query<{ record: string }>(create ? CREATE : REPLACE, values)
      .catch((error: unknown) => Promise.reject(isTaken(error) ? alreadyExists(id) : error))
    const [row] = rows
    if (row) return row.record
    throw new ServiceError(503, 'upload_lost', 'the upload took too long; send it again', '$', { retryAfter: 1 })
  }

  /** Forgets bytes that never became a file, or are no file's any more, once they are gone. */
  async forget(blob: string): Promise<void> {
    await this.data.query(FORGET, [blob])
  }

  async remove(id: string): Promise<void> {
    const rows = await this.data.query(REMOVE, [id])
    if (rows.length === 0) throw notFound(id)
  }

  /** Bytes to take away: those that no file has had for a while, and those whose writer is gone. */
  async waste(
    graceSeconds: number,
    most: number,
  ): Promise<readonly { readonly blob: string; readonly provider: string }[]> {
    await this.data.query(GIVE_UP)
    return this.data.query(WASTE, [graceSeconds, most])
  }
}

/** SQLSTATE 23505 on the primary key of the files. */
function isTaken(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause as { code?: string; constraint?: string } | undefined) : undefined
  return cause?.code === '23505' && cause.constraint === 'svc_file_pkey'
}

const RECORD = `json_build_object('file_id', file_id, 'content_type', content_type, 'file_status', file_status,
  'file_size', file_size, 'user_id', user_id, 'user_role', user_role, 'created_at', created_at)::text as record`

const FIND = `
select content_type as "contentType", file_size::text as size, etag, updated_at as "updatedAt", blob_id as blob, provider
from svc_catalog.svc_file join svc_catalog.svc_blob using (blob_id) where file_id = $1`

const RESERVE = `
insert into svc_catalog.svc_blob (blob_id, provider, state, leased_until)
select $1, $2, 'writing', now() + interval '${LEASE_SECONDS} seconds'
where $3::text is null or not exists (select 1 from svc_catalog.svc_file where file_id = $3)
returning 1`

const RENEW = `
update svc_catalog.svc_blob set leased_until = now() + interval '${LEASE_SECONDS} seconds'
where blob_id = $1 and state = 'writing' returning 1`

/** Nothing is stored unless the blob is still being written: who has given it up may have deleted the bytes. */
const STORE = `
with blob as (
  update svc_catalog.svc_blob set state = 'live', size = $2, sha256 = $3, leased_until = null
  where blob_id = $1 and state = 'writing' returning blob_id
)
insert into svc_catalog.svc_file (file_id, blob_id, content_type, file_size, user_id, user_role, etag)
select $4, blob_id, $5, $2, $6, $7, $8 from blob`
const CREATE = `${STORE} returning ${RECORD}`
const REPLACE = `${STORE}
on conflict (file_id) do update set blob_id = excluded.blob_id, content_type = excluded.content_type,
  file_size = excluded.file_size, user_id = excluded.user_id, user_role = excluded.user_role, etag = excluded.etag,
  updated_at = now()
returning ${RECORD}`

const REMOVE = 'delete from svc_catalog.svc_file where file_id = $1 returning 1'
const FORGET = `delete from svc_catalog.svc_blob where blob_id = $1 and state <> 'live'`

const GIVE_UP = `
update svc_catalog.svc_blob set state = 'dead', dead_at = 'epoch' where state = 'writing' and leased_until < now()`
const WASTE = `
select blob_id as blob, provider from svc_catalog.svc_blob
where state = 'dead' and dead_at <= now() - make_interval(secs => $1) order by dead_at limit $2`
