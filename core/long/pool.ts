import { MessageChannel, type Transferable } from 'node:worker_threads'
import { Piscina } from 'piscina'
import { ServiceError, serviceError } from '../errors.js'
import type { Json, JsonLimits, Rows } from '../json/parse.js'
import { LONG } from '../json/rows.js'
import { keepBound, type RowsColumns } from '../sql/bind-rows.js'
import { Turns } from './turns.js'
import { received, receivedLists, sentRows } from './sent.js'
import type { LongAnswer, LongTask } from './worker.js'

/** Time after which an idle worker ends, in milliseconds. */
const IDLE_MS = 30_000
/** Memory of the worker, in MiB: many times that of the largest body. */
const MEMORY_MB = 2048

/** Whose work it is, and whether the client still waits for it. */
interface Client {
  /** Absent: the role admin. */
  readonly caller?: string | undefined
  readonly signal: AbortSignal
}

let pool: Piscina<LongTask, LongAnswer> | undefined
const turns = new Turns()

function openPool(): Piscina<LongTask, LongAnswer> {
  const opened = new Piscina<LongTask, LongAnswer>({
    filename: new URL('./worker.js', import.meta.url).href,
    minThreads: 0,
    maxThreads: 1,
    idleTimeout: IDLE_MS,
    // V8 never shrinks the young generation.
    resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB, maxYoungGenerationSizeMb: 16 },
  })
  // A worker that fails is replaced for the next task.
  opened.on('error', () => {
    if (pool === opened) pool = undefined
  })
  return opened
}

type Done = Extract<LongAnswer, { readonly value: unknown }>

/** Runs a task in the worker, one at a time, in turns between callers. */
async function run(task: LongTask, { caller, signal }: Client, transferList: Transferable[] = []): Promise<Done> {
  const done = await turns.take(caller, signal)
  pool ??= openPool()
  const answer = await pool
    .run(task, { transferList })
    .catch((cause: unknown) => {
      throw serviceError('too-busy', 'the body could not be read', '$', { cause, retryAfter: 1 })
    })
    .finally(done)
  if ('value' in answer) return answer
  const { status, code, message, path } = answer.refused
  throw new ServiceError(status, code, message, path)
}

/**
 * Parses a long body in the worker. The body cannot be used afterwards.
 * @see parseJson
 * @throws ServiceError as `parseJson` and `decodeUtf8`
 */
export async function parseInWorker(
  body: Buffer,
  limits: JsonLimits,
  rowsAt: RegExp | undefined,
  client: Client,
): Promise<Json> {
  // The memory of a small chunk is shared with others.
  const isOwn = body.byteOffset === 0 && body.length > LONG
  const bytes = isOwn ? (body as Uint8Array<ArrayBuffer>) : Uint8Array.from(body)
  const { port1: own, port2: port } = new MessageChannel()
  try {
    const { value, lists } = await run({ bytes, limits, rowsAt, port }, client, [bytes.buffer, port])
    return received(value, await receivedLists(lists, own))
  } finally {
    own.close()
  }
}

/** Binds long rows in the worker, where `bindRows` has to read them, so that `bind` finds their text. */
export async function bindInWorker(rows: Rows, columns: RowsColumns, client: Client): Promise<void> {
  keepBound(rows, columns, (await run({ rows: sentRows(rows), columns }, client)).value as string)
}
