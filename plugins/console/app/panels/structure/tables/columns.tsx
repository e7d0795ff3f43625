import { type Column, labelOf, type Table } from '../../../catalog.js'
import { addressOf } from '../structure.js'

/** The columns of a table, and its unique keys. */
export function Columns({ table }: { readonly table: Table }) {
  const keys = table.unique.filter(({ columns }) => columns.join('\0') !== table.primary_key.join('\0'))
  return (
    <section>
      <h3>Columns</h3>
      <div class="wide" tabIndex={0} role="group" aria-label="Columns">
        <table>
          <thead>
            <tr>
              <th>Name</th>
              <th>Type</th>
              <th>Key</th>
              <th>Default</th>
              <th>Comment</th>
            </tr>
          </thead>
          <tbody>
            {table.columns.map((column) => (
              <tr key={column.name}>
                <th scope="row">
                  <bdi>{column.name}</bdi>
                </th>
                <td>
                  <code>{column.type}</code>
                  {column.nullable ? <span class="soft"> or null</span> : ''}
                  {column.values && <div class="soft values">{valuesOf(column)}</div>}
                </td>
                <td>
                  <Keys table={table} column={column} />
                </td>
                <td class="soft">{column.generated ? 'always generated' : column.has_default ? 'yes' : ''}</td>
                <td class="comment">{column.comment}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {keys.length > 0 && (
        <p class="soft">
          Unique:{' '}
          {keys.map(({ name, columns }, i) => (
            <span key={name}>
              {i > 0 && ', '}
              <code title={name}>{columns.join(' + ')}</code>
            </span>
          ))}
        </p>
      )}
    </section>
  )
}

const valuesOf = ({ values = [] }: Column): string =>
  values.slice(0, SHOWN).join(', ') + (values.length > SHOWN ? ` and ${values.length - SHOWN} more` : '')
const SHOWN = 12

/** Says whether a column belongs to the primary key, and where its relationships lead. */
function Keys({ table, column }: { readonly table: Table; readonly column: Column }) {
  const links = table.relationships.filter(
    ({ type, columns }) => type === 'object' && columns !== undefined && Object.hasOwn(columns, column.name),
  )
  return (
    <>
      {table.primary_key.includes(column.name) && <span class="key">primary </span>}
      {links.map((link) => (
        <a key={link.name} href={addressOf(labelOf(link.table))}>
          → {labelOf(link.table)}{' '}
        </a>
      ))}
    </>
  )
}
