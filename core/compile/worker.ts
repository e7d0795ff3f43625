import { readlinkSync } from 'node:fs'
import { workerData } from 'node:worker_threads'
import type { Catalog } from '../catalog/catalog.js'
import { ServiceError, messageOf } from '../errors.js'
import { type AnyTask, importPlanner, isForeign, perform, type PlannerModule } from './compile.js'
import { type Decoded, decodeCatalog } from './encoded.js'

/**
 * A message of the pool: a task and the snapshot to compile it against. The snapshot is included after a worker has
 * answered that it lacks it. (Memory shared between threads would be held until each of them collects garbage, which an
 * idle one never does.)
 */
export interface WorkerTask {
  /** Absent: only imports the planners and stores the snapshot. */
  readonly task: AnyTask | undefined
  readonly catalogId: string
  readonly catalog?: Uint8Array
  /** Set to the Linux thread id, otherwise to -1, when the worker holds the snapshot. The deadline starts then. */
  readonly started: Int32Array
}
/** Errors are sent as data; an `Error` would lose its code and path. */
export type WorkerAnswer =
  | { readonly result: unknown }
  /** Ids of the snapshots that it holds. */
  | { readonly lacking: readonly string[] }
  /** Reason why a planner cannot be imported. */
  | { readonly unloadable: string }
  /** Stack of an unexpected error in a planner. */
  | { readonly bug: string }
  | {
      readonly refused: Pick<ServiceError, 'status' | 'code' | 'message' | 'path' | 'missing' | 'denied'>
    }

const urls = (workerData as { planners: Record<string, string> }).planners
const planners = new Map<string, PlannerModule>()
/** Newest snapshots by id. A request that started before a change still needs the previous one. */
const catalogs = new Map<string, Decoded>()
const KEPT = 2
const THREAD = threadId()

export default async function work({ task, catalogId, catalog, started }: WorkerTask): Promise<WorkerAnswer> {
  const snapshot = hold(catalogId, catalog)
  if (!snapshot) return { lacking: [...catalogs.keys()] }
  try {
    const wanted = task ? [task.planner] : Object.keys(urls).filter((name) => isForeign(urls[name] as string))
    for (const name of wanted) if (!planners.has(name)) await load(name)
  } catch (error) {
    return { unloadable: messageOf(error) }
  }
  if (!task) return { result: undefined }
  const planner = planners.get(task.planner) as PlannerModule
  Atomics.store(started, 0, THREAD)
  try {
    return { result: perform(task, planner, snapshot) }
  } catch (error) {
    if (!(error instanceof ServiceError)) return { bug: error instanceof Error ? (error.stack ?? '') : String(error) }
    const { status, code, message, path, missing, denied } = error
    return { refused: { status, code, message, path, missing, denied } }
  }
}

function hold(id: string, encoded: Uint8Array | undefined): Catalog | undefined {
  const held = catalogs.get(id)
  if (held) return held.catalog
  if (!encoded) return undefined
  const decoded = decodeCatalog(encoded, catalogs)
  if (!decoded) return undefined
  catalogs.set(id, decoded)
  for (const oldest of catalogs.keys()) {
    if (catalogs.size <= KEPT) break
    catalogs.delete(oldest)
  }
  return decoded.catalog
}

async function load(name: string): Promise<void> {
  planners.set(name, await importPlanner(name, urls[name] as string))
}

function threadId(): number {
  if (process.platform !== 'linux') return -1
  try {
    return Number(/\/task\/(\d+)$/.exec(readlinkSync('/proc/thread-self'))?.[1] ?? -1)
  } catch {
    return -1
  }
}
