import { useState } from 'preact/hooks'
import { catalog, isSystem, labelOf } from '../../catalog.js'
import { bytesText, countText, type Size } from './sizes.js'

/** The tables that the caller sees, with their rows and sizes. */
export function TableList({ chosen, sizes }: { readonly chosen: string; readonly sizes: ReadonlyMap<string, Size> }) {
  const [search, setSearch] = useState('')
  const [showsSystem, setShowsSystem] = useState(false)
  const all = catalog.value?.tables ?? []
  const own = all.filter((table) => showsSystem || !isSystem(table) || labelOf(table.table) === chosen)
  const tables = own.filter(({ table }) => labelOf(table).toLowerCase().includes(search.trim().toLowerCase()))
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
          const size = sizes.get(label)
          return (
            <li key={label}>
              <a
                href={`/console/data/${encodeURIComponent(label)}`}
                aria-current={label === chosen ? 'page' : undefined}
                title={size && sizeTitle(size)}
              >
                {label}
                {size && (
                  <span class="count">
                    {size.rows !== null && `${countText(size.rows)} · `}
                    {bytesText(size.bytes)}
                  </span>
                )}
              </a>
            </li>
          )
        })}
      </ul>
      {all.some(isSystem) && (
        <label class="soft">
          <input
            type="checkbox"
            checked={showsSystem}
            onChange={({ currentTarget }) => setShowsSystem(currentTarget.checked)}
          />{' '}
          Internal tables of Rowhouse
        </label>
      )}
      {tables.length === 0 && search !== '' && <p class="soft">No table matches.</p>}
    </aside>
  )
}

const sizeTitle = ({ rows, estimated, bytes }: Size): string =>
  `${rows === null ? 'rows are not known' : `${estimated ? 'about ' : ''}${rows.toLocaleString('en')} rows`}, ${bytes.toLocaleString('en')} bytes with indexes`
