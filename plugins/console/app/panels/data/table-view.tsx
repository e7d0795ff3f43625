import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { query } from '../../api.js'
import { isNumeric, labelOf, type Table, wireName } from '../../catalog.js'
import { Grid, type GridColumn, type GridRow } from '../../ui/grid.js'
import { Problem } from '../../ui/problem.js'

const PAGE = 200

/** The rows of a table, read page by page as they are scrolled into view. */
export function TableView({ table }: { readonly table: Table }) {
  const [sort, setSort] = useState<readonly string[]>([])
  const { rows, isComplete, failure, more } = useRows(table, sort)
  const columns: readonly GridColumn[] = table.columns
    .filter(({ select }) => select)
    .map((column) => ({ key: column.name, title: column.name, hint: column.type, numeric: isNumeric(column) }))
  const onSort = (key: string, keep: boolean) => {
    const next = sort.includes(key) ? [`-${key}`] : sort.includes(`-${key}`) ? [] : [key]
    setSort([...(keep ? sort.filter((each) => each.replace(/^-/, '') !== key) : []), ...next])
  }
  return (
    <>
      <div class="bar">
        <h2>{labelOf(table.table)}</h2>
        <span class="soft">
          {rows.length} rows{isComplete ? '' : ' so far'}
        </span>
      </div>
      {failure !== undefined && <Problem of={failure} />}
      <Grid label={labelOf(table.table)} columns={columns} rows={rows} sort={sort} onSort={onSort} onEnd={more} />
    </>
  )
}

/** Reads the rows of a table in an order, one page after another. */
function useRows(table: Table, sort: readonly string[]) {
  const [state, setState] = useState<{ readonly rows: readonly GridRow[]; readonly isComplete: boolean }>(NOTHING)
  const [failure, setFailure] = useState<unknown>()
  const reading = useRef<AbortController>(undefined)
  const key = sort.join()

  const read = useCallback(
    async (rows: readonly GridRow[]) => {
      const { signal } = (reading.current = new AbortController())
      const order = sort.length > 0 ? sort : table.primary_key
      const last = rows.at(-1)
      const names = [...order.map((name) => name.replace(/^-/, '')), ...table.primary_key]
      const canPage = table.primary_key.length > 0
      const after = last ? Object.fromEntries(names.map((name) => [name, last[name]])) : {}
      try {
        const page = await query<readonly GridRow[]>(
          'select',
          {
            table: wireName(table.table),
            columns: table.columns.filter(({ select }) => select).map(({ name }) => name),
            ...(order.length > 0 ? { order_by: order } : {}),
            limit: PAGE,
            ...(canPage ? { after } : { offset: rows.length }),
          },
          { signal },
        )
        setState({ rows: [...rows, ...page], isComplete: page.length < PAGE })
      } catch (error) {
        if (!signal.aborted) setFailure(error)
      } finally {
        if (reading.current?.signal === signal) reading.current = undefined
      }
    },
    [table, key],
  )
  useEffect(() => {
    setFailure(undefined)
    setState(NOTHING)
    void read([])
    return () => reading.current?.abort()
  }, [read])
  const more = useCallback(() => {
    if (!reading.current && !state.isComplete && failure === undefined) void read(state.rows)
  }, [read, state, failure])
  return { ...state, failure, more }
}

const NOTHING = { rows: [], isComplete: false } as const
