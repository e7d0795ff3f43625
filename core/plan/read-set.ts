import { tableKey } from '../catalog/catalog.js'
import type { Op, TableRef } from '../ir.js'

/** What the answer to a read depends on. */
export interface ReadSet {
  /** Tables and views: those of relationships, conditions, permissions, orders and aggregates, too. */
  readonly tables: readonly TableRef[]
  /** Whether it depends on nothing else: functions may read anything. */
  readonly isComplete: boolean
}

/**
 * Returns what an authorized read depends on. Walks all of the plan, so that no part of one is forgotten: a table is what stands
 * under `table`, and a call under `function`.
 */
export function readSet(op: Op): ReadSet {
  const tables = new Map<string, TableRef>()
  let isComplete = true
  const walk = (part: unknown): void => {
    if (typeof part !== 'object' || part === null) return
    if (Array.isArray(part)) return part.forEach(walk)
    for (const [key, value] of Object.entries(part)) {
      if (key === 'function') isComplete = false
      else if (key === 'table') tables.set(tableKey(value as TableRef), value as TableRef)
      else walk(value)
    }
  }
  walk(op)
  return { tables: [...tables.values()], isComplete }
}
