import { type Call, isAdmin } from 'rowhouse'
import { type Caller, callerOf } from './caller.js'
import type { FilestoreConfig } from './config.js'
import { noPermission, notFound } from './errors.js'
import type { FileRequest, Hook } from './hook.js'
import type { Rules } from './rules.js'

/** The result of a check that passed, as far as it is possible without the file. */
export interface Permit {
  readonly caller: Caller
  /** Whether rules still have to be checked for each file. */
  readonly ruled: boolean
}

/**
 * Checks permissions for files. Everything that is configured must allow the request: the operations of the role, the rules
 * on the table of file records, the hook. Without any of them, only the admin has access. None applies to the admin.
 */
export class Access {
  private readonly permissions: FilestoreConfig['permissions']
  private readonly userId: FilestoreConfig['userId']

  constructor(
    { permissions, userId }: FilestoreConfig,
    private readonly rules: Rules,
    private readonly hook: Hook | undefined,
  ) {
    this.permissions = permissions
    this.userId = userId
  }

  /** @throws ServiceError 400 without a user id, 403 when refused, 404 when the file is hidden, 500 when the hook fails */
  async check(request: FileRequest, call: Call): Promise<Permit> {
    const permit = await this.recheck(request, call)
    if (!isAdmin(permit.caller)) await this.hook?.check(permit.caller, request, call.signal)
    return permit
  }

  /** Like `check`, without the hook, which was called when the upload began. */
  async recheck(request: FileRequest, call: Call): Promise<Permit> {
    const caller = callerOf(call.session, this.userId)
    if (isAdmin(caller)) return { caller, ruled: false }
    const listed = Object.keys(this.permissions).length > 0
    const ruled = this.ruled(call)
    if (!listed && !ruled && !this.hook) throw noPermission(caller.role)
    if (listed) this.requireOperation(caller.role, request)
    if (ruled) await this.requireRule(request, call)
    return { caller, ruled }
  }

  /** Returns whether rules apply to the caller. */
  ruled({ session }: Call): boolean {
    return !isAdmin(session) && this.rules.inForce
  }

  private requireOperation(role: string, { operation }: FileRequest): void {
    const allowed = Object.hasOwn(this.permissions, role) ? this.permissions[role] : undefined
    if (!allowed?.includes(operation)) throw noPermission(role)
  }

  /** Rules on the new content are checked in the transaction that stores it. */
  private async requireRule({ operation, id, replaces }: FileRequest, call: Call): Promise<void> {
    if (operation === 'delete') return this.rules.require('delete', id, call)
    if (operation === 'create') {
      if (!replaces) await this.rules.require('inserted', id, call)
      return
    }
    if (!(await this.rules.accept('select', id, call))) {
      throw await this.rules.refused(notFound(id), 'select', id, call)
    }
  }
}
