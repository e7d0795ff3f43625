import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { isSystem, labelOf, type Table } from '../../catalog.js'
import type { JsonObject } from '../../json.js'
import { acting, isAdmin } from '../../session.js'
import { Grid, type GridColumn, type GridRow } from '../../ui/grid.js'
import { Problem } from '../../ui/problem.js'
import { Waiting } from '../../ui/waiting.js'
import { CellEditor, type Editing } from './cell-editor.js'
import { ColumnsDialog } from './columns-dialog.js'
import { Count } from './count.js'
import { CsvIn } from './csv-in.js'
import { CsvOut } from './csv-out.js'
import { DeleteDialog } from './delete-dialog.js'
import { FilterBar } from './filter-bar.js'
import { gridColumnsOf } from './grid-columns.js'
import { InsertSheet } from './insert-sheet.js'
import { RequestSheet } from './request-sheet.js'
import { RowSheet } from './row-sheet.js'
import type { Size } from './sizes.js'
import { LIVE_ROWS, MOST_ROWS, TableRows } from './table-rows.js'
import { addressOf, keyColumns, readView, rowIn, type View, whyAddress } from './view.js'
import { isEditable, mostDeleted } from './writes.js'

/** The rows of a table as the address says, with what can be done with them. */
export function TableView({
  table,
  size,
  onRows,
}: {
  readonly table: Table
  readonly size: Size | undefined
  /** Rows were inserted, or deleted if the number is negative. */
  readonly onRows: (added: number) => void
}) {
  const { query: search, route } = useLocation()
  const { where, sort, columns } = search
  const read = useMemo(
    () => attempt(() => readView({ where, sort, columns } as Record<string, string>)),
    [where, sort, columns],
  )
  if (!table.actions.select) return <WriteOnly table={table} />
  if ('error' in read) {
    return (
      <div class="body">
        <Problem of={read.error}>
          <a href={addressOf(table)}>Show the whole table</a>
        </Problem>
      </div>
    )
  }
  return (
    <Rows
      table={table}
      view={read.value}
      size={size}
      onRows={onRows}
      onView={(view) => route(addressOf(table, view))}
    />
  )
}

function attempt<T>(run: () => T): { readonly value: T } | { readonly error: unknown } {
  try {
    return { value: run() }
  } catch (error) {
    return { error }
  }
}

type Beside =
  | { readonly kind: 'row'; readonly index: number }
  | { readonly kind: 'request' }
  | { readonly kind: 'insert' }
type Over = 'columns' | 'delete' | 'csv-out' | { readonly file: File | undefined }

