import type { Logger } from 'pino'
import type { Answer, KeptAnswer } from '../answer.js'
import { type ServiceError, serviceError } from '../errors.js'
import { type KeyedRequest, ownerOf, sha256 } from '../request-headers.js'
import type { Infer, Schema } from '../json/schema.js'
import { setting } from '../json/setting.js'
import { Periodic } from '../queue/periodic.js'
import { SharedCache } from './shared-cache.js'
import type { Data } from './data.js'
import type { Call } from './operations.js'

const { count } = setting

/** The section `idempotency` of the configuration. */
export const idempotencyConfig = {
  type: 'object',
  default: {},
  advanced: true,
  properties: {
    keepHours: {
      ...count(
        24,
        'How long the server keeps the answer to a request with an `Idempotency-Key`, in hours. Afterwards the key may be used again.',
      ),
      maximum: 8760,
    },
    maxAnswerBytes: {
      type: 'integer',
      minimum: 1024,
      maximum: 64 * 2 ** 20,
      default: 2 ** 20,
      description:
        'Maximum size of an answer to a request with an `Idempotency-Key`. A request with a larger answer fails with 400 and has no effect.',
    },
    maxCallerBytes: {
      type: 'integer',
      minimum: 1024,
      default: 16 * 2 ** 20,
      description:
        'Maximum size of all answers kept for one caller. Each counts 1 KiB more. Further requests with an `Idempotency-Key` then fail with 429. The role admin has no limit.',
    },
  },
} as const satisfies Schema
export type IdempotencyConfig = Infer<typeof idempotencyConfig>

/** Runs requests with an `Idempotency-Key` once, and dry runs. */
interface Once extends Pick<Data, 'once' | 'isKept'> {
  /** Deletes what has been kept long enough, until `close`. */
  startPruning(): void
  close(): Promise<void>
}

/** @param processes number of processes that share the quotas of callers */
export function createOnce(
  { query, transaction, undone }: Pick<Data, 'query' | 'transaction'> & { readonly undone: Data['transaction'] },
  { keepHours, maxAnswerBytes, maxCallerBytes }: IdempotencyConfig,
  log: Logger,
  processes: number,
): Once {
  const quota = createQuota(maxCallerBytes, processes)
  const pruning = new Periodic(
    PRUNE_MS,
    async (signal) => {
      while (!signal.aborted && (await query(PRUNE)).length === BATCH) {}
    },
    (error) => log.debug({ err: error }, 'could not delete old answers; will retry'),
  )

  async function keep<A extends Answer>(
    keyed: KeyedRequest,
    call: Call,
    fn: (call: Call) => Promise<A>,
  ): Promise<A | KeptAnswer> {
    const { key } = keyed
    const { caller } = call.session
    const owner = ownerOf(call.session)
    const hash = keyed.hash(call.session)
    const countedAs = caller === undefined ? null : sha256(caller)
    return transaction(call, async (inner) => {
      const within = inner.transaction
      const [lock] = await query<{ taken: boolean }>(LOCK, [lockOf(owner, key)], within)
      if (!lock?.taken) throw inProgress()
      const [found] = await query<Kept>(FIND, [owner, key], within)
      if (found) {
        if (!found.hash.equals(hash)) throw reused()
        call.headers?.set('Idempotency-Replayed', 'true')
        const { body, status, type } = found
        return { kind: 'text', text: body.toString(), status, contentType: type ?? undefined }
      }
      const sum = async () => (await query<{ bytes: number }>(SUM, [countedAs], within))[0]?.bytes ?? 0
      const take = countedAs ? await quota.admit(countedAs, sum) : () => {}
      const answer = await fn(inner)
      const bytes = bytesOf(answer, maxAnswerBytes)
      const { status = 200, contentType = null } = answer
      const kept = await query(KEEP, [owner, key, hash, status, contentType, bytes, keepHours, countedAs], within)
      if (kept.length > 0) take(bytes.length)
      return answer
    })
  }

  return {
    once(call, fn) {
      const { keyed, dryRun, transaction: outer } = call
      if (outer || !(keyed || dryRun)) return fn(call)
      if (!keyed) return undone(call, fn)
      if (!dryRun) return keep(keyed, call, fn)
      throw serviceError('not-supported', 'a dry run takes no Idempotency-Key', HEADER)
    },
    async isKept({ keyed, session }) {
      return keyed !== undefined && (await query(FIND, [ownerOf(session), keyed.key])).length > 0
    },
    startPruning: () => void pruning.start(),
    close: () => pruning.stop(),
  }
}

interface Kept {
  readonly hash: Buffer
  readonly status: number
  /** Null for JSON. */
  readonly type: string | null
  readonly body: Buffer
}

