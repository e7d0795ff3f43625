import { useEffect, useState } from 'preact/hooks'
import { query } from '../../api.js'
import { type Table, wireName } from '../../catalog.js'
import type { Size } from './sizes.js'
import type { TableRows } from './table-rows.js'
import type { View } from './view.js'

/** The number of rows: known, estimated, or counted on request. */
export function Count({
  table,
  view,
  source,
  size,
}: {
  readonly table: Table
  readonly view: View
  readonly source: TableRows
  readonly size: Size | undefined
}) {
  const [counted, setCounted] = useState<number | 'busy' | undefined>()
  useEffect(() => setCounted(undefined), [source])
  const loaded = source.rows.value.length.toLocaleString('en')
  if (source.isComplete.value) return <span class="soft">{loaded === '1' ? '1 row' : `${loaded} rows`}</span>
  const count = async () => {
    setCounted('busy')
    try {
      const found = await query<{ readonly count: number }>('count', {
        table: wireName(table.table),
        where: view.where,
      })
      setCounted(found.count)
    } catch (error) {
      source.failure.value = error
      setCounted(undefined)
    }
  }
  const isWhole = Object.keys(view.where).length === 0
  const estimate =
    isWhole && size && size.rows !== null ? `about ${size.rows.toLocaleString('en')}` : `more than ${loaded}`
  return (
    <span class="soft row">
      {typeof counted === 'number' ? counted.toLocaleString('en') : estimate} rows
      {typeof counted !== 'number' && (
        <button type="button" class="quiet" disabled={counted === 'busy'} onClick={() => void count()}>
          Count
        </button>
      )}
    </span>
  )
}
