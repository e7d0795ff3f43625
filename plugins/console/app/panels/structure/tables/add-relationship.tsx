import { useState } from 'preact/hooks'
import { isSystem, labelOf, type Table, wireName } from '../../../catalog.js'
import { FormDialog } from '../form-dialog.js'
import { asAdmin, useStructure } from '../structure.js'

/** A form for a relationship between any columns, also without a foreign key. */
export function AddRelationship({ table, close }: { readonly table: Table; readonly close: () => void }) {
  const { catalog } = useStructure()
  const tables = catalog.tables.filter((each) => !isSystem(each))
  const [remote, setRemote] = useState(() => tables[0] ?? table)
  const [pairs, setPairs] = useState<readonly (readonly [own: string, other: string])[]>([['', '']])
  const change = (index: number, pair: readonly [string, string]) =>
    setPairs(pairs.map((each, i) => (i === index ? pair : each)))
  const add = ({ name = '', type = 'object', comment = '' }: Readonly<Record<string, string>>) => {
    const using = {
      manual_configuration: { remote_table: wireName(remote.table), column_mapping: Object.fromEntries(pairs) },
    }
    const args = { table: wireName(table.table), name, using, comment: comment === '' ? null : comment }
    return asAdmin(`create_${type}_relationship`, args)
  }
  return (
    <FormDialog title={`Add a relationship to ${labelOf(table.table)}`} verb="Add" change={add} close={close}>
      <label>
        Name <input name="name" required spellcheck={false} />
      </label>
      <label>
        Leads to{' '}
        <select name="type">
          <option value="object">one row</option>
          <option value="array">many rows</option>
        </select>
      </label>
      <label>
        Of the table{' '}
        <select
          value={labelOf(remote.table)}
          onChange={({ currentTarget }) => {
            setRemote(tables.find((each) => labelOf(each.table) === currentTarget.value) ?? table)
            setPairs(pairs.map(([own]) => [own, '']))
          }}
        >
          {tables.map((each) => (
            <option key={labelOf(each.table)}>{labelOf(each.table)}</option>
          ))}
        </select>
      </label>
      <fieldset>
        <legend>Rows belong together where</legend>
        {pairs.map(([own, other], i) => (
          <div class="pair" key={i}>
            <ColumnChoice table={table} value={own} onChange={(name) => change(i, [name, other])} />
            <ColumnChoice table={remote} value={other} onChange={(name) => change(i, [own, name])} />
          </div>
        ))}
        <button type="button" class="quiet" onClick={() => setPairs([...pairs, ['', '']])}>
          Add columns
        </button>
      </fieldset>
      <label>
        Comment <input name="comment" />
      </label>
    </FormDialog>
  )
}

const ColumnChoice = ({
  table,
  value,
  onChange,
}: {
  readonly table: Table
  readonly value: string
  readonly onChange: (name: string) => void
}) => (
  <select
    aria-label={`Column of ${labelOf(table.table)}`}
    required
    value={value}
    onChange={({ currentTarget }) => onChange(currentTarget.value)}
  >
    <option value="">{labelOf(table.table)}: choose a column</option>
    {table.columns.map(({ name }) => (
      <option key={name} value={name}>
        {name}
      </option>
    ))}
  </select>
)
