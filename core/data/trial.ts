import { type Catalog, type Table, tableKey, tableName } from '../catalog/catalog.js'
import { type Metadata, permissionKey } from '../catalog/metadata.js'
import { type Clause, clausesOf } from '../catalog/permission.js'
import type { Prepared } from '../compile/compile.js'
import type { JsonObject } from '../json/parse.js'
import type { CheckClause, Insert, Update } from '../plan/ir.js'
import { namesFor, RULE_ACTIONS } from '../plan/names.js'
import { emit } from '../sql/emit.js'

/** The rules of a role's permission that refuse a write. */
export interface Refusal {
  readonly role: string
  readonly table: string
  /** Empty when a row could not be found again after the write. */
  readonly clauses: readonly {
    readonly permission: 'insert' | 'update'
    /** Path in the definition of the permission. */
    readonly path: string
    readonly clause: JsonObject
  }[]
}

/** A write that refuses no row, to be run and rolled back. */
export interface Trial {
  readonly statements: readonly Prepared[]
  /** @param answer result of the last statement */
  refusal(answer: string): Refusal | undefined
}

/** @param write authorized for the role */
export function trialOf(write: Insert | Update, role: string, catalog: Catalog, metadata: Metadata): Trial {
  const table = catalog.tables.get(tableKey(write.table)) as Table
  const definitions = metadata.tables.get(tableKey(write.table))?.permissions
  const names = namesFor('admin', catalog)
  const clauses = rulesOf(write).flatMap((rule): (Clause & CheckClause)[] => {
    const permission = definitions?.get(permissionKey(role, RULE_ACTIONS[rule]))
    return permission ? clausesOf(permission.definition, 'check', table, names).map((each) => ({ ...each, rule })) : []
  })
  return {
    statements: emit({ ...write, clauses }, 'array').map((statement) => ({ ...statement, name: '' })),
    refusal(answer) {
      const hold = JSON.parse(answer) as readonly boolean[]
      if (clauses.length === 0 || !hold.includes(false)) return undefined
      const refusing = clauses.filter((_, i) => !hold[i])
      return {
        role,
        table: tableName(write.table),
        clauses: refusing.map(({ rule, path, clause }) => ({ permission: RULE_ACTIONS[rule], path, clause })),
      }
    },
  }
}

function rulesOf(write: Insert | Update): readonly CheckClause['rule'][] {
  if (write.kind === 'update') return ['updated']
  return write.onConflict?.action === 'update' ? ['inserted', 'updated'] : ['inserted']
}
