import { catalog, isSameTable, type Table } from '../../catalog.js'
import { acting, role, session } from '../../session.js'
import type { GridRow } from '../../ui/grid.js'

/** What the server says about uploads. */
export interface Service {
  readonly isLoaded: boolean
  /** Whether uploads are possible: they are resumable ones. */
  readonly uploads: boolean
  readonly maxBytes: number
}

/** Files are rows of this table. The permissions of a role on it are the rules for files. */
export const FILE_TABLE = { schema: 'svc_catalog', name: 'svc_file' }

/** The columns that the role may select, besides the id. */
export type FileRow = GridRow & { readonly file_id: string }

/** Returns the table if it is tracked and the role may list files. */
export function listedTable(): Table | undefined {
  const table = catalog.value?.tables.find((each) => isSameTable(each.table, FILE_TABLE))
  return table && maySelect(table, 'file_id') ? table : undefined
}

export const maySelect = (table: Table | undefined, column: string): boolean =>
  table?.columns.some(({ name, select }) => name === column && select) ?? false

/** Returns the columns of a list that the role may select. */
export const columnsOf = (table: Table): readonly string[] => COLUMNS.filter((name) => maySelect(table, name))
const COLUMNS = [
  'file_id',
  'file_size',
  'content_type',
  'user_id',
  'user_role',
  'created_at',
  'updated_at',
  'etag',
] as const

const USER_ID = 'x-service-user-id'

/** The user who owns the files that the caller stores; undefined if they have no owner. */
export function userOf(): string | undefined {
  const variables = acting.value?.variables ?? session.value?.variables ?? {}
  const isText = catalog.value?.tables
    .find((each) => isSameTable(each.table, FILE_TABLE))
    ?.columns.some(({ name, type }) => name === 'user_id' && type === 'text')
  return variables[USER_ID] ?? (role.value === 'admin' && isText !== true ? '0' : undefined)
}

/**
 * Headers of all requests for files. The name is that of the session variable, so that an acting admin sends it once. Where
 * user ids are integers, an admin needs one too.
 */
export function userHeaders(): Record<string, string> {
  const user = userOf()
  return user === undefined ? {} : { [USER_ID]: user }
}

/** Returns the path of a file's bytes. */
export const pathOf = (id: string): string => `/v1/file/${encodeURIComponent(id)}`

/** Returns the folder of an id, with its slash: `a/b/` for `a/b/c.png`. */
export const folderOf = (id: string): string => id.slice(0, id.lastIndexOf('/') + 1)

/** Returns the last part of an id, with the slash of a folder. */
export const nameOf = (id: string): string => id.slice(id.replace(/\/$/, '').lastIndexOf('/') + 1)

/** What the panel shows: `/console/files?in=a/b/&search=...&file=...`. */
export interface Place {
  readonly folder: string
  readonly search: string
  /** Id of the file whose details are shown. */
  readonly file?: string | undefined
}

export const placeOf = (query: Readonly<Record<string, string>>): Place => ({
  folder: query['in'] ?? '',
  search: query['search'] ?? '',
  file: query['file'],
})

export function addressOf({ folder, search, file }: Partial<Place>): string {
  const query = new URLSearchParams({
    ...(folder ? { in: folder } : {}),
    ...(search ? { search } : {}),
    ...(file === undefined ? {} : { file }),
  }).toString()
  return `/console/files${query === '' ? '' : `?${query}`}`
}

/** Returns a size in bytes for people. */
export function sizeText(bytes: number | undefined): string {
  if (bytes === undefined) return ''
  const power = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), UNITS.length - 1)
  return `${NUMBER.format(bytes / 1000 ** power)} ${UNITS[power]}`
}
const UNITS = ['B', 'kB', 'MB', 'GB', 'TB']
const NUMBER = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 })
