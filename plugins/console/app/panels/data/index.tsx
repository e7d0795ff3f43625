import { useEffect, useState } from 'preact/hooks'
import { useRoute } from 'preact-iso'
import { query } from '../../api.js'
import { catalog, findTable, isSystem, labelOf } from '../../catalog.js'
import { isAdmin } from '../../session.js'
import { TableView } from './table-view.js'

/** Tables, and the rows of one of them: `/console/data/orders`. */
export default function Data() {
  const { rest = '' } = useRoute() as { readonly rest?: string }
  const label = decodeURIComponent(rest.replace(/^\//, ''))
  const table = findTable(label)
  return (
    <div class="split">
      <TableList chosen={label} />
      <div class="page">
        {table ? (
          <TableView key={label} table={table} />
        ) : (
          <p class="empty">{label === '' ? 'Choose a table.' : `The table ${label} does not exist for this role.`}</p>
        )}
      </div>
    </div>
  )
}

interface Size {
  readonly rows: number | null
}

function TableList({ chosen }: { readonly chosen: string }) {
  const [search, setSearch] = useState('')
  const sizes = useSizes()
  const [showsSystem, setShowsSystem] = useState(false)
  const own = (catalog.value?.tables ?? []).filter((table) => showsSystem || !isSystem(table))
  const tables = own.filter(({ table }) => labelOf(table).includes(search.trim()))
  const hasSystem = catalog.value?.tables.some(isSystem)
  return (
    <aside class="side" aria-label="Tables">
      <input
        type="search"
        aria-label="Search tables"
        placeholder="Search tables"
        value={search}
        onInput={({ currentTarget }) => setSearch(currentTarget.value)}
      />
      <ul>
        {tables.map(({ table }) => {
          const label = labelOf(table)
          const rows = sizes.get(label)?.rows
          return (
            <li key={label}>
              <a
                href={`/console/data/${encodeURIComponent(label)}`}
                aria-current={label === chosen ? 'page' : undefined}
              >
                {label}
                {rows !== null && rows !== undefined && <span class="count">{SHORT.format(rows)}</span>}
              </a>
            </li>
          )
        })}
      </ul>
      {hasSystem && (
        <label class="soft">
          <input
            type="checkbox"
            checked={showsSystem}
            onChange={({ currentTarget }) => setShowsSystem(currentTarget.checked)}
          />{' '}
          Tables of Rowhouse
        </label>
      )}
      {tables.length === 0 && <p class="soft">{search === '' ? 'This role may see no table.' : 'No table matches.'}</p>}
    </aside>
  )
}

const SHORT = new Intl.NumberFormat('en', { notation: 'compact' })

/** Numbers of rows by table, for an admin. */
function useSizes(): ReadonlyMap<string, Size> {
  const [sizes, setSizes] = useState<ReadonlyMap<string, Size>>(new Map())
  useEffect(() => {
    if (!isAdmin.value) return
    query<{ readonly tables: readonly (Size & { readonly table: { schema: string; name: string } })[] }>(
      'table_sizes',
      {},
      { as: null },
    )
      .then(({ tables }) => setSizes(new Map(tables.map((each) => [labelOf(each.table), each]))))
      .catch(() => {})
  }, [])
  return sizes
}
