import { type Catalog, type CatalogData, openCatalog } from '../catalog/catalog.js'
import { CompileCache } from '../compile/cache.js'
import type { Compiled } from '../compile/compile.js'
import { type Encoded, encodeCatalog } from '../compile/encoded.js'

/** A catalog with what has been compiled against it. */
export interface Snapshot {
  /** As it was read. */
  readonly data: CatalogData
  readonly catalog: Catalog
  readonly cache: CompileCache<Compiled>
  /** What front ends prepared. */
  readonly prepared: CompileCache<unknown>
  /** For the workers, once, when the first of them asks. A snapshot inside a transaction never gets there. */
  encoded(): Encoded | undefined
}

export function openSnapshot(data: CatalogData, committed: boolean): Snapshot {
  let encoded: Encoded | undefined
  return {
    data,
    catalog: openCatalog(data),
    cache: new CompileCache(bytesOf),
    prepared: new CompileCache((value) => 2 * JSON.stringify(value).length),
    encoded() {
      if (committed) encoded ??= encodeCatalog(data)
      return encoded
    },
  }
}

const bytesOf = ({ statements }: Compiled): number =>
  2 * statements.reduce((sum, { text, params }) => sum + text.length + params.length * 100, 0)
