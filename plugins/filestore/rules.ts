import { type Call, type Data, permissionRole, ServiceError, type Session } from 'rowhouse'
import { permissionsOf, type Rule, RULE_ACTIONS, tableKey } from 'rowhouse/plan'
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
      const counted = await this.data.run(countOf(under, id), call)
      return (JSON.parse(counted as string) as { readonly count: number }).count > 0
    } catch (error) {
      if (error instanceof ServiceError && error.code === 'permission-denied')
        throw noPermission(call.session.role).with({ refusal: error.refusal })
      throw error
    }
  }

  /** Returns whether the role has the permission with a rule. */
  may(rule: Rule, session: Session): boolean {
    const table = this.data.catalog.tables.get(KEY)
    return table !== undefined && permissionsOf(table, permissionRole(session))?.[RULE_ACTIONS[rule]] !== undefined
  }

  /** @throws ServiceError 403 unless the role has the permission with a rule */
  async require(rule: Rule, id: string, call: Call): Promise<void> {
    if (!this.may(rule, call.session)) throw await this.refused(noPermission(call.session.role), rule, id, call)
  }

  /** Returns an error with why a rule refuses a file, if an admin acts as the caller's role. */
  refused(error: ServiceError, under: Rule, id: string, call: Call): Promise<ServiceError> {
    const denied = this.may(under, call.session) ? undefined : { table: FILE_TABLE, action: RULE_ACTIONS[under] }
    return this.data.inspect.explainRefusal(error.with({ denied }), call, countOf(under, id))
  }
}

const countOf = (under: Rule, id: string) => ({ planner: PLANNER, shape: { under }, values: [id] })
