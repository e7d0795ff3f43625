import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { textOf } from '../json.js'
import { drag, useColumnWidths } from './column-widths.js'
import { type GridColumn, type GridRow, Row, type RowActions } from './grid-row.js'
import { useVirtualRows } from './virtual-rows.js'

export type { GridColumn, GridRow } from './grid-row.js'

interface GridProps {
  readonly label: string
  readonly columns: readonly GridColumn[]
  /** Rows that are not loaded are undefined. */
  readonly rows: readonly (GridRow | undefined)[]
  /** Columns by which the rows are sorted, `-` before descending ones. */
  readonly sort?: readonly string[]
  /** @param more whether to keep the other columns of the sort */
  readonly onSort?: (key: string, more: boolean) => void
  /** Called when the last rows come into view. */
  readonly onEnd?: () => void
  /** Called with the indexes of the first and the last row in view. */
  readonly onView?: (first: number, last: number) => void
  /** Called for Enter and a double click on a cell. */
  readonly onOpen?: (row: number, column: GridColumn, cell: HTMLElement) => void
  /** Index of the row that is chosen. */
  readonly chosen?: number | undefined
  readonly onChoose?: (row: number) => void
  /** Rows that are marked, e.g. as changed. */
  readonly marked?: ReadonlySet<number>
  /**
   * Called for the space bar and the box at the head of a row. Without it, rows have no boxes.
   * @param isRange whether to mark all rows from the chosen one
   */
  readonly onMark?: ((row: number, isRange: boolean) => void) | undefined
  /** Returns the label of a row's box; rows without a label have no box. The default is `Mark row 1`. */
  readonly markLabel?: (row: GridRow) => string | undefined
  /** Called for Enter and a click on the head of a row. Without it, rows have no heads unless they can be marked. */
  readonly onDetails?: (row: number) => void
}

const ROW_PX = 32
/** Width of the head of a row: of its box, and of the button that opens it. */
const HEAD_OF_ROW_PX = { box: 36, both: 60 }
const HEAD_PX = 34
/** By how much a key changes the width of a column. */
const STEP_PX = 20

