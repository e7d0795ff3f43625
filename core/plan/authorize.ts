import { isAdmin } from '../session.js'
import type { Catalog } from '../catalog/catalog.js'
import type { Op } from '../ir.js'
import { readsIn } from './authorize-read.js'
import { scopeOf } from './authorize-scope.js'
import { writesIn } from './authorize-write.js'

/**
 * Rewrites a plan so that it does only what `role` may: adds row filters, checks columns, and inserts presets and
 * checks, at every depth. Permissions are applied nowhere else. `admin` is not looked up.
 * @param key role of `permissionRole`
 * @throws ServiceError 400 `permission-denied`
 */
export function authorize(op: Op, key: string, catalog: Catalog): Op {
  if (isAdmin({ role: key })) return op
  const scope = scopeOf(key, catalog)
  const reads = readsIn(scope)
  switch (op.kind) {
    case 'read':
      return reads.read(op)
    case 'count':
      return reads.count(op)
    case 'roots':
      return { ...op, fields: reads.fields(op.fields, undefined) }
    case 'insert':
    case 'update':
    case 'delete':
      return writesIn(scope, reads)(op)
  }
}
