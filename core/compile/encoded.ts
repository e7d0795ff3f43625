import { createHash } from 'node:crypto'
import { type Catalog, type CatalogData, openCatalog, type TableData, tableKey } from '../catalog/catalog.js'

/**
 * A snapshot as the workers get it: lines of JSON. The first has everything but the tables, and their keys in place of
 * them; each of the others is a table.
 */
export interface Encoded {
  readonly id: string
  readonly buffer: Uint8Array
}

export function encodeCatalog({ tables, ...rest }: CatalogData): Encoded {
  const parts = [{ ...rest, tables: tables.map(tableKey) }, ...tables]
  const lines = parts.map((part) => `${JSON.stringify(part)}\n`)
  const buffer = Buffer.alloc(lines.reduce((sum, line) => sum + Buffer.byteLength(line), 0))
  let end = 0
  for (const line of lines) end += buffer.write(line, end)
  return { id: rest.id, buffer }
}

/** A snapshot as a worker keeps it. */
export interface Decoded {
  readonly catalog: Catalog
  readonly tables: ReadonlyMap<string, { readonly hash: string; readonly data: TableData }>
}

/** @param before shares the tables that are the same: they are neither read nor held again */
export function decodeCatalog(encoded: Uint8Array, before: Decoded | undefined): Decoded {
  const [first, ...lines] = linesOf(Buffer.from(encoded.buffer, encoded.byteOffset, encoded.length))
  const { tables: keys, ...rest } = JSON.parse(String(first)) as Omit<CatalogData, 'tables'> & {
    readonly tables: readonly string[]
  }
  const tables = new Map(
    keys.map((key, i) => {
      const line = lines[i] as Buffer
      const hash = createHash('sha256').update(line).digest('base64')
      const known = before?.tables.get(key)
      return [key, known?.hash === hash ? known : { hash, data: JSON.parse(line.toString()) as TableData }]
    }),
  )
  return { catalog: openCatalog({ ...rest, tables: [...tables.values()].map(({ data }) => data) }), tables }
}

/** JSON text has no line ends of its own. */
function linesOf(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = []
  for (let start = 0, end = bytes.indexOf(10); end >= 0; start = end + 1, end = bytes.indexOf(10, start)) {
    lines.push(bytes.subarray(start, end))
  }
  return lines
}