function Rows({
  table,
  view,
  size,
  onRows,
  onView,
}: {
  readonly table: Table
  readonly view: View
  readonly size: Size | undefined
  readonly onRows: (added: number) => void
  readonly onView: (view: View) => void
}) {
  const [generation, setGeneration] = useState(0)
  const [isLive, setLive] = useState(false)
  const source = useMemo(() => new TableRows(table, view), [table, view, generation, isLive])
  const [beside, setBeside] = useState<Beside>()
  const [over, setOver] = useState<Over>()
  const [editing, setEditing] = useState<Editing>()
  const [chosen, setChosen] = useState<number>()
  const [marked, setMarked] = useState<ReadonlySet<number>>(NO_ROWS)
  const grid = useRef<HTMLDivElement>(null)
  const before = useRef<{ readonly view: View; readonly rows: readonly (GridRow | undefined)[] }>(undefined)
  useEffect(() => {
    setMarked(NO_ROWS)
    setChosen(undefined)
    setBeside((now) => (now?.kind === 'row' ? undefined : now))
    grid.current?.querySelector('[role="grid"]')?.scrollTo({ top: 0 })
    if (isLive) source.follow()
    else source.see(0, 50)
    return () => source.close()
  }, [source])

  useEffect(() => source.hold(beside?.kind === 'row' || over !== undefined || editing !== undefined))

  const rows = source.rows.value
  const failure = source.failure.value
  const waiting = source.waiting.value
  const isRead = rows.length > 0 || source.isComplete.value
  const isEmpty = isRead && rows.length === 0
  if (isRead) before.current = { view, rows }
  // Until the rows are read again, those of the last time stay.
  const old = !isRead && before.current?.view === view ? before.current.rows : undefined
  // Marked rows are known by their places.
  const canMark = table.actions.delete && keyColumns(table).length > 0 && !isLive
  const focusGrid = () => grid.current?.querySelector<HTMLElement>('[role="grid"]')?.focus()
  const stopEditing = useCallback(() => {
    setEditing(undefined)
    if (beside?.kind !== 'row') focusGrid()
  }, [beside])
  const open = (index: number) => {
    if (rows[index]) setBeside({ kind: 'row', index })
  }
  const mark = (index: number, isRange: boolean) => {
    if (!rows[index]) return
    const next = new Set(marked)
    const from = isRange && chosen !== undefined ? chosen : index
    const isOn = isRange || !marked.has(index)
    for (let i = Math.min(from, index); i <= Math.max(from, index); i++) {
      if (isOn && next.size < mostDeleted(table)) next.add(i)
      else if (!isOn) next.delete(i)
    }
    setMarked(next)
    setChosen(index)
  }
  const gridColumns = useMemo(() => gridColumnsOf(table, view), [table, view])
  const onOpen = (index: number, { key }: GridColumn, cell: HTMLElement) => {
    const row = rows[index]
    const column = table.columns.find(({ name }) => name === key)
    if (row && column && isEditable(table, column))
      setEditing({ index, row, column, box: cell.getBoundingClientRect() })
    else open(index)
  }
  const onSaved = (row: JsonObject | undefined) => {
    if (editing && row) source.replace(editing.index, row)
    if (editing && !row) source.remove(new Set([editing.index]))
    stopEditing()
  }
  const besideRow = beside?.kind === 'row' ? rows[beside.index] : undefined
  const doomed = over !== 'delete' ? [] : marked.size > 0 ? [...marked] : beside?.kind === 'row' ? [beside.index] : []
  const onInserted = (count: number) => {
    onRows(count)
    setGeneration((n) => n + 1)
  }
  const onDeleted = (count: number) => {
    onRows(-count)
    source.remove(new Set(doomed))
    setMarked(NO_ROWS)
    if (beside?.kind === 'row') setBeside(undefined)
  }
  return (
    <div
      class={beside ? 'data-panel with-sheet' : 'data-panel'}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault()
        const [file] = event.dataTransfer?.files ?? []
        if (file && table.actions.insert) setOver({ file })
      }}
    >
      <div class={old ? 'page old' : 'page'} aria-busy={old !== undefined} ref={grid}>
        <div class="bar">
          <h2>{labelOf(table.table)}</h2>
          {failure === undefined && <Count {...{ table, view, source, size }} />}
          {isAdmin.value && acting.value && !isSystem(table) && (
            <a href={whyAddress(table, rowIn(table, view.where))}>Is a row missing?</a>
          )}
          <span class="row push">
            {canMark && marked.size > 0 && (
              <button type="button" class="danger" onClick={() => setOver('delete')}>
                Delete {marked.size} {marked.size === 1 ? 'row' : 'rows'}
              </button>
            )}
            {table.actions.insert && (
              <button type="button" onClick={() => setBeside({ kind: 'insert' })}>
                New row
              </button>
            )}
            <button type="button" onClick={() => setOver('columns')}>
              Columns
            </button>
            {table.actions.insert && (
              <button type="button" onClick={() => setOver({ file: undefined })}>
                CSV in
              </button>
            )}
            <button type="button" onClick={() => setOver('csv-out')}>
              CSV out
            </button>
            <button
              type="button"
              aria-pressed={beside?.kind === 'request'}
              onClick={() => setBeside(beside?.kind === 'request' ? undefined : { kind: 'request' })}
            >
              Request
            </button>
            {table.captures?.includes('live') && (
              <button
                type="button"
                aria-pressed={isLive}
                title="Show changes as they happen"
                onClick={() => setLive(!isLive)}
              >
                Live
              </button>
            )}
            <button
              type="button"
              aria-label="Read the rows again"
              title="Read the rows again"
              onClick={() => setGeneration(generation + 1)}
            >
              ↻
            </button>
          </span>
        </div>
        <FilterBar table={table} where={view.where} onWhere={(where) => onView({ ...view, where })} />
        {failure !== undefined && (
          <Problem of={failure}>
            <p class="row">
              <button type="button" onClick={() => source.retry()}>
                Try again
              </button>
              <a href={addressOf(table)}>Show the whole table</a>
            </p>
          </Problem>
        )}
        {waiting !== undefined && <Waiting since={waiting} stop={() => source.stop()} />}
        {isEmpty && (
          <p class="empty">
            {emptyText(table, view)}{' '}
            {Object.keys(view.where).length > 0 && <a href={addressOf(table)}>Show all rows</a>}
          </p>
        )}
        {!isEmpty && (failure === undefined || (old ?? rows).length > 0) && (
          <Grid
            label={labelOf(table.table)}
            columns={gridColumns}
            rows={old ?? rows}
            sort={view.sort}
            onSort={(key, more) => onView({ ...view, sort: nextSort(view.sort, key, more) })}
            onView={source.see}
            onOpen={onOpen}
            chosen={chosen}
            onChoose={setChosen}
            marked={marked}
            onMark={canMark ? mark : undefined}
            onDetails={open}
          />
        )}
        {isLive && rows.length >= LIVE_ROWS && (
          <p class="body soft">Live shows the first {LIVE_ROWS} rows. Filter them to see others.</p>
        )}
        {rows.length >= MOST_ROWS && (
          <p class="body soft">These are the first {MOST_ROWS.toLocaleString('en')} rows. Filter them to see others.</p>
        )}
      </div>
      {beside?.kind === 'row' && besideRow && (
        <RowSheet
          key={JSON.stringify(keyColumns(table).map((name) => besideRow[name]))}
          table={table}
          row={besideRow}
          index={beside.index}
          onEdit={setEditing}
          onDelete={() => {
            setMarked(NO_ROWS)
            setOver('delete')
          }}
          onChanged={() => setGeneration((n) => n + 1)}
          close={() => setBeside(undefined)}
        />
      )}
      {beside?.kind === 'request' && (
        <RequestSheet table={table} view={view} timing={source.timing.value} close={() => setBeside(undefined)} />
      )}
      {beside?.kind === 'insert' && (
        <InsertSheet table={table} onInserted={() => onInserted(1)} close={() => setBeside(undefined)} />
      )}
      {editing && <CellEditor {...{ editing, table, view, onSaved }} close={stopEditing} />}
      {over === 'columns' && (
        <ColumnsDialog
          table={table}
          view={view}
          onColumns={(columns) => onView({ ...view, columns })}
          close={() => setOver(undefined)}
        />
      )}
      {over === 'delete' && doomed.length > 0 && (
        <DeleteDialog
          table={table}
          rows={doomed.flatMap((index) => (rows[index] ? [rows[index]] : []))}
          onDeleted={onDeleted}
          close={() => setOver(undefined)}
        />
      )}
      {over === 'csv-out' && <CsvOut table={table} view={view} close={() => setOver(undefined)} />}
      {typeof over === 'object' && (
        <CsvIn table={table} dropped={over.file} onInserted={onInserted} close={() => setOver(undefined)} />
      )}
    </div>
  )
}

