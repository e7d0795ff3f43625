import { useLocation } from 'preact-iso'
import { findTable } from '../../catalog.js'
import { useSizes } from './sizes.js'
import { TableList } from './table-list.js'
import { TableView } from './table-view.js'

/** Tables, and the rows of one of them: `/console/data/orders`. */
export default function Data() {
  const { path } = useLocation()
  const label = labelIn(path)
  const table = findTable(label)
  const sizes = useSizes()
  return (
    <div class="split">
      <TableList chosen={label} sizes={sizes} />
      <div class="page">
        {table ? (
          <TableView key={label} table={table} size={sizes.get(label)} />
        ) : (
          <p class="empty">{label === '' ? 'Choose a table.' : `The table ${label} does not exist for this role.`}</p>
        )}
      </div>
    </div>
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
