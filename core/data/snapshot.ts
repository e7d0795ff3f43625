import { type Catalog, type CatalogData, openCatalog } from '../catalog/catalog.js'
import type { Reading } from '../catalog/change.js'
import { CompileCache } from '../compile/cache.js'
import type { Compiled } from '../compile/compile.js'
import { encodeCatalog } from '../compile/encoded.js'
import type { Sendable } from '../compile/pool.js'

/** A catalog with what has been compiled against it. */
export interface Snapshot {
  readonly data: CatalogData
  /** As it was read, when it is committed. */
  readonly reading: Reading | undefined
  readonly catalog: Catalog
  readonly cache: CompileCache<Compiled>
  /** What front ends prepared. */
  readonly prepared: CompileCache<unknown>
  /** For the workers. A snapshot inside a transaction never gets there. */
  readonly sendable: Sendable | undefined
}

/**
 * @param reading of a snapshot that is committed
 * @param earlier other snapshots that workers may have
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
      // A copy, which is given away. The `slice` of a Buffer would be none.
      return new Uint8Array(whole)
    },
  }
}

/** Workers start one after another, at first and after they were stopped. */
const KEPT_MS = 10_000

const bytesOf = ({ statements }: Compiled): number =>
  2 * statements.reduce((sum, { text, params }) => sum + text.length + params.length * 100, 0)