const NO_ROWS: ReadonlySet<number> = new Set()

/** Puts a column first, or behind the others; a second click turns its order, a third drops it. */
function nextSort(sort: readonly string[], key: string, more: boolean): readonly string[] {
  const next = sort.includes(key) ? [`-${key}`] : sort.includes(`-${key}`) ? [] : [key]
  if (!more) return next
  const index = sort.findIndex((each) => each === key || each === `-${key}`)
  return index < 0 ? [...sort, ...next] : sort.flatMap((each, i) => (i === index ? next : [each]))
}

function emptyText(table: Table, view: View): string {
  if (Object.keys(view.where).length > 0) return 'No row meets the filter.'
  return table.actions.insert
    ? 'This table has no rows that this role sees. Insert the first one.'
    : 'There are no rows that this role sees.'
}

/** A table of which the role may only insert rows. */
function WriteOnly({ table }: { readonly table: Table }) {
  const [isOpen, setOpen] = useState(true)
  return (
    <div class={isOpen && table.actions.insert ? 'data-panel with-sheet' : 'data-panel'}>
      <div class="page">
        <div class="bar">
          <h2>{labelOf(table.table)}</h2>
          {table.actions.insert && (
            <button type="button" class="push" onClick={() => setOpen(true)}>
              New row
            </button>
          )}
        </div>
        <p class="empty">This role may not read these rows.</p>
      </div>
      {isOpen && table.actions.insert && (
        <InsertSheet table={table} onInserted={() => {}} close={() => setOpen(false)} />
      )}
    </div>
  )
}
