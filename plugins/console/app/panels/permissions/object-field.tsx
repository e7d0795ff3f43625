import type { Table } from '../../catalog.js'
import type { JsonObject } from '../../json.js'
import { Editor } from '../../ui/editor.js'

/** An editor for the JSON of a row. */
export const ObjectField = ({
  label,
  value,
  onChange,
}: {
  readonly label: string
  readonly value: string
  readonly onChange: (value: string) => void
}) => (
  <div class="rule-field">
    <h3>{label}</h3>
    <Editor label={label} language="json" value={value} onChange={onChange} />
  </div>
)

/**
 * Returns the JSON of a row to write: for an insert the columns that it needs, for an update the first column that may
 * be changed.
 */
export function objectFor(table: Table, definition: JsonObject | undefined, row?: JsonObject): string {
  const { columns = '*', set } = definition ?? {}
  const allowed = table.columns.filter(
    ({ name, generated }) =>
      !generated && !(name in ((set ?? {}) as JsonObject)) && (!Array.isArray(columns) || columns.includes(name)),
  )
  if (!row) {
    const needed = allowed.filter(({ nullable, has_default: hasDefault }) => !nullable && !hasDefault)
    const shown = needed.length > 0 ? needed : allowed.slice(0, 1)
    return JSON.stringify(Object.fromEntries(shown.map(({ name }) => [name, null])), null, 2)
  }
  const first = allowed.find(({ name }) => !table.primary_key.includes(name)) ?? allowed[0]
  return JSON.stringify(first ? { [first.name]: row[first.name] ?? null } : {})
}
