import { roleName } from '../session.js'
import {
  ALL_ROWS,
  type Catalog,
  type ComputedField,
  maskOf,
  permissionsOf,
  type SelectPermission,
  type Table,
  tableKey,
} from '../catalog/catalog.js'
import { permissionDenied } from '../errors.js'
import { and } from './boolexp.js'
import {
  type BoolExp,
  type ColumnRef,
  type FunctionCall,
  isTrue,
  type Join,
  type Joined,
  type Link,
  type Masks,
  type TableRef,
  TRUE,
} from '../ir.js'
import { type Action, namesFor, versionOf } from './names.js'

/** What a role may name and see: the ground of authorizing its reads and writes. */
export type Scope = ReturnType<typeof scopeOf>

/** @param key role of `permissionRole` */
export function scopeOf(key: string, catalog: Catalog) {
  const role = roleName(key)
  const names = namesFor(key, catalog)
  const filter = (place: number): BoolExp => (place === ALL_ROWS ? TRUE : (catalog.filters[place] as BoolExp))
  const permissions = (table: Table) => permissionsOf(table, key) ?? { role }
  const tableFor = (ref: TableRef, action: Action): Table => names.table(ref, action, '$.args.table')
  const columns = (table: Table, used: Iterable<string>, action: Action) => {
    for (const name of used) names.column(table, name, action, '$.args')
  }
  /** Authorizes a column or a computed field. */
  const shown = <R extends ColumnRef>(table: Table, ref: R): R => {
    const { column, computed } = ref
    if (computed) checkCall(computed, names.computedField(table, column, '$.args'))
    else names.column(table, column, 'select', '$.args')
    const mask = maskFor(table, column)
    return mask ? { ...ref, mask } : ref
  }
  const maskFor = (table: Table, name: string): BoolExp | undefined => {
    const { select } = permissions(table)
    const place = select && maskOf(select, name)
    return place === undefined ? undefined : filter(place)
  }
  /** Returns the masks of those of some columns that have one. */
  const masksFor = (table: Table, used: Iterable<string>): { readonly masks?: Masks } => {
    const masks = [...new Set(used)].flatMap((name) => {
      const mask = maskFor(table, name)
      return mask ? [[name, mask] as const] : []
    })
    return masks.length > 0 ? { masks: Object.fromEntries(masks) } : {}
  }
  const versionIn = (table: Table, column: string) => {
    if (column !== versionOf(table, names)) throw new Error(`"${column}" is not the version of "${table.name}"`)
  }
  const selectFilter = (table: Table): BoolExp => filter(permissions(table).select?.filter as number)

  const aggregable = (ref: TableRef): Table => mayAggregate(tableFor(ref, 'select'))

  const mayAggregate = (table: Table): Table => {
    if (permissions(table).select?.aggregations) return table
    throw permissionDenied(
      `role "${role}" does not have permission to aggregate "${table.name}"`,
      '$.args.table',
      table,
    )
  }

  /**
   * Returns which of the joined rows an inherited role may know to belong together: it sees the columns of both rows that join
   * them, or one of the roles that it inherits from sees both rows. Rows that a function joins show no such columns.
   */
  const linked = (
    { on, from }: Joined & { readonly from?: FunctionCall },
    table: Table | undefined,
    ref: TableRef,
  ): Pick<Joined, 'links'> => {
    const remote = catalog.tables.get(tableKey(ref))
    if (!table || !remote || (on.length === 0 && !from)) return {}
    const links = linksOf(key, on, table, remote)
    return links ? { links } : {}
  }
  /** @returns undefined: the role may know all of them */
  const linksOf = (holder: string, on: Join, table: Table, remote: Table): readonly Link[] | undefined => {
    const [own, other] = [table, remote].map((each) => permissionsOf(each, holder)?.select)
    const masksOf = (select: SelectPermission | undefined, side: 0 | 1) =>
      on.flatMap((pair) => (select && maskOf(select, pair[side])) ?? []).map(filter)
    const [outer, inner] = [masksOf(own, 0), masksOf(other, 1)]
    const isCalled = on.length === 0
    // What a role may select itself, it may also pass to the function, or get from it.
    if (isCalled ? !own?.parts || !other?.parts : outer.length + inner.length === 0) return undefined
    const parts = [...new Set([...(own?.parts ?? []), ...(other?.parts ?? [])])].flatMap((part): readonly Link[] => {
      const [sees, seesOther] = [table, remote].map((each) => permissionsOf(each, part)?.select)
      if (!sees || !seesOther) return []
      const both = { outer: filter(sees.filter), inner: filter(seesOther.filter) }
      const links = linksOf(part, on, table, remote)
      return (
        links?.map((link) => ({ outer: and([both.outer, link.outer]), inner: and([both.inner, link.inner]) })) ?? [both]
      )
    })
    const links = isCalled ? parts : [{ outer: and(outer), inner: and(inner) }, ...parts]
    return links.some((link) => isTrue(link.outer) && isTrue(link.inner)) ? undefined : links
  }

  return {
    role,
    names,
    catalog,
    filter,
    permissions,
    tableFor,
    columns,
    shown,
    maskFor,
    masksFor,
    versionIn,
    selectFilter,
    aggregable,
    mayAggregate,
    linked,
  }
}

/**
 * Asserts that a computed field calls its own function. The permission covers the field, and the planner chooses the
 * function.
 */
export function checkCall({ function: called }: FunctionCall, { function: own, name }: ComputedField): void {
  if (called.schema === own.schema && called.name === own.name) return
  throw new Error(`"${name}" is not computed by "${called.name}"`)
}
