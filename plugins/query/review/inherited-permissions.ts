import {
  type Data,
  definitionFor,
  type JsonObject,
  type Operation,
  type PermissionType,
  permissionsFor,
} from 'rowhouse'
import { isObject, type Json, permissionsOf, type SelectPermission, stringifyJson, tableKey } from 'rowhouse/plan'
import { args } from '../metadata/operation.js'

const ACTIONS: readonly PermissionType[] = ['select', 'insert', 'update', 'delete']

/** The operation that lists what roles may do because they inherit it, and from which roles. */
export function inheritedPermissionsOperation(data: Data): Operation {
  return {
    admin: true,
    args: args({}),
    async run(_args, call) {
      const { tables } = data.catalogFor(call)
      const { roles, tables: tracked } = await data.metadata(call)
      const permissions = [...tracked.values()].flatMap((table) =>
        [...roles.keys()].flatMap((role) =>
          ACTIONS.flatMap((action) => {
            const givers = permissionsFor(table, role, action, roles)
            const permission = definitionFor(table, role, action, roles)
            if (!permission || givers.some((each) => each.role === role)) return []
            const found = action === 'select' ? tables.get(tableKey(table.ref)) : undefined
            const some = cellsOf(
              found && permissionsOf(found, role)?.select,
              givers.map((each) => [each.role, each.definition]),
            )
            const { schema, name } = table.ref
            const from = givers.map((each) => each.role)
            return [{ table: { schema, name }, role, action, from, permission, ...(some && { in_some_rows: some }) }]
          }),
        ),
      )
      return { kind: 'text', text: stringifyJson({ permissions } as unknown as Json) }
    },
  }
}

/** Returns the columns and computed fields that are null in some rows, and the roles that see them in the others. */
function cellsOf(
  select: SelectPermission | undefined,
  givers: readonly (readonly [role: string, definition: Json])[],
): JsonObject | undefined {
  if (!select?.masks) return undefined
  const gives = (definition: Json, name: string) =>
    isObject(definition) &&
    [definition['columns'], definition['computed_fields']].some(
      (names) => names === '*' || (Array.isArray(names) && names.includes(name)),
    )
  return Object.fromEntries(
    Object.keys(select.masks).map((name) => [
      name,
      givers.flatMap(([role, definition]) => (gives(definition, name) ? [role] : [])),
    ]),
  )
}
