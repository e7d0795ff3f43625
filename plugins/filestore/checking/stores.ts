import { type CommandContext, type ObjectStore, ServiceError } from 'rowhouse'
import type { StoreReport } from './report.js'

/** A store and the objects in it. */
export interface ListedStore {
  readonly report: StoreReport
  /** Undefined: it is not available, for the reason given in the report. */
  readonly store?: ObjectStore
  /** Sizes of objects by key, without those a row has been found for. Undefined: the store cannot list. */
  readonly unmatched?: Map<string, number>
  /** How many objects have a row of this store, or of another one. */
  matched: number
  misplaced: number
}

/** @param provider a configured one, or one that only rows name, which is reported as unavailable */
export async function listStore(
  context: CommandContext,
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
      if (UUID.test(key)) unmatched.set(key, size)
      progress(() => `${objects} objects found in ${provider}`)
    }
    const foreign = objects - unmatched.size
    const notes = foreign === 0 ? [] : [`${foreign} objects have other names than blobs have; ignored`]
    return { report: { provider, objects, bytes, notes }, store, unmatched, ...counts }
  } catch (error) {
    context.signal.throwIfAborted()
    return { report: { provider, problem: `cannot be listed: ${errorText(error)}`, notes: [] }, ...counts }
  }
}

/** Prefers the cause of a `ServiceError`, whose own message is written for clients. */
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
const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/

const unlisted = (deep: boolean): Pick<StoreReport, 'problem' | 'notes'> =>
  deep
    ? { notes: ['it cannot list its objects, so objects without a row are not found'] }
    : { problem: 'it cannot list its objects: rowhouse fsck --deep reads those that files need', notes: [] }
