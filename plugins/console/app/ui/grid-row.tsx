import type { ComponentChildren } from 'preact'
import { memo } from 'preact/compat'
import { type Json, textOf } from '../json.js'

export interface GridColumn {
  readonly key: string
  readonly title: string
  /** Shown small beside the title, e.g. the type. */
  readonly hint?: string
  readonly numeric?: boolean
  /** In pixels. */
  readonly minWidth?: number
  readonly editable?: boolean
  readonly sortable?: boolean
  /** Returns what the cell shows. Defaults to its text. */
  readonly render?: (value: Json | undefined, row: GridRow) => ComponentChildren
}
export type GridRow = { readonly [key: string]: Json | undefined }

/** What happens to cells. The functions stay the same, so that only rows that changed are rendered. */
export interface RowActions {
  activate(row: number, column: number): void
  choose(row: number): void
  mark(row: number, isRange: boolean): void
  details(row: number): void
  open(row: number, column: GridColumn, cell: HTMLElement): void
}

interface RowProps {
  readonly activeId: string
  readonly index: number
  /** Pixels above it. */
  readonly start: number
  readonly row: GridRow | undefined
  readonly columns: readonly GridColumn[]
  readonly template: string
  readonly isChosen: boolean
  readonly isMarked: boolean
  readonly hasHead: boolean
  readonly hasDetails: boolean
  /** Label of the box that marks the row; undefined if it has none. */
  readonly markLabel: string | undefined
  /** The column of the active cell, if it is in this row. */
  readonly active: number | undefined
  readonly act: RowActions
}

/** A row of a grid. */
export const Row = memo(function Row(props: RowProps) {
  const { activeId, index, start, row, columns, template, isChosen, isMarked, hasHead, hasDetails, active, act } = props
  const { markLabel } = props
  const heads = hasHead ? 1 : 0
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      aria-selected={isChosen}
      class={isMarked ? 'grid-row marked' : 'grid-row'}
      style={{ gridTemplateColumns: template, transform: `translateY(${start}px)` }}
    >
      {heads > 0 && (
        <div
          id={active === 0 ? activeId : undefined}
          role="gridcell"
          aria-colindex={1}
          class={active === 0 ? 'row-head active' : 'row-head'}
          onClick={() => act.activate(index, 0)}
        >
          {markLabel !== undefined && (
            <input
              type="checkbox"
              tabIndex={-1}
              aria-label={markLabel}
              checked={isMarked}
              onClick={({ shiftKey }) => act.mark(index, shiftKey)}
            />
          )}
          {hasDetails && (
            <button type="button" tabIndex={-1} aria-label={`Open row ${index + 1}`} onClick={() => act.details(index)}>
              ›
            </button>
          )}
        </div>
      )}
      {columns.map((column, i) => (
        <div
          key={column.key}
          id={active === i + heads ? activeId : undefined}
          role="gridcell"
          aria-colindex={i + heads + 1}
          class={cellClass(column, row?.[column.key], active === i + heads)}
          onClick={() => {
            act.activate(index, i + heads)
            act.choose(index)
          }}
          onDblClick={({ currentTarget }) => act.open(index, column, currentTarget)}
        >
          {shown(column, row)}
        </div>
      ))}
    </div>
  )
})

function cellClass({ numeric }: GridColumn, value: Json | undefined, isActive: boolean): string {
  return [numeric ? 'number' : '', value === null ? 'null' : '', isActive ? 'active' : ''].filter(Boolean).join(' ')
}

/** Maximum characters of a cell; the rest is seen when the cell is opened. */
const MOST = 300

function shown(column: GridColumn, row: GridRow | undefined): ComponentChildren {
  const value = row?.[column.key]
  if (row && column.render) return column.render(value, row)
  return value === null ? 'null' : textOf(value).slice(0, MOST)
}
