import type { Data, Operation } from 'rowhouse'
import { parseFailed } from 'rowhouse/plan'
import { anything, args, comment, metadataOperation, tableOf, tableSchema, text } from './operation.js'

const TYPES = ['insert', 'select', 'update', 'delete'] as const
const target = { table: tableSchema, role: text } as const

/** Operations that create, drop and comment the permissions of a role on a table, and say what roles inherit. */
export function permissionOperations(data: Data): Record<string, Operation> {
  const operation = metadataOperation(data)
  const operations: Record<string, Operation> = {}
  for (const type of TYPES) {
    operations[`create_${type}_permission`] = operation(
      args({ ...target, permission: anything, comment }, ['comment']),
      (edit, { table, role, permission, comment = null }) =>
        edit.createPermission(tableOf(table), role, type, permission, comment),
    )
    operations[`drop_${type}_permission`] = operation(args(target), (edit, { table, role }) =>
      edit.dropPermission(tableOf(table), role, type),
    )
  }
  const type = { ...text, enum: TYPES } as const
  operations['set_permission_comment'] = operation(
    args({ ...target, type, permission: type, comment }, ['type', 'permission', 'comment']),
    (edit, { table, role, comment = null, permission, type = permission }) => {
      if (!type) throw parseFailed("the key 'type' was not present", '$.args')
      edit.commentPermission(tableOf(table), role, type, comment)
    },
  )
  operations['set_role_inheritance'] = operation(
    args({ role: text, roles: { anyOf: [{ type: 'array', items: text }, { type: 'null' }] } }),
    (edit, { role, roles }) => edit.setInheritance(role, roles ?? []),
  )
  return operations
}
