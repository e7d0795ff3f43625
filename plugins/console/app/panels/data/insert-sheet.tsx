import { useState } from 'preact/hooks'
import { Failure } from '../../api.js'
import type { Column, Table } from '../../catalog.js'
import { Problem } from '../../ui/problem.js'
import { Sheet } from './sheet.js'
import { ValueInput } from './value-input.js'
import { readValue } from './values.js'
import { insertable, insertRow } from './writes.js'

/** What is typed for a column: a text, or null. Columns without an entry take their defaults. */
type Draft = Readonly<Record<string, string | null>>

/** A form for a new row. */
export function InsertSheet({
  table,
  onInserted,
  close,
}: {
  readonly table: Table
  readonly onInserted: () => void
  readonly close: () => void
}) {
  const columns = insertable(table)
  const [draft, setDraft] = useState<Draft>({})
  const [refusals, setRefusals] = useState<Readonly<Record<string, string>>>({})
  const [failure, setFailure] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const [inserted, setInserted] = useState(0)
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const { object, wrong } = readDraft(columns, draft)
    setRefusals(wrong)
    setFailure(undefined)
    const [first] = Object.keys(wrong)
    if (first !== undefined) return
    setBusy(true)
    try {
      await insertRow(table, object)
      setInserted(inserted + 1)
      setDraft({})
      onInserted()
    } catch (error) {
      const name = error instanceof Failure ? columnIn(error.path, columns) : undefined
      if (name === undefined) setFailure(error)
      else setRefusals({ [name]: (error as Failure).message })
    }
    setBusy(false)
  }
  const set = (name: string, value: string | null | undefined) => {
    const { [name]: _old, ...others } = draft
    setDraft(value === undefined ? others : { ...others, [name]: value })
  }
  return (
    <Sheet title="New row" close={close}>
      <form class="fields" onSubmit={(event) => void submit(event)}>
        {columns.map((column) => (
          <Field
            key={`${column.name}-${inserted}`}
            column={column}
            value={draft[column.name]}
            refusal={refusals[column.name]}
            onValue={(value) => set(column.name, value)}
          />
        ))}
        {failure !== undefined && <Problem of={failure} />}
        <p class="row">
          <button class="primary" disabled={isBusy}>
            Insert
          </button>
          <span class="good" role="status">
            {inserted > 0 && `Inserted ${inserted === 1 ? 'the row' : `${inserted} rows`}.`}
          </span>
        </p>
      </form>
    </Sheet>
  )
}

function Field({
  column,
  value,
  refusal,
  onValue,
}: {
  readonly column: Column
  readonly value: string | null | undefined
  readonly refusal: string | undefined
  readonly onValue: (value: string | null | undefined) => void
}) {
  const { name, type, nullable, has_default: hasDefault } = column
  const fallback = hasDefault ? 'default' : nullable ? 'null' : ''
  return (
    <div class="field">
      <div class="field-head">
        <b>{name}</b> <span class="soft">{type}</span>
        {fallback === '' && <span class="soft">required</span>}
        <span class="push row">
          {nullable && value !== null && hasDefault && (
            <button type="button" class="quiet" onClick={() => onValue(null)} aria-label={`Set ${name} to null`}>
              null
            </button>
          )}
          {value !== undefined && (
            <button type="button" class="quiet" onClick={() => onValue(undefined)} aria-label={`Clear ${name}`}>
              clear
            </button>
          )}
        </span>
      </div>
      <ValueInput
        column={column}
        label={name}
        text={value ?? ''}
        placeholder={value === null ? 'null' : fallback}
        onText={onValue}
      />
      {refusal !== undefined && (
        <p class="bad" role="alert">
          {refusal}
        </p>
      )}
    </div>
  )
}

function readDraft(columns: readonly Column[], draft: Draft) {
  const object: Record<string, ReturnType<typeof readValue>> = {}
  const wrong: Record<string, string> = {}
  for (const column of columns) {
    const text = draft[column.name]
    try {
      if (text === null) object[column.name] = null
      else if (text !== undefined) object[column.name] = readValue(column, text)
      else if (!column.nullable && !column.has_default) wrong[column.name] = 'This column needs a value.'
    } catch (error) {
      wrong[column.name] = error instanceof Error ? error.message : String(error)
    }
  }
  return { object, wrong }
}

/** Returns the column that the path of an error names, such as `$.args.objects[0].price`. */
const columnIn = (path: string, columns: readonly Column[]): string | undefined =>
  columns.find(({ name }) => path === `$.args.objects[0].${name}`)?.name
