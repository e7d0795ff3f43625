import { type Catalog, type CatalogData, openCatalog } from '../catalog/catalog.js'
import type { Reading } from '../catalog/change.js'
import { CompileCache } from '../compile/cache.js'
import type { Compiled } from '../compile/compile.js'
import { encodeCatalog } from '../compile/encoded.js'
import type { Sendable } from '../compile/pool.js'

/** A catalog and the plans compiled against it. */
export interface Snapshot {
  readonly data: CatalogData
  /** The committed reading it was made from. */
  readonly reading: Reading | undefined
  readonly catalog: Catalog
  readonly cache: CompileCache<Compiled>
  /** Results that front ends prepared. */
  readonly prepared: CompileCache<unknown>
  /** Data for the workers. A snapshot inside a transaction is never sent. */
  readonly sendable: Sendable | undefined
}

/**
 * @param reading reading of a committed snapshot
 * @param earlier previous snapshots that workers may hold
 */
export function openSnapshot(data: CatalogData, reading?: Reading, earlier: readonly CatalogData[] = []): Snapshot {
  return {
    data,
    reading,
    catalog: openCatalog(data),
    cache: new CompileCache(bytesOf),
    prepared: new CompileCache((value) => 2 * JSON.stringify(value).length),
    sendable: reading && sendable(data, earlier),
  }
}

function sendable(data: CatalogData, earlier: readonly CatalogData[]): Sendable {
  let whole: Uint8Array<ArrayBuffer> | undefined
  return {
    id: data.id,
    encoded(held) {
      const base = earlier.findLast(({ id }) => held.includes(id))
      if (base) return encodeCatalog(data, base)
      if (!whole) {
        whole = encodeCatalog(data)
        setTimeout(() => (whole = undefined), KEPT_MS).unref()
      }
      // Copies the bytes, because the copy is transferred. `slice` of a Buffer would share memory.
      return new Uint8Array(whole)
    },
  }
}

/** Time to keep the data, in milliseconds: workers start one after another, also after a restart. */
const KEPT_MS = 10_000

const bytesOf = ({ statements }: Compiled): number =>
  2 * statements.reduce((sum, { text, params }) => sum + text.length + params.length * 100, 0)
