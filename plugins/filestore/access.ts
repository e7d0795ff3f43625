import type { Call } from 'rowhouse'
import { type Caller, callerOf } from './caller.js'
import type { FilestoreConfig } from './config.js'
import { noPermission, notFound } from './errors.js'
import type { Hook, Wanted } from './hook.js'
import type { Rules } from './rules.js'

/** A caller that may do what it wants, as far as that can be said without the file. */
export interface Permit {
  readonly caller: Caller
  /** Rules have a say in each file. */
  readonly ruled: boolean
}

/**
 * Who may do what with files. Whatever is configured has to agree: the operations of the role, the rules on the table of
 * the records, the hook. Where nothing is, and for everything else, there is the admin, who is asked for nothing.
 */
export class Access {
  private readonly permissions: FilestoreConfig['permissions']
  private readonly rules: Rules
  private readonly hook: Hook | undefined

  constructor({ permissions }: FilestoreConfig, rules: Rules, hook: Hook | undefined) {
    this.permissions = permissions
    this.rules = rules
    this.hook = hook
  }

  /** @throws ServiceError 400 without a user id, 403 when something says no, 404 when the file is hidden, 500 when the hook fails */
  async permit(wanted: Wanted, call: Call): Promise<Permit> {
    const permit = await this.permitAgain(wanted, call)
    if (permit.caller.role !== 'admin') await this.hook?.ask(permit.caller, wanted, call.signal)
    return permit
  }

  /** As `permit`, at the end of what has taken long: the hook was asked at its beginning. */
  async permitAgain(wanted: Wanted, call: Call): Promise<Permit> {
    const caller = callerOf(call.session)
    if (caller.role === 'admin') return { caller, ruled: false }
    const listed = Object.keys(this.permissions).length > 0
    const ruled = this.ruled(call)
    if (!listed && !ruled && !this.hook) throw noPermission(caller.role)
    if (listed) this.requireEntry(caller.role, wanted)
    if (ruled) await this.requireRule(wanted, call)
    return { caller, ruled }
  }

  /** Whether rules have a say in what a caller does. */
  ruled({ session }: Call): boolean {
    return session.role !== 'admin' && this.rules.inForce
  }

  private requireEntry(role: string, { operation }: Wanted): void {
    const may = Object.hasOwn(this.permissions, role) ? this.permissions[role] : undefined
    if (!may?.includes(operation)) throw noPermission(role)
  }

  /** What is stored is judged when it is there. */
  private async requireRule({ operation, id, replaces }: Wanted, call: Call): Promise<void> {
    const { role } = call.session
    if (operation === 'delete') return this.rules.require('delete', role)
    if (operation === 'create') {
      if (!replaces) this.rules.require('insert', role)
      return
    }
    if (!(await this.rules.accept('select', id, call))) throw notFound(id)
  }
}
