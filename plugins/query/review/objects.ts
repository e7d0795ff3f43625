import type { PermissionType } from 'rowhouse'
import { type TableRef, tableName } from 'rowhouse/plan'

/** Names of objects of the metadata, as in lists of inconsistent metadata. */
export const tableObject = (table: TableRef): string => `table ${tableName(table)}`
export const captureObject = (table: TableRef, name: string): string => `capture ${tableName(table)}.${name}`
export const versionObject = (table: TableRef): string => `version ${tableName(table)}`
export const relationshipObject = (table: TableRef, name: string): string => `relationship ${tableName(table)}.${name}`
export const fieldObject = (table: TableRef, name: string): string => `computed-field ${tableName(table)}.${name}`
export const functionObject = (ref: TableRef): string => `function ${tableName(ref)}`
export const permissionObject = (table: TableRef, role: string, type: PermissionType): string =>
  `permission ${tableName(table)}.${role}.${type}`
