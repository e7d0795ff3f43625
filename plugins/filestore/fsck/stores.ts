import { type CommandContext, type ObjectStore, ServiceError } from 'rowhouse'
import type { Progress } from './progress.js'
import type { StoreReport } from './report.js'

/** A store and what it holds. */
export interface Listed {
  readonly report: StoreReport
  /** Undefined: it could not be had, as its report says. */
  readonly store: ObjectStore | undefined
  /** Sizes of what it holds, by key; what has a row is taken out. Undefined: it cannot tell. */
  readonly left: Map<string, number> | undefined
}

/** All stores of the configuration, each with what it holds now. */
export async function listStores(
  context: CommandContext,
  deep: boolean,
  progress: Progress,
): Promise<Map<string, Listed>> {
  const stores = new Map<string, Listed>()
  for (const name of context.providerNames('storage')) stores.set(name, await listStore(context, name, deep, progress))
  return stores
}

/** @param provider of the configuration, or one that only rows name: then it is said that it cannot be had */
export async function listStore(
  context: CommandContext,
  provider: string,
  deep: boolean,
  progress: Progress,
): Promise<Listed> {
  try {
    const store = await context.provider('storage', provider)
    if (!store.list) return { report: { provider, ...unlisted(deep) }, store, left: undefined }
    const left = new Map<string, number>()
    let objects = 0
    let bytes = 0
    for await (const { key, size } of store.list(context.signal)) {
      objects += 1
      bytes += size
      // What others keep there is none of ours.
      if (UUID.test(key)) left.set(key, size)
      progress.tell(() => `${objects} objects found in ${provider}`)
    }
    const strangers = objects - left.size
    const notes = strangers === 0 ? [] : [`${strangers} objects have other names than ours; they are let be`]
    return { report: { provider, objects, bytes, notes }, store, left }
  } catch (error) {
    context.signal.throwIfAborted()
    return {
      report: { provider, problem: `cannot be looked at: ${reason(error)}`, notes: [] },
      store: undefined,
      left: undefined,
    }
  }
}

/** What a client may not know is in the cause. */
function reason(error: unknown): string {
  if (error instanceof ServiceError && error.cause instanceof Error) return error.cause.message
  return error instanceof Error ? error.message : String(error)
}

const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/

const unlisted = (deep: boolean): Pick<StoreReport, 'problem' | 'notes'> =>
  deep
    ? { notes: ['it cannot list what it holds, so bytes without a file are not found'] }
    : { problem: 'it cannot list what it holds: rowhouse fsck --deep reads what should be there', notes: [] }
