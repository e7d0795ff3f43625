import type { Table } from '../../catalog.js'
import type { Json } from '../../json.js'

/** A column and the value that the rows have in it. */
export interface Condition {
  readonly column: string
  readonly value: string
}

/** Fields for the rows to try with. */
export function Conditions({
  table,
  conditions,
  change,
}: {
  readonly table: Table
  readonly conditions: readonly Condition[]
  readonly change: (conditions: readonly Condition[]) => void
}) {
  const put = (index: number, by: Partial<Condition>) =>
    change(conditions.map((each, i) => (i === index ? { ...each, ...by } : each)))
  return (
    <>
      {conditions.map(({ column, value }, i) => (
        <span class="row condition" key={i}>
          {i === 0 ? 'Rows with' : 'and'}
          <select
            aria-label="Column"
            value={column}
            onChange={({ currentTarget }) => put(i, { column: currentTarget.value })}
          >
            {table.columns.map(({ name }) => (
              <option key={name}>{name}</option>
            ))}
          </select>
          <input
            aria-label={`Value of ${column}`}
            size={8}
            placeholder="any value"
            value={value}
            autocomplete="off"
            spellcheck={false}
            onInput={({ currentTarget }) => put(i, { value: currentTarget.value })}
          />
          {i > 0 && (
            <button type="button" class="quiet" onClick={() => change(conditions.filter((_, other) => other !== i))}>
              Remove
            </button>
          )}
        </span>
      ))}
      <button
        type="button"
        class="quiet"
        onClick={() => change([...conditions, { column: table.columns[0]?.name ?? '', value: '' }])}
      >
        Add a condition
      </button>
    </>
  )
}

/** Returns the conditions that have a value. */
export const whereOf = (conditions: readonly Condition[]): Json => {
  const given = conditions.filter(({ value }) => value !== '')
  return given.length === 0 ? {} : { $and: given.map(({ column, value }) => ({ [column]: { $eq: value } })) }
}
