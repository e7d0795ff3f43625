import { createHash } from 'node:crypto'
import { type Catalog, type CatalogData, openCatalog, type TableData, tableKey } from '../catalog/catalog.js'
import type { BoolExp } from '../ir.js'

/**
 * The encoding of a snapshot for workers: lines of JSON. The first line contains everything except the tables, which
 * follow one per line. Parts that another snapshot of the worker contains are omitted.
 */
interface FirstLine extends Omit<CatalogData, 'tables' | 'filters'> {
  /** Id of the other snapshot. */
  readonly base?: string
  /** Keys of all tables in order. */
  readonly keys: readonly string[]
  /** Indexes in `keys` of the tables that follow. */
  readonly sent: readonly number[]
  /** Filters with their indexes. */
  readonly filters: readonly (readonly [number, BoolExp])[]
  readonly filterCount: number
}

/** @returns bytes in a separate buffer that can be transferred */
export function encodeCatalog({ tables, filters, ...rest }: CatalogData, base?: CatalogData): Uint8Array<ArrayBuffer> {
  const known = new Set(base?.tables)
  const sent = [...tables.keys()].filter((i) => !known.has(tables[i] as TableData))
  const first: FirstLine = {
    ...rest,
    ...(base ? { base: base.id } : {}),
    keys: tables.map(tableKey),
    sent,
    filters: [...filters.entries()].filter(([i, filter]) => filter !== base?.filters[i]),
    filterCount: filters.length,
  }
  const lines = [first, ...sent.map((i) => tables[i])].map((part) => `${JSON.stringify(part)}\n`)
  const buffer = Buffer.alloc(lines.reduce((sum, line) => sum + Buffer.byteLength(line), 0))
  let end = 0
  for (const line of lines) end += buffer.write(line, end)
  return buffer
}

/** A decoded snapshot in a worker. */
export interface Decoded {
  readonly catalog: Catalog
  readonly tables: ReadonlyMap<string, { readonly hash: string; readonly data: TableData }>
}

/**
 * @param held snapshots by id; equal tables are shared with the newest and not parsed again
 * @returns undefined when an omitted part is not held
 */
export function decodeCatalog(encoded: Uint8Array, held: ReadonlyMap<string, Decoded>): Decoded | undefined {
  const [line, ...lines] = linesOf(Buffer.from(encoded.buffer, encoded.byteOffset, encoded.length))
  const { base, keys, sent, filters: sentFilters, filterCount, ...rest } = JSON.parse(String(line)) as FirstLine
  const before = base === undefined ? [...held.values()].at(-1) : held.get(base)
  if (base !== undefined && !before) return undefined
  const tables = new Map<string, { readonly hash: string; readonly data: TableData }>()
  const received = new Map(sent.map((place, i) => [place, lines[i] as Buffer]))
  for (const [place, key] of keys.entries()) {
    const text = received.get(place)
    const known = before?.tables.get(key)
    const hash = text && createHash('sha256').update(text).digest('base64')
    if (known && (hash === undefined || hash === known.hash)) tables.set(key, known)
    else if (hash !== undefined) tables.set(key, { hash, data: JSON.parse(String(text)) as TableData })
  }
  const filters = base === undefined ? [] : (before?.catalog.filters.slice(0, filterCount) ?? [])
  for (const [place, filter] of sentFilters) filters[place] = filter
  const data = { ...rest, filters, tables: [...tables.values()].map(({ data }) => data) }
  return { catalog: openCatalog(data), tables }
}

/** Splits at line breaks, which JSON text does not contain. */
function linesOf(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = []
  for (let start = 0, end = bytes.indexOf(10); end >= 0; start = end + 1, end = bytes.indexOf(10, start)) {
    lines.push(bytes.subarray(start, end))
  }
  return lines
}
