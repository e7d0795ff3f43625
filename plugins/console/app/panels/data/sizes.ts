import { useEffect, useState } from 'preact/hooks'
import { query } from '../../api.js'
import { labelOf, type TableName } from '../../catalog.js'
import { acting, isAdmin } from '../../session.js'

export interface Size {
  readonly table: TableName
  /** null if unknown. */
  readonly rows: number | null
  readonly estimated: boolean
  readonly bytes: number
}

/**
 * Numbers of rows and bytes by table, for an admin who does not act as another role, and a function to call after rows of a table
 * were inserted, or deleted: PostgreSQL counts them some minutes later.
 */
export function useSizes(): readonly [ReadonlyMap<string, Size>, (label: string, rows: number) => void] {
  const [sizes, setSizes] = useState<ReadonlyMap<string, Size>>(new Map())
  useEffect(() => {
    if (!isAdmin.value || acting.value) return
    query<{ readonly tables: readonly Size[] }>('table_sizes', {})
      .then(({ tables }) => setSizes(new Map(tables.map((each) => [labelOf(each.table), each]))))
      .catch(() => {})
  }, [])
  const add = (label: string, added: number) =>
    setSizes((now) => {
      const size = now.get(label)
      if (!size || size.rows === null) return now
      return new Map(now).set(label, { ...size, rows: Math.max(0, size.rows + added) })
    })
  return [sizes, add]
}

const SHORT = new Intl.NumberFormat('en', { notation: 'compact' })
export const countText = (count: number): string => SHORT.format(count)

/** Returns e.g. `1.5 MB`. */
export function bytesText(bytes: number): string {
  const power = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), UNITS.length - 1)
  const value = bytes / 1000 ** power
  return `${value < 10 && power > 0 ? value.toFixed(1) : Math.round(value)} ${UNITS[power]}`
}
const UNITS = ['B', 'kB', 'MB', 'GB', 'TB']
