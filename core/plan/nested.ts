import type { Table } from '../catalog/catalog.js'
import { unexpectedPayload } from '../errors.js'
import type { RowKey, Step } from '../ir.js'
import type { Names } from './names.js'
import { INT8 } from './operators.js'
import { rowKey } from './rows.js'

/** One of the requests that together write rows with rows of related tables, in one transaction. */
export interface NestedStep {
  /** See `Step`. */
  readonly phase?: Step['phase']
  readonly link?: Step['link']
  /** Names of the relationships from the table of the request to the rows of this step. */
  readonly via: readonly string[]
  /** Slot of the number of rows that other steps wrote. */
  readonly others?: number
  /** Restricts the step to rows that belong to the rows of another one. */
  readonly within?: {
    /** Slot of the result of the other step. */
    readonly slot: number
    /** Indexes in its `link` of the columns of the last relationship of `via`. */
    readonly links: readonly number[]
  }
}

/** Returns the table of a step. */
export const tableOfStep = ({ via }: NestedStep, table: Table, names: Names, path: string): Table =>
  via.reduce((from, name) => names.relationship(from, name, path).table, table)

/** Plans what makes a write a step. */
export function planStep(step: NestedStep, root: Table, names: Names, path: string): Step {
  const { phase, link, via, others, within } = step
  const table = tableOfStep(step, root, names, path)
  // Related rows without a key are checked as they are written. Those of the request are looked at again.
  if (phase === 'look' || (phase === 'write' && via.length === 0)) keyFor(table, true, path)
  return {
    phase,
    link,
    alsoAffected: others === undefined ? undefined : { kind: 'value', slot: others, type: INT8, path },
    within: within && planWithin(within, via, root, names, path),
  }
}

function keyFor(table: Table, inserted: boolean, path: string): RowKey {
  const key = rowKey(table, inserted)
  if (key.kind !== 'none') return key
  throw unexpectedPayload(`"${table.name}" has no key by which to find the rows that related rows belong to`, path)
}

function planWithin(
  { slot, links }: Required<NestedStep>['within'],
  via: NestedStep['via'],
  root: Table,
  names: Names,
  path: string,
): Step['within'] {
  const outer = tableOfStep({ via: via.slice(0, -1) }, root, names, path)
  const { on } = names.relationship(outer, via.at(-1) as string, path).relationship
  const types = on.map(([column], i) => {
    const type = outer.columnsByName.get(column)?.type
    if (!type) throw new Error(`"${outer.name}" has no column "${column}"`)
    return { link: links[i] as number, type }
  })
  const { schema, name } = outer
  return { slot, table: { schema, name }, key: keyFor(outer, false, path), on, types }
}
