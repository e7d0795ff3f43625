import { useState } from 'preact/hooks'
import { type ComputedField, labelOf, type Table, wireName } from '../../../catalog.js'
import { textOf } from '../../../json.js'
import { ConfirmDrop } from '../confirm.js'
import { FormDialog } from '../form-dialog.js'
import { asAdmin, nameFrom, type TableEntry } from '../structure.js'

/** Fields that functions compute from a row. */
export function ComputedFields({ table, entry }: { readonly table: Table; readonly entry: TableEntry }) {
  const [isAdding, setAdding] = useState(false)
  const [dropped, setDropped] = useState<string>()
  const fields = entry.computed_fields ?? []
  return (
    <section>
      <h3>Computed fields</h3>
      <p class="soft">
        Functions that take a row of this table. GraphQL has them as fields, and permissions can use them.
      </p>
      <ul class="cards">
        {fields.map(({ name, definition, comment }) => (
          <li key={name}>
            <span>
              <b>
                <bdi>{name}</bdi>
              </b>{' '}
              <span class="soft">{resultOf(table.computed_fields.find((each) => each.name === name))} by</span>{' '}
              <code>{functionIn(definition['function'])}</code>
              {comment ? <span class="comment soft">{comment}</span> : null}
            </span>
            <button type="button" class="quiet" onClick={() => setDropped(name)}>
              Drop
            </button>
          </li>
        ))}
      </ul>
      <button type="button" onClick={() => setAdding(true)}>
        Add a computed field
      </button>
      {isAdding && <Add table={table} close={() => setAdding(false)} />}
      {dropped !== undefined && (
        <ConfirmDrop
          title={`Drop the computed field ${dropped}`}
          verb="Drop"
          close={() => setDropped(undefined)}
          drop={(cascade) => asAdmin('drop_computed_field', { table: wireName(table.table), name: dropped, cascade })}
        >
          <p>The function stays in the database.</p>
        </ConfirmDrop>
      )}
    </section>
  )
}

const resultOf = (field: ComputedField | undefined): string =>
  field?.table ? `${field.set ? 'rows' : 'a row'} of ${labelOf(field.table)}` : (field?.type ?? 'unknown')

function functionIn(name: unknown): string {
  if (typeof name === 'string') return name
  const { schema, name: own } = name as { readonly schema?: string; readonly name: string }
  return schema === undefined ? textOf(own) : `${schema}.${own}`
}

function Add({ table, close }: { readonly table: Table; readonly close: () => void }) {
  const add = (fields: Readonly<Record<string, string>>) => {
    const given = (key: string) => (fields[key] === '' ? undefined : fields[key])
    const definition = {
      function: nameFrom(fields['function'] ?? ''),
      table_argument: given('table_argument'),
      session_argument: given('session_argument'),
    }
    const args = { table: wireName(table.table), name: fields['name'], definition, comment: given('comment') ?? null }
    return asAdmin('add_computed_field', args)
  }
  return (
    <FormDialog title={`Add a computed field to ${labelOf(table.table)}`} verb="Add" change={add} close={close}>
      <label>
        Name <input name="name" required spellcheck={false} />
      </label>
      <label>
        Function <input name="function" required spellcheck={false} placeholder="full_name or schema.full_name" />
      </label>
      <label>
        Its argument for the row <input name="table_argument" spellcheck={false} placeholder="the first" />
      </label>
      <label>
        Its argument for the session variables <input name="session_argument" spellcheck={false} placeholder="none" />
      </label>
      <label>
        Comment <input name="comment" />
      </label>
    </FormDialog>
  )
}
