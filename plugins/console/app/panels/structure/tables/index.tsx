import { useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { isSystem, labelOf } from '../../../catalog.js'
import { addressOf, asAdmin, type Preview, refOf, useAnswer, useStructure } from '../structure.js'
import { TablePage } from './table-page.js'
import { Untracked } from './untracked.js'

/** The tracked tables beside one of them, or beside what could be tracked. */
export function Tables() {
  const { path } = useLocation()
  const structure = useStructure()
  const label = labelIn(path)
  const { answer: preview, failure } = useAnswer(
    (signal) => asAdmin<Preview>('track_all', { dry_run: true }, { signal }),
    structure.metadata,
  )
  return (
    <div class="split">
      <TableList chosen={label} untracked={preview && countOf(preview)} />
      <div class="page scroll">
        {label === '' ? (
          <Untracked preview={preview} failure={failure} />
        ) : (
          <TablePage key={label} label={label} suggestions={preview ? possible(preview) : []} />
        )}
      </div>
    </div>
  )
}

/** Returns the table that an address names; the text itself if it is no valid part of an address. */
function labelIn(path: string): string {
  const part = path.split('/')[4] ?? ''
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** Returns the suggested relationships between tables that are tracked. */
const possible = ({ tables, relationships }: Preview) => {
  const untracked = new Set(tables.map((table) => labelOf(refOf(table))))
  return relationships.filter(({ table, to }) => [table, to].every((each) => !untracked.has(labelOf(refOf(each)))))
}

const countOf = ({ tables, relationships, functions }: Preview) =>
  tables.length + relationships.length + functions.length

function TableList({ chosen, untracked }: { readonly chosen: string; readonly untracked: number | undefined }) {
  const { catalog, metadata } = useStructure()
  const [search, setSearch] = useState('')
  const existing = catalog.tables.map(({ table }) => labelOf(table))
  const lost = metadata.tables.map(({ table }) => labelOf(refOf(table))).filter((label) => !existing.includes(label))
  const found = catalog.tables.filter((table) => !isSystem(table)).map(({ table }) => labelOf(table))
  const all = [...new Set([...found, ...lost])]
  const shown = all.filter((label) => label.toLowerCase().includes(search.trim().toLowerCase()))
  return (
    <aside class="side" aria-label="Tables">
      <a class="untracked" href="/console/structure" aria-current={chosen === '' ? 'page' : undefined}>
        Not tracked {untracked !== undefined && <span class="count">{untracked}</span>}
      </a>
      <input
        type="search"
        aria-label="Search tables"
        placeholder="Search tables"
        value={search}
        onInput={({ currentTarget }) => setSearch(currentTarget.value)}
      />
      <ul>
        {shown.map((label) => (
          <li key={label}>
            <a href={addressOf(label)} aria-current={label === chosen ? 'page' : undefined}>
              {label}
              {!found.includes(label) && <span class="bad">missing</span>}
            </a>
          </li>
        ))}
      </ul>
      {shown.length === 0 && <p class="soft">{all.length === 0 ? 'No table is tracked yet.' : 'No table matches.'}</p>}
    </aside>
  )
}
