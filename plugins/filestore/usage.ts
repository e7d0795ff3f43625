import { type Data, isAdmin, type Operation } from 'rowhouse'
import { limitsOf } from './config.js'
import type { Components } from './components.js'

const MAX_OWNERS = 100

interface Owner {
  readonly user_id: number | string | null
  /** Roles in which the user stored these files. */
  readonly roles: readonly string[]
  readonly files: number
  readonly bytes: number
}

/**
 * `file_usage`: how much of the quota the caller uses, and of an admin how much every owner uses. It needs the permission to
 * store files, which tells the same with its error `quota_exceeded`.
 */
export function fileUsage(data: Data, { config, access, files }: Components): Operation {
  return {
    args: { type: 'object', properties: {}, additionalProperties: false },
    async run(_args, call) {
      const { caller } = await access.recheck({ operation: 'create', id: '' }, call)
      const { maxBytes, userBytes = null } = limitsOf(caller.role, config)
      const { userId } = caller
      const usedBytes = userId === null ? null : await files.usage(userId)
      const own = {
        user_id: userId,
        role: caller.role,
        used_bytes: usedBytes,
        max_user_bytes: userBytes,
        max_bytes: maxBytes,
      }
      const text = isAdmin(call.session) ? { ...own, ...(await owners(data, config)) } : own
      return { kind: 'text', text: JSON.stringify(text) }
    },
  }
}

/** Returns the owners with the most bytes, with the largest quota of their roles. */
async function owners(data: Data, config: Components['config']) {
  const found = await data.query<Owner>(OWNERS, [MAX_OWNERS])
  return { owners: found.map((owner) => ({ ...owner, max_user_bytes: quotaOf(owner.roles, config) })) }
}

/** @returns null when a role has no quota */
function quotaOf(roles: readonly string[], config: Components['config']): number | null {
  const quotas = roles.map((role) => limitsOf(role, config).userBytes ?? Infinity)
  const most = Math.max(...quotas)
  return most === Infinity ? null : most
}

/** Reads all rows of the table. */
const OWNERS = `
select pg_catalog.to_jsonb(user_id) as user_id, pg_catalog.array_agg(distinct user_role) as roles, pg_catalog.count(*)::float8 as files,
  pg_catalog.sum(file_size)::float8 as bytes
from svc_catalog.svc_file group by user_id order by pg_catalog.sum(file_size) desc, user_id limit $1`
