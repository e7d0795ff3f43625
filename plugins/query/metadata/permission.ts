import type { Data, Operation, PermissionType } from 'rowhouse'
import { type Json, parseFailed } from 'rowhouse/plan'
import { anything, args, comment, type Comment, metadataOperation, tableOf, tableSchema, text } from './operation.js'

const TYPES: readonly PermissionType[] = ['insert', 'select', 'update', 'delete']

const target = { table: tableSchema, role: text }
interface Target {
  readonly table: Json
  readonly role: string
  readonly comment?: Comment
}

/** Operations that create, drop and comment the permissions of a role on a table, and say what roles inherit. */
export function permissionOperations(data: Data): Record<string, Operation> {
  const operations: Record<string, Operation> = {}
  for (const type of TYPES) {
    operations[`create_${type}_permission`] = metadataOperation<Target & { permission: Json }>(
      data,
      args({ ...target, permission: anything, comment }, ['comment']),
      (edit, { table, role, permission, comment = null }) =>
        edit.createPermission(tableOf(table), role, type, permission, comment),
    )
    operations[`drop_${type}_permission`] = metadataOperation<Target>(data, args(target), (edit, { table, role }) =>
      edit.dropPermission(tableOf(table), role, type),
    )
  }
  const type = { ...text, enum: TYPES }
  operations['set_permission_comment'] = metadataOperation<
    Target & { type?: PermissionType; permission?: PermissionType }
  >(
    data,
    args({ ...target, type, permission: type, comment }, ['type', 'permission', 'comment']),
    (edit, { table, role, comment = null, permission, type = permission }) => {
      if (!type) throw parseFailed("the key 'type' was not present", '$.args')
      edit.commentPermission(tableOf(table), role, type, comment)
    },
  )
  operations['set_role_inheritance'] = metadataOperation<{ role: string; roles: readonly string[] | null }>(
    data,
    args({ role: text, roles: { anyOf: [{ type: 'array', items: text }, { type: 'null' }] } }),
    (edit, { role, roles }) => edit.setInheritance(role, roles ?? []),
  )
  return operations
}
