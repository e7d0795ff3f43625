import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { query } from '../../api.js'
import { type Table, wireName } from '../../catalog.js'
import { columnsOf, FILE_TABLE, type FileRow } from './file-table.js'

interface Listing {
  /** Folders below the chosen one, with the whole prefix: `a/b/`. */
  readonly folders: readonly string[]
  readonly files: readonly FileRow[]
  readonly hasAllFolders: boolean
  readonly hasAllFiles: boolean
  /** The id up to which folders were read. */
  readonly lastId: string
}
const NOTHING: Listing = { folders: [], files: [], hasAllFolders: false, hasAllFiles: false, lastId: '' }

const PAGE = 500
/** Requests for folders before the first files are shown. */
const ROUNDS = 10

interface Wanted {
  readonly table: Table
  readonly folder: string
  readonly search: string
  /** A column, after `-` for the greatest first. */
  readonly sort: string
  /** Another number reads the list again. */
  readonly version: number
}

/** Lists a folder, or all files below it whose id contains the search, page by page. */
export function useListing({ table, folder, search, sort, version }: Wanted) {
  const [listing, setListing] = useState(NOTHING)
  const [isReading, setReading] = useState(true)
  const [failure, setFailure] = useState<unknown>()
  const running = useRef<AbortController>(undefined)

  const run = useCallback(async (from: Listing, step: (from: Listing, signal: AbortSignal) => Promise<Listing>) => {
    const { signal } = (running.current = new AbortController())
    setReading(true)
    try {
      const next = await step(from, signal)
      if (!signal.aborted) setListing(next)
    } catch (error) {
      if (!signal.aborted) setFailure(error)
    } finally {
      if (running.current?.signal === signal) {
        running.current = undefined
        setReading(false)
      }
    }
  }, [])
  const source = { table, folder, search, sort }
  useEffect(() => {
    setFailure(undefined)
    const isFlat = search !== ''
    void run(NOTHING, async (from, signal) => {
      const withFolders = isFlat ? { ...from, hasAllFolders: true } : await moreFolders(source, from, signal)
      return moreFiles(source, withFolders, signal)
    })
    return () => running.current?.abort()
  }, [table, folder, search, sort, version])
  const more = (step: typeof moreFiles) => {
    if (!running.current && failure === undefined) {
      void run(listing, (from, signal) => step(source, from, signal))
    }
  }
  return {
    ...listing,
    isReading,
    failure,
    onEnd: () => {
      if (!listing.hasAllFiles) more(moreFiles)
    },
    onMoreFolders: () => more(moreFolders),
  }
}

type Source = Omit<Wanted, 'version'>

/** Reads the next page of files. */
async function moreFiles(source: Source, from: Listing, signal: AbortSignal): Promise<Listing> {
  const { table, folder, search, sort } = source
  const below = `${escaped(folder)}%`
  const where =
    search === '' ? { $like: below, $nlike: `${below}/%` } : { $like: below, $ilike: `%${escaped(search)}%` }
  const last = from.files.at(-1)
  const column = sort.replace(/^-/, '')
  const page = await select(
    table,
    {
      columns: columnsOf(table),
      where: { file_id: where },
      order_by: [sort],
      after: last ? { [column]: last[column], file_id: last.file_id } : {},
    },
    PAGE,
    signal,
  )
  return { ...from, files: [...from.files, ...page], hasAllFiles: page.length < pageOf(table, PAGE) }
}

/**
 * Reads ids in folders below the folder, and skips the rest of the folder in which a page ends. The order of ids depends on
 * the database, so folders between two others are never skipped.
 */
async function moreFolders({ table, folder }: Source, from: Listing, signal: AbortSignal): Promise<Listing> {
  const found = new Set(from.folders)
  const folderAt = (id: string) => id.slice(0, id.indexOf('/', folder.length) + 1)
  let { lastId } = from
  for (let round = 0; round < ROUNDS; round++) {
    const below = { file_id: { $like: `${escaped(folder)}%/%` } }
    const page = await select(
      table,
      {
        columns: ['file_id'],
        where: lastId === '' ? below : { $and: [below, { file_id: { $nlike: `${escaped(folderAt(lastId))}%` } }] },
        order_by: ['file_id'],
        after: lastId === '' ? {} : { file_id: lastId },
      },
      PAGE,
      signal,
    )
    for (const { file_id: id } of page) found.add(folderAt(id))
    lastId = page.at(-1)?.file_id ?? lastId
    if (page.length < pageOf(table, PAGE)) return { ...from, folders: [...found], hasAllFolders: true, lastId }
  }
  return { ...from, folders: [...found], hasAllFolders: false, lastId }
}

const select = (table: Table, args: object, limit: number, signal: AbortSignal) =>
  query<readonly FileRow[]>('select', { table: wireName(FILE_TABLE), ...args, limit: pageOf(table, limit) }, { signal })

/** The limit of the role may be lower. */
const pageOf = ({ limit }: Table, rows: number) => Math.min(limit ?? rows, rows)

/** Returns the text for a pattern of `$like`, where it stands for itself. */
const escaped = (text: string) => text.replaceAll(/[\\%_]/g, '\\$&')
