import type { Table } from '../catalog/catalog.js'
import { unexpectedPayload } from '../errors.js'
import type { Step } from './ir.js'
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
  if (rowKey(table, true).kind === 'none' && (phase === 'look' || (phase === 'write' && !link?.length))) {
    throw unexpectedPayload(`"${table.name}" has no key by which to find the rows that related rows belong to`, path)
  }
  const joined = () => {
    const outer = tableOfStep({ via: via.slice(0, -1) }, root, names, path)
    const { on } = names.relationship(outer, via.at(-1) as string, path).relationship
    return on.map(([column, name], i) => {
      const type = outer.columnsByName.get(column)?.type
      if (!type) throw new Error(`"${outer.name}" has no column "${column}"`)
      return { name, link: within?.links[i] as number, type }
    })
  }
  return {
    phase,
    link,
    alsoAffected: others === undefined ? undefined : { kind: 'value', slot: others, type: INT8, path },
    within: within && { slot: within.slot, on: joined() },
  }
}
