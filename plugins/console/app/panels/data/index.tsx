import { useLocation } from 'preact-iso'
import { catalog, findTable, isSystem } from '../../catalog.js'
import { role } from '../../session.js'
import { useSizes } from './sizes.js'
import { TableList } from './table-list.js'
import { TableView } from './table-view.js'

/** Tables, and the rows of one of them: `/console/data/orders`. */
export default function Data() {
  const { path } = useLocation()
  const label = labelIn(path)
  const table = findTable(label)
  const [sizes, addRows] = useSizes()
  return (
    <div class="split">
      <TableList chosen={label} sizes={sizes} />
      <div class="page">
        {table ? (
          <TableView key={label} table={table} size={sizes.get(label)} onRows={(added) => addRows(label, added)} />
        ) : (
          <NoTable label={label} />
        )}
      </div>
    </div>
  )
}

function NoTable({ label }: { readonly label: string }) {
  if (label !== '') return <p class="empty">{`The table ${label} does not exist for this role.`}</p>
  if (catalog.value?.tables.some((table) => !isSystem(table))) return <p class="empty">Choose a table.</p>
  if (role.value !== 'admin') return <p class="empty">The role {role.value} may see no table.</p>
  return (
    <p class="empty">
      No table is tracked yet. <a href="/console/structure">See what can be tracked</a>, or{' '}
      <a href="/console/structure/sql">create a table with SQL</a>.
    </p>
  )
}

function labelIn(path: string): string {
  const encoded = path.replace(/^\/console\/data\/?/, '')
  try {
    return decodeURIComponent(encoded)
  } catch {
    return encoded
  }
}
