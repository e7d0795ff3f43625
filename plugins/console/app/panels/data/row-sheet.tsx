import { useEffect, useState } from 'preact/hooks'
import { query } from '../../api.js'
import { type Column, isJson, type Table, wireName } from '../../catalog.js'
import { type Json, type JsonObject, textOf } from '../../json.js'
import { isAdmin } from '../../session.js'
import { timeText } from '../../time.js'
import { Problem } from '../../ui/problem.js'
import { type Editing } from './cell-editor.js'
import { hasHistory, RowHistory } from './row-history.js'
import { Sheet } from './sheet.js'
import { addressOf, keyColumns, ownColumns, related, whereOf, whyAddress } from './view.js'
import { isEditable } from './writes.js'

/** One row with all of its columns and the rows that belong to it. */
export function RowSheet({
  table,
  row,
  index,
  onEdit,
  onDelete,
  onChanged,
  close,
}: {
  readonly table: Table
  readonly row: JsonObject
  readonly index: number
  readonly onEdit: (editing: Editing) => void
  readonly onDelete: () => void
  /** The row is another one now, or gone. */
  readonly onChanged: () => void
  readonly close: () => void
}) {
  const { full, counts, failure } = useFullRow(table, row)
  const columns = ownColumns(table)
  return (
    <Sheet
      title={`Row ${
        Object.values(whereOf(table, row))
          .map((each) => textOf((each as JsonObject)['$eq']))
          .join(', ') || index + 1
      }`}
      close={close}
    >
      {failure !== undefined && <Problem of={failure} />}
      <dl class="row-values">
        {columns.map((column) => (
          <div key={column.name}>
            <dt>
              {column.name} <span class="soft">{column.type}</span>
              {full && isEditable(table, column) && (
                <button
                  type="button"
                  class="quiet push"
                  aria-label={`Edit ${column.name}`}
                  onClick={({ currentTarget }) => {
                    const box = currentTarget.closest('div')!.getBoundingClientRect()
                    onEdit({ index, row: full, column, box })
                  }}
                >
                  Edit
                </button>
              )}
            </dt>
            <dd>
              <Value column={column} value={(full ?? row)[column.name]} />
              {column.comment !== undefined && <span class="soft"> {column.comment}</span>}
            </dd>
          </div>
        ))}
      </dl>
      {isAdmin.value && keyColumns(table).length > 0 && (
        <p>
          <a href={whyAddress(table, full ?? row)}>Who sees this row, and why?</a>
        </p>
      )}
      <RelatedRows table={table} row={full ?? row} counts={counts} />
      {full && hasHistory(table) && <RowHistory table={table} row={full} onUndone={onChanged} />}
      {table.actions.delete && (
        <p>
          <button type="button" class="danger" onClick={onDelete}>
            Delete this row
          </button>
        </p>
      )}
    </Sheet>
  )
}

function Value({ column, value }: { readonly column: Column; readonly value: Json | undefined }) {
  if (value === undefined) return <span class="soft">…</span>
  if (value === null) return <i class="soft">null</i>
  if (isJson(column) || typeof value === 'object') return <pre>{JSON.stringify(value, null, 2)}</pre>
  if (textOf(value) === '') return <i class="soft">empty text</i>
  const local = column.type === 'timestamptz' ? timeText(value) : textOf(value)
  return (
    <>
      <span class="value">{textOf(value)}</span>
      {local !== textOf(value) && <span class="soft"> {local}</span>}
    </>
  )
}

function RelatedRows({
  table,
  row,
  counts,
}: {
  readonly table: Table
  readonly row: JsonObject
  readonly counts: Readonly<Record<string, Json | undefined>>
}) {
  const links = table.relationships.flatMap(({ name, type }) => {
    const href = relatedAddress(table, name, row)
    return href === undefined ? [] : [{ name, type, href }]
  })
  if (links.length === 0) return null
  return (
    <>
      <h3>Related rows</h3>
      <ul class="related">
        {links.map(({ name, type, href }) => (
          <li key={name}>
            <a href={href}>{name}</a>{' '}
            <span class="soft">
              {type === 'object' ? 'one row' : counts[name] === undefined ? 'rows' : `${textOf(counts[name])} rows`}
            </span>
          </li>
        ))}
      </ul>
    </>
  )
}

/** Returns the address of the rows that belong to a row; undefined if there are none, or the caller may not see how they belong. */
export function relatedAddress(table: Table, name: string, row: JsonObject): string | undefined {
  const found = related(table, name)
  if (!found?.columns) return undefined
  const pairs = Object.entries(found.columns)
  if (pairs.some(([own]) => row[own] === null || row[own] === undefined)) return undefined
  const conditions = pairs.map(([own, other]): JsonObject => ({ [other]: { $eq: row[own] } }))
  return addressOf(found.other, { where: conditions.length === 1 ? conditions[0]! : { $and: conditions } })
}

/** Reads all columns of a row again, with the numbers of its related rows. */
function useFullRow(table: Table, row: JsonObject) {
  const [full, setFull] = useState<JsonObject>()
  const [counts, setCounts] = useState<Readonly<Record<string, Json | undefined>>>({})
  const [failure, setFailure] = useState<unknown>()
  useEffect(() => {
    const where = whereOf(table, row)
    if (Object.keys(where).length === 0) {
      setFull(row)
      return undefined
    }
    const { signal, abort } = withAbort()
    const lists = table.relationships.filter(
      ({ name, type }) => type === 'array' && related(table, name)?.other.aggregations,
    )
    const read = async () => {
      const columns: Json[] = ownColumns(table).map(({ name }) => name)
      const args = { table: wireName(table.table), where, limit: 1 }
      const [found] = await query<readonly JsonObject[]>('select', { ...args, columns }, { signal })
      if (!found) throw new Error('The row is gone, or this role does not see it any more.')
      setFull(found)
      if (lists.length === 0) return
      const counted = lists.map(({ name }, i) => ({ name, alias: `c${i}`, columns: [{ count: '*' }] }))
      const [sums] = await query<readonly JsonObject[]>('select', { ...args, columns: counted }, { signal })
      setCounts(
        Object.fromEntries(
          lists.map(({ name }, i) => [name, (sums?.[`c${i}`] as readonly JsonObject[] | undefined)?.[0]?.['count']]),
        ),
      )
    }
    read().catch((error: unknown) => {
      if (!signal.aborted) setFailure(error)
    })
    return abort
  }, [row])
  return { full, counts, failure }
}

function withAbort() {
  const controller = new AbortController()
  return { signal: controller.signal, abort: () => controller.abort() }
}
