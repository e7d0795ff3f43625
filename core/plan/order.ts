import type { Table } from '../catalog/catalog.js'
import { unexpectedPayload } from '../errors.js'
import { columnRef } from './column-field.js'
import { type OrderTarget, TRUE } from './ir.js'
import type { Names } from './names.js'

/** Plans a sort key. Several names are object relationships that lead to the column. */
export function planOrderTarget(names: readonly string[], table: Table, known: Names, path: string): OrderTarget {
  const target = (on: Table, i: number): OrderTarget => {
    const name = names[i] as string
    if (i === names.length - 1) {
      const column = known.column(on, name, 'select', path)
      if (column.type.kind === 'json') throw unexpectedPayload('JSON column can not be part of order_by', path)
      return { kind: 'column', ...columnRef(column) }
    }
    const { relationship, table: remote } = known.relationship(on, name, path)
    if (relationship.type === 'array') {
      throw unexpectedPayload(
        `"${name}" is an array relationship; order_by goes through object relationships only`,
        path,
      )
    }
    return { kind: 'related', table: relationship.table, on: relationship.on, where: TRUE, by: target(remote, i + 1) }
  }
  return target(table, 0)
}

/** Parses `+name`, `-author.name` or `name`. Returns undefined for anything else. */
export function readOrderText(
  text: string,
): { readonly path: readonly string[]; readonly direction?: 'asc' | 'desc' } | undefined {
  const direction = text.startsWith('+') ? 'asc' : text.startsWith('-') ? 'desc' : undefined
  const path = (direction ? text.slice(1) : text).split('.')
  return path.includes('') ? undefined : { path, direction }
}
