import { useState } from 'preact/hooks'
import type { Table } from '../../catalog.js'
import { Dialog } from '../../ui/dialog.js'
import { type Choice, choicesOf, keyOf, ownColumns, related, type View } from './view.js'

/** Chooses the columns of a view: those of the table, and those of related rows. */
export function ColumnsDialog({
  table,
  view,
  onColumns,
  close,
}: {
  readonly table: Table
  readonly view: View
  readonly onColumns: (columns: readonly Choice[] | undefined) => void
  readonly close: () => void
}) {
  const [chosen, setChosen] = useState<readonly Choice[]>(choicesOf(table, view))
  const all = ownColumns(table).map(({ name }) => name)
  const isAll = chosen.length === all.length && chosen.every((choice, i) => choice === all[i])
  const apply = () => {
    onColumns(isAll ? undefined : chosen)
    close()
  }
  return (
    <Dialog title="Columns" close={close}>
      <div class="choices">
        <Choices table={table} before={[]} chosen={chosen} onChosen={setChosen} />
      </div>
      <p class="row">
        <button type="button" class="primary" disabled={chosen.length === 0} onClick={apply}>
          Show {chosen.length} columns
        </button>
        <button type="button" class="quiet" onClick={() => setChosen(all)}>
          All of this table
        </button>
        <button type="button" class="quiet" onClick={() => setChosen([])}>
          None
        </button>
      </p>
    </Dialog>
  )
}

/** Relationships through which a column can be chosen, one behind another. */
const DEEPEST = 3

interface ChoicesProps {
  readonly table: Table
  readonly before: readonly string[]
  readonly chosen: readonly Choice[]
  readonly onChosen: (chosen: readonly Choice[]) => void
}

function Choices({ table, before, chosen, onChosen }: ChoicesProps) {
  const box = (choice: Choice, text: string) => {
    const isChosen = chosen.some((each) => keyOf(each) === keyOf(choice))
    const toggle = () =>
      onChosen(isChosen ? chosen.filter((each) => keyOf(each) !== keyOf(choice)) : [...chosen, choice])
    return (
      <label key={keyOf(choice)}>
        <input type="checkbox" checked={isChosen} onChange={toggle} /> {text}
      </label>
    )
  }
  const relationships = table.relationships.flatMap(({ name }) => related(table, name) ?? [])
  return (
    <>
      {ownColumns(table).map(({ name }) => box(before.length === 0 ? name : [...before, name], name))}
      {before.length < DEEPEST &&
        relationships
          .filter(({ type }) => type === 'object')
          .map(({ name, other }) => (
            <RelatedChoices key={name} {...{ table: other, before: [...before, name], chosen, onChosen }} />
          ))}
      {before.length === 0 &&
        relationships
          .filter(({ type }) => type === 'array')
          .map(({ name, other }) => (
            <div key={name}>
              {other.aggregations && box({ count: name }, `${name} (count)`)}
              {box({ rows: name }, `${name} (first 10 rows)`)}
            </div>
          ))}
    </>
  )
}

function RelatedChoices(props: ChoicesProps) {
  const { before, chosen } = props
  const isUsed = chosen.some((each) => Array.isArray(each) && before.every((name, i) => each[i] === name))
  const [isOpen, setOpen] = useState(isUsed)
  return (
    <details open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>{before.at(-1)}</summary>
      {isOpen && <Choices {...props} />}
    </details>
  )
}