/** A table of any number of rows. Arrow keys move from cell to cell, and change the width of the column with the shift key. */
export function Grid(props: GridProps) {
  const {
    label,
    columns,
    rows,
    sort = [],
    onSort,
    onEnd,
    onView,
    onOpen,
    chosen,
    onChoose,
    marked,
    onMark,
    markLabel,
    onDetails,
  } = props
  const heads = onMark || onDetails ? 1 : 0
  const count = columns.length + heads
  const scroller = useRef<HTMLDivElement>(null)
  const { items, height, scrollTo } = useVirtualRows(scroller, rows.length, ROW_PX, HEAD_PX)
  const [at, setAt] = useState({ row: 0, column: 0 })
  const [isFocused, setFocused] = useState(false)
  const { widths: chosenWidths, resize } = useColumnWidths(label)
  const fitting = useMemo(() => columns.map((column) => widthOf(column, rows)), [columns, rows.length > 0])
  const widths = columns.map(({ key }, i) => chosenWidths.get(key) ?? fitting[i]!)
  const all = heads ? [onDetails ? HEAD_OF_ROW_PX.both : HEAD_OF_ROW_PX.box, ...widths] : widths
  const template = all.map((each) => `${each}px`).join(' ')
  const width = `${all.reduce((sum, each) => sum + each, 0)}px`

  const last = items.at(-1)?.index ?? -1
  useEffect(() => {
    if (rows.length > 0 && last >= rows.length - 20) onEnd?.()
  }, [last, rows.length, onEnd])
  const first = items[0]?.index ?? 0
  useEffect(() => {
    if (last >= 0) onView?.(first, last)
  }, [first, last, rows.length, onView])

  const activeId = `${label}-active`.replaceAll(/\s+/g, '-')
  const cellAt = (row: number, column: number) =>
    scroller.current?.querySelector<HTMLElement>(`[aria-rowindex="${row + 2}"] > [aria-colindex="${column + 1}"]`)
  // Rows that leave the view become those that come into view.
  const pool = Math.max(64, items.length)
  const move = (row: number, column: number) => {
    const to = { row: clamp(row, rows.length), column: clamp(column, count) }
    setAt(to)
    scrollTo(to.row)
    queueMicrotask(() => cellAt(to.row, to.column)?.scrollIntoView({ inline: 'nearest', block: 'nearest' }))
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target !== scroller.current) return
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 0) / ROW_PX) - 2)
    const { row, column } = at
    const to: Record<string, readonly [number, number]> = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      PageUp: [row - page, column],
      PageDown: [row + page, column],
      Home: event.ctrlKey ? [0, 0] : [row, 0],
      End: event.ctrlKey ? [rows.length - 1, count - 1] : [row, count - 1],
    }
    const target = to[event.key]
    const active = columns[column - heads]
    if (event.shiftKey && active && (event.key === 'ArrowLeft' || event.key === 'ArrowRight')) {
      event.preventDefault()
      resize(active.key, widths[column - heads]! + (event.key === 'ArrowLeft' ? -STEP_PX : STEP_PX))
    } else if (target) {
      event.preventDefault()
      move(...target)
    } else if (event.key === 'Enter') {
      const cell = cellAt(row, column)
      event.preventDefault()
      onChoose?.(row)
      if (column < heads) onDetails?.(row)
      else if (cell) onOpen?.(row, columns[column - heads]!, cell)
    } else if (event.key === ' ') {
      event.preventDefault()
      if (onMark) onMark(row, event.shiftKey)
      else onChoose?.(row)
    }
  }
  const latest = useRef<GridProps>(props)
  latest.current = props
  const act = useMemo<RowActions>(
    () => ({
      activate: (row, column) => setAt({ row, column }),
      choose: (row) => latest.current.onChoose?.(row),
      mark: (row, isRange) => latest.current.onMark?.(row, isRange),
      details: (row) => latest.current.onDetails?.(row),
      open: (row, column, cell) => latest.current.onOpen?.(row, column, cell),
    }),
    [],
  )
  return (
    <div
      class="grid"
      ref={scroller}
      role="grid"
      tabIndex={0}
      aria-label={label}
      aria-rowcount={rows.length + 1}
      aria-colcount={count}
      aria-activedescendant={isFocused && rows.length > 0 ? activeId : undefined}
      onFocus={() => setFocused(true)}
      onBlur={() => setFocused(false)}
      onKeyDown={onKeyDown}
    >
      <div class="grid-head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template, width }}>
        {heads > 0 && <div role="columnheader" aria-label="Row" />}
        {columns.map((column, i) => (
          <Head
            key={column.key}
            column={column}
            sort={sort}
            onSort={onSort}
            onGrip={(event) => drag(event, (pixels) => resize(column.key, widths[i]! + pixels))}
          />
        ))}
      </div>
      <div class="grid-body" role="rowgroup" style={{ height: `${height}px`, width }}>
        {items.map(({ index, start }) => (
          <Row
            key={index % pool}
            activeId={activeId}
            index={index}
            start={start}
            row={rows[index]}
            columns={columns}
            template={template}
            isChosen={index === chosen}
            isMarked={marked?.has(index) ?? false}
            markLabel={onMark && (markLabel && rows[index] ? markLabel(rows[index]) : `Mark row ${index + 1}`)}
            hasHead={heads > 0}
            hasDetails={onDetails !== undefined}
            active={isFocused && at.row === index ? at.column : undefined}
            act={act}
          />
        ))}
      </div>
    </div>
  )
}

function Head({
  column,
  sort,
  onSort,
  onGrip,
}: Pick<GridProps, 'onSort'> & {
  readonly column: GridColumn
  readonly sort: readonly string[]
  readonly onGrip: (event: PointerEvent) => void
}) {
  const order = sort.includes(column.key) ? 'ascending' : sort.includes(`-${column.key}`) ? 'descending' : undefined
  const mark = order === 'ascending' ? ' ▲' : order === 'descending' ? ' ▼' : ''
  const text = (
    <>
      {column.title}
      {column.hint && <span class="soft"> {column.hint}</span>}
      {mark}
    </>
  )
  return (
    <div role="columnheader" aria-sort={order} class={column.numeric ? 'number' : undefined} title={column.hint}>
      {onSort && column.sortable !== false ? (
        <button type="button" tabIndex={-1} onClick={(event) => onSort(column.key, event.shiftKey)}>
          {text}
        </button>
      ) : (
        <span>{text}</span>
      )}
      <span class="grid-grip" onPointerDown={onGrip} />
    </div>
  )
}

const clamp = (index: number, count: number) => Math.max(0, Math.min(index, count - 1))

/** Returns a width in pixels that suits the first rows. */
function widthOf(column: GridColumn, rows: readonly (GridRow | undefined)[]): number {
  const head = column.title.length + (column.hint?.length ?? 0) + 2
  const widest = rows.slice(0, 50).reduce((most, row) => Math.max(most, textOf(row?.[column.key]).length), 4)
  return Math.max(column.minWidth ?? 0, Math.round(Math.min(Math.max(head, widest), 40) * CHARACTER_PX) + 20)
}
const CHARACTER_PX = 8.8
