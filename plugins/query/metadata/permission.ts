import type { Data, Operation, PermissionType } from 'rowhouse'
import { type JsonObject, liftTableRef, parseFailed } from 'rowhouse/plan'
import { done } from './done.js'
import { anything, args, nullableText, tableSchema } from './shapes.js'

const TYPES: readonly PermissionType[] = ['insert', 'select', 'update', 'delete']

/** create and drop for each of the four types, and the comment. */
export function permissionOperations(data: Data): Record<string, Operation> {
  const operations: Record<string, Operation> = {}
  for (const type of TYPES) {
    operations[`create_${type}_permission`] = {
      admin: true,
      args: args({ table: tableSchema, role: { type: 'string' }, permission: anything, comment: nullableText }, [
        'comment',
      ]),
      async run(value, call) {
        const { table, role, permission, comment } = value as JsonObject
        const ref = liftTableRef(table, '$.args.table')
        await data.alter(call, (edit) =>
          edit.createPermission(ref, role as string, type, permission ?? null, (comment ?? null) as string | null),
        )
        return done
      },
    }
    operations[`drop_${type}_permission`] = {
      admin: true,
      args: args({ table: tableSchema, role: { type: 'string' } }),
      async run(value, call) {
        const { table, role } = value as JsonObject
        const ref = liftTableRef(table, '$.args.table')
        await data.alter(call, (edit) => edit.dropPermission(ref, role as string, type))
        return done
      },
    }
  }
  operations['set_permission_comment'] = {
    admin: true,
    args: args(
      {
        table: tableSchema,
        role: { type: 'string' },
        type: { type: 'string', enum: TYPES },
        permission: { type: 'string', enum: TYPES },
        comment: nullableText,
      },
      ['type', 'permission', 'comment'],
    ),
    async run(value, call) {
      const { table, role, comment, type: wanted, permission } = value as JsonObject
      const type = (wanted ?? permission) as PermissionType | undefined
      if (!type) throw parseFailed("the key 'type' was not present", '$.args')
      const ref = liftTableRef(table, '$.args.table')
      await data.alter(call, (edit) =>
        edit.commentPermission(ref, role as string, type, (comment ?? null) as string | null),
      )
      return done
    },
  }
  return operations
}
