import type { Table } from '../../catalog.js'
import type { Draft } from './draft.js'

/** Ticks for the columns of a permission. */
export function ColumnsField({
  draft,
  change,
  table,
  hasComputed,
}: {
  readonly draft: Draft
  readonly change: (by: Partial<Draft>) => void
  readonly table: Table
  readonly hasComputed: boolean
}) {
  const { columns, computed } = draft
  const all = table.columns.map(({ name }) => name)
  const isTicked = (name: string) => columns === '*' || columns.includes(name)
  const toggle = (name: string, isOn: boolean) =>
    change({ columns: all.filter((each) => (each === name ? isOn : isTicked(each))) })
  return (
    <fieldset class="rule-field">
      <legend class="row">
        <h3>Columns</h3>
        <button type="button" class="quiet" onClick={() => change({ columns: all })}>
          All
        </button>
        <button type="button" class="quiet" onClick={() => change({ columns: [] })}>
          None
        </button>
        <label class="soft">
          <input
            type="checkbox"
            checked={columns === '*'}
            onChange={({ currentTarget }) => change({ columns: currentTarget.checked ? '*' : all })}
          />{' '}
          also columns that are added later
        </label>
      </legend>
      <div class="ticks">
        {table.columns.map(({ name, type }) => (
          <label key={name}>
            <input
              type="checkbox"
              checked={isTicked(name)}
              onChange={({ currentTarget }) => toggle(name, currentTarget.checked)}
            />{' '}
            {name} <span class="soft">{type}</span>
          </label>
        ))}
        {hasComputed &&
          table.computed_fields.map(({ name }) => (
            <label key={`computed ${name}`}>
              <input
                type="checkbox"
                checked={computed.includes(name)}
                onChange={({ currentTarget }) =>
                  change({
                    computed: currentTarget.checked ? [...computed, name] : computed.filter((each) => each !== name),
                  })
                }
              />{' '}
              {name} <span class="soft">computed</span>
            </label>
          ))}
      </div>
    </fieldset>
  )
}
