import { type CommandContext, type ObjectStore, ServiceError } from 'rowhouse'
import { isUuid } from '../file-id.js'
import type { StoreReport } from './report.js'

/** A store and the objects in it. */
export interface ListedStore {
  readonly report: StoreReport
  /** Undefined if it is not available. The report has the reason. */
  readonly store?: ObjectStore
  /** Sizes of the objects without a row so far, by key. Undefined if the store cannot list its objects. */
  readonly unmatched?: Map<string, number>
  /** Number of objects with a row of this store. */
  matched: number
  /** Number of objects with a row of another store. */
  misplaced: number
}

/** @param provider name of a provider. One that is no longer configured is reported as unavailable */
export async function listStore(
  context: Pick<CommandContext, 'provider' | 'signal'>,
  provider: string,
  deep: boolean,
  progress: (text: () => string) => void,
): Promise<ListedStore> {
  const counts = { matched: 0, misplaced: 0 }
  try {
    const store = await context.provider('storage', provider)
    if (!store.list) return { report: { provider, ...unlisted(deep) }, store, ...counts }
    const unmatched = new Map<string, number>()
    let objects = 0
    let bytes = 0
    for await (const { key, size } of store.list(context.signal)) {
      objects += 1
      bytes += size
      if (isUuid(key)) unmatched.set(key, size)
      progress(() => `${objects} objects found in ${provider}`)
    }
    const foreign = objects - unmatched.size
    const notes = foreign === 0 ? [] : [`ignored ${foreign} objects whose names are not ids of blobs`]
    return { report: { provider, objects, bytes, notes }, store, unmatched, ...counts }
  } catch (error) {
    context.signal.throwIfAborted()
    return { report: { provider, problem: `cannot be listed: ${errorText(error)}`, notes: [] }, ...counts }
  }
}

/** Prefers the cause of a `ServiceError`, because its own message is for clients. */
export function errorText(error: unknown): string {
  if (error instanceof ServiceError && error.cause instanceof Error) return error.cause.message
  return error instanceof Error ? error.message : String(error)
}

/** Limits progress messages to one every five seconds. */
export function progressTo(write: (text: string) => void): (text: () => string) => void {
  let last = performance.now()
  return (text) => {
    if (performance.now() - last < PROGRESS_MS) return
    last = performance.now()
    write(text())
  }
}

const PROGRESS_MS = 5000

const unlisted = (deep: boolean): Pick<StoreReport, 'problem' | 'notes'> =>
  deep
    ? { notes: ['the store cannot list its objects, so objects without a row are not found'] }
    : { problem: 'the store cannot list its objects: rowhouse fsck --deep reads those of all files', notes: [] }
