import type { Data } from 'rowhouse'
import type { Damage, Written } from './verify.js'

/** Records when blobs were verified, and with which result. */
export class CheckResults {
  constructor(private readonly data: Pick<Data, 'query'>) {}

  /** Claims the blob that was verified longest ago, if it is due. No other server gets it for a while. */
  async claim(everyDays: number, bytesPerSecond: number): Promise<Written | undefined> {
    const [row] = await this.data.query<Row>(CLAIM, [everyDays * DAY_SECONDS, bytesPerSecond])
    return row && { ...row, size: Number(row.size) }
  }

  /** Skips a blob that could not be read for a day, so that other blobs are verified. */
  async postpone(blob: string): Promise<void> {
    await this.data.query(POSTPONE, [blob])
  }

  /**
   * Records a result until the blob is verified again.
   * @returns the file that uses the blob; undefined when the blob is no longer in use, which makes the result meaningless
   */
  async record(blob: string, damage: Damage | undefined): Promise<{ readonly file: string | null } | undefined> {
    const [row] = await this.data.query<{ file: string | null }>(RECORD, [blob, damage ?? null])
    return row
  }

  /** Counts files that are recorded as damaged. */
  async damaged(): Promise<number> {
    const [row] = await this.data.query<{ count: number }>(DAMAGED)
    return row?.count ?? 0
  }
}

type Row = Omit<Written, 'size'> & { readonly size: string }
const DAY_SECONDS = 86_400

/** Uses svc_blob_scrub. A blob that was never verified was intact when it was written. */
const CLAIM = `
update svc_catalog.svc_blob set scrub_until = pg_catalog.now() + pg_catalog.make_interval(secs => greatest(60, 3 * size / $2::float8))
where blob_id = (
  select blob_id from svc_catalog.svc_blob
  where state = 'live' and coalesce(verified_at, created_at) <= pg_catalog.now() - pg_catalog.make_interval(secs => $1)
    and (scrub_until is null or scrub_until < pg_catalog.now())
  order by coalesce(verified_at, created_at) limit 1 for update skip locked
)
returning blob_id as blob, provider, size::text as size, sha256`

const POSTPONE = `update svc_catalog.svc_blob set scrub_until = pg_catalog.now() + interval '1 day' where blob_id = $1`

/** Only blobs of files and of pending uploads: the collector may have deleted others. */
const RECORD = `
with blob as (
  update svc_catalog.svc_blob set verified_at = pg_catalog.now(), damaged = $2, scrub_until = null
  where blob_id = $1 and (state = 'live' or state = 'writing' and sha256 is not null) returning blob_id
)
select file_id as file from blob left join svc_catalog.svc_file using (blob_id)`

const DAMAGED = `
select pg_catalog.count(*)::int as count from svc_catalog.svc_blob where damaged is not null and state = 'live'`
