import { type Table, wireName } from '../../../catalog.js'
import { fieldsOf } from '../../../ui/form.js'
import { Problem } from '../../../ui/problem.js'
import { asAdmin, type Customization, type TableEntry, useChange } from '../structure.js'

const ROOT_FIELDS = [
  'select',
  'select_by_pk',
  'select_aggregate',
  'insert',
  'insert_one',
  'update',
  'update_by_pk',
  'update_many',
  'delete',
  'delete_by_pk',
] as const

/** Names of a table and its columns in GraphQL, and whether its rows are an enum there. */
export function GraphqlNames({ table, entry }: { readonly table: Table; readonly entry: TableEntry }) {
  const { run, isBusy, failure } = useChange()
  const enumeration = useChange()
  const named = wireName(table.table)
  const {
    custom_name: name = '',
    custom_root_fields: roots = {},
    column_config: columns = {},
  } = entry.configuration ?? {}
  const submit = (event: SubmitEvent) => {
    const configuration = configurationFrom(fieldsOf(event), entry.configuration ?? {})
    void run(() => asAdmin('set_table_customization', { table: named, configuration }))
  }
  return (
    <section>
      <h3>GraphQL</h3>
      <label>
        <input
          type="checkbox"
          checked={entry.is_enum === true}
          disabled={enumeration.isBusy}
          onChange={({ currentTarget }) => {
            const { checked } = currentTarget
            currentTarget.checked = entry.is_enum === true
            void enumeration.run(() => asAdmin('set_table_is_enum', { table: named, is_enum: checked }))
          }}
        />{' '}
        The rows are the values of an enum
      </label>
      {enumeration.failure !== undefined && <Problem of={enumeration.failure} />}
      <details>
        <summary>
          Names <span class="soft">{entry.configuration ? 'some are changed' : 'those of the database'}</span>
        </summary>
        <form class="fields" key={JSON.stringify(entry.configuration)} onSubmit={submit}>
          <label>
            Table <input name="name" defaultValue={name} placeholder={table.table.name} spellcheck={false} />
          </label>
          <fieldset>
            <legend>Root fields</legend>
            <div class="pairs">
              {ROOT_FIELDS.map((field) => (
                <label key={field}>
                  {field} <input name={`root ${field}`} defaultValue={roots[field] ?? ''} spellcheck={false} />
                </label>
              ))}
            </div>
          </fieldset>
          <fieldset>
            <legend>Columns</legend>
            <div class="pairs">
              {table.columns.map((column) => (
                <label key={column.name}>
                  <bdi>{column.name}</bdi>{' '}
                  <input
                    name={`column ${column.name}`}
                    defaultValue={columns[column.name]?.custom_name ?? ''}
                    placeholder={column.name}
                    spellcheck={false}
                  />
                </label>
              ))}
            </div>
          </fieldset>
          {failure !== undefined && <Problem of={failure} />}
          <p class="row">
            <button class="primary" disabled={isBusy}>
              Save the names
            </button>
            {entry.configuration && (
              <button
                type="button"
                disabled={isBusy}
                onClick={() =>
                  void run(() => asAdmin('set_table_customization', { table: named, configuration: null }))
                }
              >
                Use those of the database
              </button>
            )}
          </p>
        </form>
      </details>
    </section>
  )
}

/** Returns the configuration of a table with the names of the form; null when there is no name. */
function configurationFrom(fields: Readonly<Record<string, string>>, before: Customization): Customization | null {
  const startingWith = (start: string) =>
    Object.entries(fields).flatMap(([key, value]): [string, string][] =>
      key.startsWith(start) && value.trim() !== '' ? [[key.slice(start.length), value.trim()]] : [],
    )
  const roots = Object.fromEntries(startingWith('root '))
  const columns = Object.fromEntries(startingWith('column ').map(([column, name]) => [column, { custom_name: name }]))
  const { custom_name: _, custom_root_fields: __, column_config: ___, ...rest } = before
  const name = fields['name']?.trim() ?? ''
  const all = {
    ...rest,
    ...(name === '' ? {} : { custom_name: name }),
    ...(Object.keys(roots).length === 0 ? {} : { custom_root_fields: roots }),
    ...(Object.keys(columns).length === 0 ? {} : { column_config: columns }),
  }
  return Object.keys(all).length === 0 ? null : all
}
