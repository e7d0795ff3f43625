import { useEffect, useRef, useState } from 'preact/hooks'
import type { Column, Table } from '../../catalog.js'
import type { JsonObject } from '../../json.js'
import { Problem } from '../../ui/problem.js'
import { ValueInput } from './value-input.js'
import { editedText, kindOf, readValue } from './values.js'
import type { View } from './view.js'
import { updateCell } from './writes.js'

/** A cell that is edited. */
export interface Editing {
  readonly index: number
  readonly row: JsonObject
  readonly column: Column
  /** Where the cell is on the screen. */
  readonly box: DOMRect
}

/** Edits a cell in place. What was typed stays until the server has taken it. */
export function CellEditor({
  editing: { row, column, box },
  table,
  view,
  onSaved,
  close,
}: {
  readonly editing: Editing
  readonly table: Table
  readonly view: View
  readonly onSaved: (row: JsonObject | undefined) => void
  readonly close: () => void
}) {
  const value = row[column.name]
  const [text, setText] = useState(editedText(column, value))
  const [isNull, setNull] = useState(value === null)
  const [isBusy, setBusy] = useState(false)
  const [failure, setFailure] = useState<unknown>()
  const form = useRef<HTMLFormElement>(null)
  const isWide = kindOf(column) === 'json'
  useEffect(() => {
    const dismiss = ({ target }: Event) => {
      if (!form.current?.contains(target as Node)) close()
    }
    addEventListener('pointerdown', dismiss)
    return () => removeEventListener('pointerdown', dismiss)
  }, [])
  useEffect(() => {
    if (isNull) form.current?.querySelector<HTMLElement>('input[type="checkbox"]')?.focus()
  }, [])
  const save = async () => {
    setBusy(true)
    try {
      onSaved(await updateCell(table, row, view, column.name, isNull ? null : readValue(column, text)))
    } catch (error) {
      setFailure(error)
      setBusy(false)
    }
  }
  return (
    <form
      ref={form}
      class={isWide ? 'cell-editor wide' : 'cell-editor'}
      style={placed(box, isWide)}
      aria-label={`Edit ${column.name}`}
      onSubmit={(event) => {
        event.preventDefault()
        void save()
      }}
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return
        event.stopPropagation()
        close()
      }}
    >
      <ValueInput
        column={column}
        label={column.name}
        text={text}
        placeholder={isNull ? 'null' : undefined}
        isFocused={!isNull}
        onText={(next) => {
          setText(next)
          setNull(false)
        }}
      />
      <p class="row">
        <button class="primary" disabled={isBusy}>
          Save
        </button>
        <button type="button" onClick={close}>
          Cancel
        </button>
        {column.nullable && (
          <label>
            <input type="checkbox" checked={isNull} onChange={({ currentTarget }) => setNull(currentTarget.checked)} />{' '}
            null
          </label>
        )}
      </p>
      {failure !== undefined && <Problem of={failure} />}
    </form>
  )
}

/** Keeps the form on the screen. */
function placed(box: DOMRect, isWide: boolean): Record<string, string> {
  const width = Math.min(innerWidth - 16, isWide ? 480 : Math.max(260, box.width))
  const left = Math.max(8, Math.min(box.left, innerWidth - width - 8))
  const height = isWide ? 260 : 120
  const top = Math.max(8, Math.min(box.top, innerHeight - height - 8))
  return { left: `${left}px`, top: `${top}px`, width: `${width}px`, maxHeight: `${innerHeight - top - 8}px` }
}
