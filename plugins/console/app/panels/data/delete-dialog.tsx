import { useEffect, useState } from 'preact/hooks'
import { query } from '../../api.js'
import { labelOf, type Table, type TableName, wireName } from '../../catalog.js'
import { type JsonObject, textOf } from '../../json.js'
import { Confirm } from '../../ui/confirm.js'
import { whereOf } from './view.js'
import { deleteRows } from './writes.js'

interface Dependent {
  readonly table: TableName
  readonly columns: Readonly<Record<string, string>>
  readonly on_delete: string
  readonly rows: number
  readonly more: boolean
  readonly blocks: boolean
}

/** Rows of which the dependents are looked up, one request each. */
const MOST_CHECKED = 20

/** Deletes rows, after it has shown what depends on them. */
export function DeleteDialog({
  table,
  rows,
  onDeleted,
  close,
}: {
  readonly table: Table
  readonly rows: readonly JsonObject[]
  readonly onDeleted: (count: number) => void
  readonly close: () => void
}) {
  const { dependents, failure: unknown } = useDependents(table, rows)
  const remove = async () => {
    const count = await deleteRows(table, rows)
    if (count === 0) throw new Error('The rows are gone, or this role may not delete them.')
    onDeleted(count)
  }
  const blocks = dependents?.some((each) => each.blocks)
  const name = rows.length === 1 ? `the row with ${keyText(table, rows[0]!)}` : `${rows.length} rows`
  return (
    <Confirm
      title={rows.length === 1 ? 'Delete this row?' : `Delete ${rows.length} rows?`}
      verb={blocks ? 'Try to delete' : 'Delete'}
      run={remove}
      close={close}
    >
      <p>
        This deletes {name} of {labelOf(table.table)}.
      </p>
      {dependents === undefined && unknown === undefined && <p class="soft">Looking for what depends on it …</p>}
      {unknown !== undefined && (
        <p class="soft">What depends on it cannot be shown: {String((unknown as Error).message)}.</p>
      )}
      {dependents && <Dependents dependents={dependents} />}
      {rows.length > MOST_CHECKED && <p class="soft">The dependents of the first {MOST_CHECKED} rows are shown.</p>}
    </Confirm>
  )
}

/** Returns e.g. `order_id 5, product_id 7`. */
const keyText = (table: Table, row: JsonObject) =>
  Object.keys(whereOf(table, row))
    .map((name) => `${name} ${textOf(row[name])}`)
    .join(', ')

function Dependents({ dependents }: { readonly dependents: readonly Dependent[] }) {
  const found = dependents.filter(({ rows }) => rows > 0)
  if (found.length === 0) return <p class="good">No row that this role sees depends on it.</p>
  return (
    <ul class="dependents">
      {found.map((each, i) => (
        <li key={i} class={each.blocks ? 'bad' : undefined}>
          <b>
            {each.more ? 'more than ' : ''}
            {each.rows} {each.rows === 1 ? 'row' : 'rows'}
          </b>{' '}
          of {labelOf(each.table)} ({Object.keys(each.columns).join(', ')}) {OUTCOMES[each.on_delete] ?? each.on_delete}
        </li>
      ))}
    </ul>
  )
}

const OUTCOMES: Readonly<Record<string, string>> = {
  'no action': 'prevent it',
  restrict: 'prevent it',
  cascade: 'are deleted too',
  'set null': 'lose the reference: it becomes null',
  'set default': 'get the default reference',
}

function useDependents(table: Table, rows: readonly JsonObject[]) {
  const [dependents, setDependents] = useState<readonly Dependent[]>()
  const [failure, setFailure] = useState<unknown>()
  useEffect(() => {
    const reading = new AbortController()
    const { signal } = reading
    const read = async () => {
      const sums = new Map<string, Dependent>()
      for (const row of rows.slice(0, MOST_CHECKED)) {
        const args = { table: wireName(table.table), key: whereOf(table, row) }
        const found = await query<{ readonly dependents: readonly Dependent[] }>('dependents', args, { signal })
        for (const each of found.dependents) {
          const key = JSON.stringify([each.table, each.columns])
          const sum = sums.get(key)
          sums.set(
            key,
            sum
              ? { ...each, rows: sum.rows + each.rows, more: sum.more || each.more, blocks: sum.blocks || each.blocks }
              : each,
          )
        }
      }
      setDependents([...sums.values()])
    }
    read().catch((error: unknown) => {
      if (!signal.aborted) setFailure(error)
    })
    return () => reading.abort()
  }, [])
  return { dependents, failure }
}
