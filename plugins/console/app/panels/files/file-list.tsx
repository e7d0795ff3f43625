import { useRef, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import type { Table } from '../../catalog.js'
import { numberOf, textOf } from '../../json.js'
import { timeText } from '../../time.js'
import { Grid, type GridColumn, type GridRow } from '../../ui/grid.js'
import { Problem } from '../../ui/problem.js'
import { DeleteFiles } from './delete-files.js'
import { addressOf, type FileRow, maySelect, nameOf, type Place, sizeText } from './file-table.js'
import { useListing } from './listing.js'

interface Props {
  readonly table: Table
  readonly place: Place
  readonly version: number
  readonly onDeleted: () => void
}

/** The folders and files of a folder, or the files that a search finds. */
export function FileList({ table, place, version, onDeleted }: Props) {
  const { folder, search, file } = place
  const { route } = useLocation()
  const [sort, setSort] = useState('file_id')
  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set())
  const lastMarked = useRef(0)
  const [isDeleting, setDeleting] = useState(false)
  const listing = useListing({ table, folder, search, sort, version })
  const { folders, isReading, failure } = listing
  const rows: readonly GridRow[] = [
    ...folders.toSorted(NATURAL.compare).map((name) => ({ folder: name })),
    ...inOrder(listing, sort).map(shownRow),
  ]
  const idAt = (index: number) => rows[index]?.['file_id'] as string | undefined
  const markedRows = new Set([...rows.keys()].filter((index) => marked.has(idAt(index) ?? '')))
  const mark = (index: number, isRange: boolean) => {
    const from = isRange ? lastMarked.current : index
    const range = rows.slice(Math.min(from, index), Math.max(from, index) + 1)
    const ids = range.flatMap(({ file_id: id }) => (typeof id === 'string' ? [id] : []))
    const isOn = isRange || !marked.has(idAt(index) ?? '')
    setMarked(isOn ? new Set([...marked, ...ids]) : new Set([...marked].filter((id) => !ids.includes(id))))
    lastMarked.current = index
  }
  const open = (index: number) => {
    const row = rows[index]
    if (row?.['folder'] !== undefined) route(addressOf({ folder: textOf(row['folder']) }))
    else if (row) route(addressOf({ folder, search, file: textOf(row['file_id']) }))
  }
  const onSort = (key: string) => {
    setSort(sort === key ? `-${key}` : key)
  }
  const chosen = rows.findIndex((row) => row['file_id'] !== undefined && row['file_id'] === file)
  return (
    <>
      <p class="bar soft" role="status">
        {statusOf(listing)}
        {!listing.hasAllFolders && !isReading && failure === undefined && (
          <button type="button" class="quiet" onClick={listing.onMoreFolders}>
            More folders
          </button>
        )}
        {marked.size > 0 && (
          <span class="row push">
            {marked.size} selected
            <button type="button" class="quiet" onClick={() => setMarked(new Set())}>
              Select none
            </button>
            {table.actions.delete && (
              <button type="button" class="danger" onClick={() => setDeleting(true)}>
                Delete …
              </button>
            )}
          </span>
        )}
      </p>
      {failure !== undefined && <Problem of={failure} />}
      {rows.length === 0 && failure === undefined ? (
        <Empty isReading={isReading} place={place} />
      ) : (
        <Grid
          label="Files"
          columns={columnsFor(table, search !== '')}
          rows={rows}
          sort={[sort]}
          onSort={onSort}
          onEnd={listing.onEnd}
          onChoose={open}
          chosen={chosen}
          marked={markedRows}
          onMark={table.actions.delete ? mark : undefined}
          markLabel={({ file_id: id }) => (typeof id === 'string' ? `Select ${id}` : undefined)}
        />
      )}
      {isDeleting && (
        <DeleteFiles
          ids={[...marked]}
          close={(deleted) => {
            setDeleting(false)
            setMarked(new Set([...marked].filter((id) => !deleted.includes(id))))
            if (deleted.length > 0) onDeleted()
          }}
        />
      )}
    </>
  )
}

function Empty({ isReading, place: { folder, search } }: { readonly isReading: boolean; readonly place: Place }) {
  if (isReading) return <p class="wait">Loading …</p>
  if (search !== '') return <p class="empty">No id of a file that this role may see contains this text.</p>
  return (
    <p class="empty">
      {folder === ''
        ? 'There are no files that this role may see.'
        : 'This folder has no files that this role may see.'}{' '}
      Drop files here to upload them.
    </p>
  )
}

function statusOf({ folders, files, hasAllFolders, hasAllFiles, isReading }: ReturnType<typeof useListing>): string {
  if (isReading && files.length + folders.length === 0) return 'Loading …'
  const counts = [
    folders.length > 0 && `${folders.length}${hasAllFolders ? '' : '+'} ${folders.length === 1 ? 'folder' : 'folders'}`,
    `${files.length}${hasAllFiles ? '' : '+'} ${files.length === 1 ? 'file' : 'files'}`,
  ]
  return counts.filter(Boolean).join(', ')
}

/** Returns the files as people count, `2` before `10`, if all are loaded. Pages come in the order of the database. */
function inOrder({ files, hasAllFiles }: ReturnType<typeof useListing>, sort: string): readonly FileRow[] {
  const column = sort.replace(/^-/, '')
  if (!hasAllFiles || !TEXTS.has(column)) return files
  const sorted = files.toSorted((a, b) => NATURAL.compare(textOf(a[column]), textOf(b[column])))
  return sort === column ? sorted : sorted.toReversed()
}

const NATURAL = new Intl.Collator('en', { numeric: true })
const TEXTS: ReadonlySet<string> = new Set(['file_id', 'content_type', 'user_id'])

function columnsFor(table: Table, isSearch: boolean): readonly GridColumn[] {
  const columns: readonly GridColumn[] = [
    {
      key: 'file_id',
      title: 'Name',
      minWidth: 280,
      render: (id, row) => (
        <bdi>{typeof id === 'string' ? isSearch ? id : nameOf(id) : <b>{nameOf(textOf(row['folder']))}</b>}</bdi>
      ),
    },
    { key: 'file_size', title: 'Size', numeric: true },
    { key: 'content_type', title: 'Type' },
    { key: 'user_id', title: 'Owner' },
    { key: 'updated_at', title: 'Changed' },
    ...(maySelect(table, 'updated_at') ? [] : [{ key: 'created_at', title: 'Created' }]),
  ]
  return columns.filter(({ key }) => maySelect(table, key))
}

/** Returns the texts of a row, from which the widths of columns follow too. */
const shownRow = (row: FileRow): GridRow => ({
  ...row,
  file_size: sizeText(numberOf(row['file_size'])),
  user_id: ownerOf(textOf(row['user_id']), textOf(row['user_role'])),
  updated_at: timeText(row['updated_at']),
  created_at: timeText(row['created_at']),
})

/** Returns an owner for people: the user and the role at the time of the upload. An admin without a user id has 0. */
export const ownerOf = (user: string, role: string): string =>
  [user === '' || (user === '0' && role === 'admin') ? '' : `user ${user}`, role]
    .filter((each) => each !== '')
    .join(', ')