/** A statement of its own before `FIND`: only later ones see what the last holder of the lock has committed. */
const LOCK = 'select pg_catalog.pg_try_advisory_xact_lock($1::bigint) as taken'
const FIND = `
select request_hash as hash, status, content_type as type, body from svc_catalog.svc_kept_answer
where caller = $1 and key = $2 and expires_at > pg_catalog.now()`
/**
 * Keeps nothing for a request of a caller with limits that changed nothing, because it may as well run again. An expired
 * key may be used again.
 */
const KEEP = `
insert into svc_catalog.svc_kept_answer (caller, key, request_hash, status, content_type, body, expires_at, counted_as)
select $1, $2, $3, $4, $5, $6, pg_catalog.now() + pg_catalog.make_interval(hours => $7), $8::bytea
where $8::bytea is null or pg_catalog.pg_current_xact_id_if_assigned() is not null
on conflict (caller, key) do update set request_hash = excluded.request_hash, status = excluded.status,
  content_type = excluded.content_type, body = excluded.body, expires_at = excluded.expires_at,
  counted_as = excluded.counted_as
returning 1`
/** What each answer counts besides its size, in bytes. */
const EACH = 1024
const SUM = `
select coalesce(pg_catalog.sum(pg_catalog.length(body) + ${EACH}), 0)::float8 as bytes from svc_catalog.svc_kept_answer
where counted_as = $1 and expires_at > pg_catalog.now()`

const PRUNE_MS = 60_000
const BATCH = 1000
/** Uses the index svc_kept_answer_expired. The last condition spares a key that is used again at this moment. */
const PRUNE = `
delete from svc_catalog.svc_kept_answer where (caller, key) in (
  select caller, key from svc_catalog.svc_kept_answer where expires_at < pg_catalog.now() order by expires_at limit ${BATCH})
and expires_at < pg_catalog.now() returning 1`

const lockOf = (owner: string, key: string): string =>
  String(sha256(JSON.stringify(['Idempotency-Key', owner, key])).readBigInt64BE())

/** @throws ServiceError 400, before anything is committed */
function bytesOf(answer: Answer, maxBytes: number): Buffer {
  if (answer.kind === 'stream') {
    throw serviceError('not-supported', 'a streamed answer cannot be kept for an Idempotency-Key', HEADER)
  }
  const bytes = answer.kind === 'text' ? Buffer.from(answer.text) : answer.bytes
  if (bytes.length <= maxBytes) return bytes
  const message = `the answer has ${bytes.length} bytes, and at most ${maxBytes} are kept for an Idempotency-Key (idempotency.maxAnswerBytes)`
  throw serviceError('answer-too-large', message, HEADER)
}

interface Quota {
  /**
   * @param sum asks the database how many bytes are kept for the caller
   * @returns takes bytes of what is left, or throws as well, before the commit
   * @throws ServiceError 429 too-many-requests: nothing is left
   */
  admit(caller: Buffer, sum: () => Promise<number>): Promise<(bytes: number) => void>
}

const RECOUNT_MS = 60_000
/** A caller that has nothing left is counted again no sooner. */
const REFUSE_MS = 1000
/** Memory for the counts of callers. A caller that is forgotten is counted again. */
const COUNTS_BYTES = 4 * 2 ** 20

/**
 * Limits the bytes that a caller may leave. The database is asked once a minute; in between a process may spend its part
 * of what was left.
 */
function createQuota(most: number, processes: number): Quota {
  const counts = new SharedCache<{ left: number; readonly until: number }>(COUNTS_BYTES)

  return {
    async admit(caller, sum) {
      const key = caller.toString('base64')
      const now = performance.now()
      let count = counts.get(key)
      if (!count || count.until < now || (count.left < EACH && count.until - RECOUNT_MS + REFUSE_MS < now)) {
        const stale = count
        const left = (most - (await sum())) / processes
        // Another request may have counted meanwhile, and taken from it.
        count = counts.get(key)
        if (!count || count === stale) counts.set(key, (count = { left, until: now + RECOUNT_MS }), 0, key)
      }
      const own = count
      const mustHave = (bytes: number): void => {
        if (own.left < bytes) throw usedUp(most)
      }
      mustHave(EACH)
      return (bytes) => {
        mustHave(bytes + EACH)
        own.left -= bytes + EACH
      }
    },
  }
}

function usedUp(most: number): ServiceError {
  const message = `the answers that are kept for the keys of this caller may have at most ${most} bytes (idempotency.maxCallerBytes)`
  return serviceError('too-many-requests', message, HEADER, { retryAfter: RECOUNT_MS / 1000 })
}

const HEADER = '$.headers.Idempotency-Key'
const inProgress = () =>
  serviceError('idempotency-in-progress', 'the first request with this Idempotency-Key is in progress', HEADER, {
    retryAfter: 1,
  })
const reused = () => serviceError('idempotency-key-reused', 'this Idempotency-Key was used for another request', HEADER)
