import { Piscina } from 'piscina'
import { ServiceError, serviceError } from '../errors.js'
import { type Json, type JsonLimits, type JsonObject, BareObject, keepKeys, NumberText, Rows } from '../json/parse.js'
import {
  NUMBER,
  type ParseAnswer,
  type ParseTask,
  type Sent,
  type SentKeys,
  type SentObject,
  type SentRows,
} from './parse-worker.js'

/** Time after which an idle worker ends, in milliseconds. */
const IDLE_MS = 30_000
/** Memory of the worker, in MiB: many times that of the largest body. */
const MEMORY_MB = 2048

/** Maximum number of bodies that wait. */
const MAX_QUEUE = 200

let pool: Piscina<ParseTask, ParseAnswer> | undefined

function openPool(): Piscina<ParseTask, ParseAnswer> {
  const opened = new Piscina<ParseTask, ParseAnswer>({
    filename: new URL('./parse-worker.js', import.meta.url).href,
    minThreads: 0,
    maxThreads: 1,
    maxQueue: MAX_QUEUE,
    idleTimeout: IDLE_MS,
    resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB },
  })
  // A worker that fails is replaced for the next body.
  opened.on('error', () => {
    if (pool === opened) pool = undefined
  })
  return opened
}

/**
 * Parses a long body in a worker, one body at a time. The body cannot be used afterwards.
 * @see parseJson
 * @throws ServiceError as `parseJson` and `decodeUtf8`
 */
export async function parseInWorker(body: Buffer, limits: JsonLimits, rowsAt: RegExp | undefined): Promise<Json> {
  pool ??= openPool()
  // The memory of a small chunk is shared with others.
  const bytes = body.buffer.byteLength === body.length ? (body as Uint8Array<ArrayBuffer>) : Uint8Array.from(body)
  const answer = await pool.run({ bytes, limits, rowsAt }, { transferList: [bytes.buffer] }).catch((cause: unknown) => {
    throw serviceError('too-busy', 'the body could not be parsed', '$', { cause, retryAfter: 1 })
  })
  if ('value' in answer) return received(answer.value)
  const { status, code, message, path } = answer.refused
  throw new ServiceError(status, code, message, path)
}

/** Restores the classes that a message between threads loses. */
function received(value: Sent): Json {
  if (typeof value === 'string') return value.startsWith(NUMBER) ? new NumberText(value.slice(1)) : value
  if (value === null || typeof value !== 'object') return value
  if (value instanceof Map) return rowsFrom(value)
  if (value instanceof Set) return inOrder(value)
  if (Array.isArray(value)) {
    const list = value as Json[]
    for (const [i, each] of value.entries()) {
      if (typeof each === 'object' || typeof each === 'string') list[i] = received(each)
    }
    return list
  }
  const object: JsonObject = new BareObject()
  for (const key of Object.keys(value)) object[key] = received(value[key] as Sent)
  return object
}

function inOrder(sent: SentKeys): JsonObject {
  const [keys, value] = [...sent] as [readonly string[], SentObject]
  const object = received(value) as JsonObject
  keepKeys(object, keys)
  return object
}

function rowsFrom(sent: SentRows): Rows {
  const [[source, { count, columns }]] = [...sent] as [[string, { count: number; columns: Rows['columns'] }]]
  return new Rows(source, count, columns)
}
