import { tableName } from '../catalog/catalog.js'
import type { PermissionRow, TrackedTable } from './metadata.js'
import type { TableRef } from '../ir.js'

/** Names of metadata objects in lists of dependents and inconsistencies. */

export const tableObject = (ref: TableRef): string => `table ${tableName(ref)}`
export const relationshipName = (table: TableRef, name: string): string => `relationship ${tableName(table)}.${name}`
export const computedFieldName = (table: TableRef, name: string): string => `computed-field ${tableName(table)}.${name}`
export const customizationName = (table: TableRef): string => `customization ${tableName(table)}`
export const enumName = (table: TableRef): string => `enum ${tableName(table)}`
export const versionName = (table: TableRef): string => `version ${tableName(table)}`
export const captureName = (table: TableRef, name: string): string => `capture ${tableName(table)}.${name}`
export const functionName = (ref: TableRef): string => `function ${tableName(ref)}`
export const templateName = (name: string): string => `query-template ${name}`
export const inheritedRoleName = (role: string): string => `inherited-role ${role}`
export const permissionName = (table: TableRef, { role, type }: Pick<PermissionRow, 'role' | 'type'>): string =>
  `permission ${tableName(table)}.${role}.${type}`

/** Returns the objects that belong to a table, by the names that clients see. */
export const ownObjects = (table: TrackedTable | undefined): readonly string[] =>
  table
    ? [
        ...[...table.relationships.keys()].map((name) => relationshipName(table.ref, name)),
        ...[...table.computedFields.keys()].map((name) => computedFieldName(table.ref, name)),
        ...[...table.permissions.values()].map((row) => permissionName(table.ref, row)),
      ]
    : []
