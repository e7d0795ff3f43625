import { useEffect, useState } from 'preact/hooks'
import type { JsonObject } from '../../json.js'
import type { GridRow } from '../../ui/grid.js'
import { readAsRole, readRows, readSeen, type Trial } from './trial.js'

/** Rows, and which of them the permission is about. */
interface Tried {
  readonly rows: readonly GridRow[] | undefined
  /** Keys of the rows; undefined while it is not known. */
  readonly seen: ReadonlySet<string> | undefined
  /** What the role gets; undefined unless it was asked for. */
  readonly own: readonly GridRow[] | undefined
  readonly failure: unknown
}
const NOTHING: Tried = { rows: undefined, seen: undefined, own: undefined, failure: undefined }

/** Waits before it tries what somebody types, in milliseconds. */
export const PAUSE_MS = 500

/**
 * Tries a permission whenever something about it changes.
 * @param trial undefined if it cannot be tried now
 * @param definition permission to try; undefined for none
 */
export function useTrial(trial: Trial | undefined, definition: JsonObject | undefined, wantsOwn: boolean): Tried {
  const [tried, setTried] = useState(NOTHING)
  const key = JSON.stringify([trial && { ...trial, table: trial.place.table }, definition, wantsOwn])
  useEffect(() => {
    if (!trial) return undefined
    const trying = new AbortController()
    const { signal } = trying
    const put = (by: Partial<Tried>) => signal.aborted || setTried((before) => ({ ...before, ...by }))
    const run = async () => {
      put({ failure: undefined })
      try {
        if (wantsOwn) put({ own: await readAsRole(trial, signal) })
        else {
          const rows = await readRows(trial, signal)
          put({ rows, seen: undefined })
          if (trial.table.primary_key.length > 0) put({ seen: await readSeen(trial, rows, definition, signal) })
        }
      } catch (failure) {
        put({ failure, own: undefined })
      }
    }
    const timer = setTimeout(() => void run(), PAUSE_MS)
    return () => {
      clearTimeout(timer)
      trying.abort()
    }
  }, [key])
  return tried
}
