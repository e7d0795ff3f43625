import { type Call, isAdmin } from 'rowhouse'
import { type Caller, callerOf } from './caller.js'
import type { FilestoreConfig } from './config.js'
import { noPermission, notFound } from './errors.js'
import type { FileRequest, Hook } from './hook.js'
import type { Rules } from './rules.js'

/** A caller who may proceed, as far as that can be decided without the file. */
export interface Permit {
  readonly caller: Caller
  /** Whether rules still have to be checked for each file. */
  readonly ruled: boolean
}

/**
 * Decides who may do what with files. Everything that is configured has to agree: the operations of the role, the rules
 * on the table of file records, the hook. Without any of them only the admin has access, for whom none is checked.
 */
export class Access {
  private readonly permissions: FilestoreConfig['permissions']

  constructor(
    { permissions }: FilestoreConfig,
    private readonly rules: Rules,
    private readonly hook: Hook | undefined,
  ) {
    this.permissions = permissions
  }

  /** @throws ServiceError 400 without a user id, 403 when refused, 404 when the file is hidden, 500 when the hook fails */
  async check(request: FileRequest, call: Call): Promise<Permit> {
    const permit = await this.recheck(request, call)
    if (!isAdmin(permit.caller)) await this.hook?.check(permit.caller, request, call.signal)
    return permit
  }

  /** Like `check` but without the hook, which has been called at the beginning of a long operation. */
  async recheck(request: FileRequest, call: Call): Promise<Permit> {
    const caller = callerOf(call.session)
    if (isAdmin(caller)) return { caller, ruled: false }
    const listed = Object.keys(this.permissions).length > 0
    const ruled = this.ruled(call)
    if (!listed && !ruled && !this.hook) throw noPermission(caller.role)
    if (listed) this.requireEntry(caller.role, request)
    if (ruled) await this.requireRule(request, call)
    return { caller, ruled }
  }

  /** Tells whether rules apply to a caller. */
  ruled({ session }: Call): boolean {
    return !isAdmin(session) && this.rules.inForce
  }

  private requireEntry(role: string, { operation }: FileRequest): void {
    const allowed = Object.hasOwn(this.permissions, role) ? this.permissions[role] : undefined
    if (!allowed?.includes(operation)) throw noPermission(role)
  }

  /** Rules on stored content are checked when it has arrived. */
  private async requireRule({ operation, id, replaces }: FileRequest, call: Call): Promise<void> {
    const { role } = call.session
    if (operation === 'delete') return this.rules.require('delete', role)
    if (operation === 'create') {
      if (!replaces) this.rules.require('insert', role)
      return
    }
    if (!(await this.rules.accept('select', id, call))) throw notFound(id)
  }
}
