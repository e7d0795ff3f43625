import { type Call, type Data, permissionRole, ServiceError, type Session } from 'rowhouse'
import { permissionsOf, type RolePermissions, type Rule, tableKey } from 'rowhouse/plan'
import { noPermission } from './errors.js'
import { FILE_TABLE } from './plan.js'

export const PLANNER = 'file'

const KEY = tableKey(FILE_TABLE)

/**
 * Row permissions on `svc_catalog.svc_file`: `select` decides which files may be read, `insert` and `update` which may be
 * stored and replaced, `delete` which may be deleted.
 */
export class Rules {
  constructor(private readonly data: Data) {}

  /** Whether the table is tracked. Then a role without a permission on it has no access. */
  get inForce(): boolean {
    return this.data.catalog.tables.has(KEY)
  }

  /**
   * Returns whether a rule of the caller's role accepts the current record of a file, in the transaction of the call.
   * @throws ServiceError 403 when the role has no such rule
   */
  async accept(under: Rule, id: string, call: Call): Promise<boolean> {
    try {
      const counted = await this.data.run({ planner: PLANNER, shape: { under }, values: [id] }, call)
      return (JSON.parse(counted as string) as { readonly count: number }).count > 0
    } catch (error) {
      if (error instanceof ServiceError && error.code === 'permission-denied') throw noPermission(call.session.role)
      throw error
    }
  }

  /** Returns whether the role has a permission of that type. */
  may(type: keyof Omit<RolePermissions, 'role'>, session: Session): boolean {
    const table = this.data.catalog.tables.get(KEY)
    return table !== undefined && permissionsOf(table, permissionRole(session))?.[type] !== undefined
  }

  /** @throws ServiceError 403 unless the role has a permission of that type */
  require(type: keyof Omit<RolePermissions, 'role'>, session: Session): void {
    if (!this.may(type, session)) throw noPermission(session.role)
  }
}
