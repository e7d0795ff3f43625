import { isDeepStrictEqual } from 'node:util'
import { USER_ID } from 'rowhouse'
import { type BoolExp, type Catalog, operandsOf, tableKey, tableName } from 'rowhouse/plan'
import type { Finding } from './finding.js'
import { conjuncts, nameOf, type Subject } from './subject.js'

/** Finds relationships from rows of one tenant to a table whose rows of all tenants the role may select. */
export function tenantLeaks(subject: Subject, subjects: readonly Subject[], catalog: Catalog): readonly Finding[] {
  const { table, role, permissions, exp } = subject
  if (!permissions.select) return []
  const tenants = conjuncts(exp(permissions.select.filter)).flatMap((part) =>
    part.kind === 'compare' && part.op === 'eq' && part.to.kind === 'session' && part.to.name !== USER_ID
      ? [{ column: part.column, variable: part.to.name }]
      : [],
  )
  return tenants.flatMap(({ column, variable }) =>
    table.relationships.flatMap((relationship): readonly Finding[] => {
      const remote = catalog.tables.get(tableKey(relationship.table))
      const other = subjects.find((each) => each.table === remote && each.role === role)
      const select = other?.permissions.select
      if (!remote || remote === table || !other || !select || remote.columnsByName.get(column) === undefined) return []
      // A rule that depends on the caller in another way may be as strict.
      if (operandsOf(exp(select.filter)).some(({ kind }) => kind === 'session')) return []
      const joined = relationship.on.some(([own, inner]) => own === column && inner === column)
      if (joined) return []
      return [
        {
          rule: 'tenant-leak',
          level: 'warning',
          object: nameOf(other, 'select'),
          path: '$.filter',
          message:
            `${role} sees rows of ${tableName(table)} only where "${column}" is ${variable}, and rows of ` +
            `${tableName(remote)}, which "${relationship.name}" leads to, with any "${column}"`,
          advice: `Add "${column}" to the filter, as in that of ${tableName(table)}, unless these rows are public.`,
        },
      ]
    }),
  )
}

/** Finds rows that a role may write but not select. */
export function hiddenWrites(subject: Subject): readonly Finding[] {
  const { table, role, permissions, exp } = subject
  const { select, insert } = permissions
  const rule = 'write-without-read'
  const path = '$.filter'
  const name = tableName(table)
  if (table.system) return []
  // A role that is made of others writes what one of them may write, which has the finding.
  const writes = (['update', 'delete'] as const).filter((action) => permissions[action] && subject.definitions[action])
  if (!select) {
    const inserts: readonly Finding[] = insert
      ? [
          {
            rule,
            level: 'info',
            object: nameOf(subject, 'insert'),
            path: '$',
            message: `${role} may insert rows of ${name} and not select them, so it cannot read what it wrote`,
            advice: 'Add a select permission if the caller needs "returning", such as the new id.',
          },
        ]
      : []
    return [
      ...inserts,
      ...writes.map((action): Finding => ({
        rule,
        level: 'warning',
        object: nameOf(subject, action),
        path: '$',
        message: `${role} may ${action} rows of ${name} and not select them, so it can only ${action} all rows of the filter together`,
        advice: 'Add a select permission, because a condition may name only columns that the role may select.',
      })),
    ]
  }
  const shown = exp(select.filter)
  if (conjuncts(shown).every(isTrivial)) return []
  return writes.flatMap((action): readonly Finding[] => {
    // A condition finds only rows that it may read.
    if (permissions[action]!.seenOnly) return []
    const filter = exp(permissions[action]!.filter)
    if (
      !isDeepStrictEqual(
        conjuncts(filter).filter((part) => !isTrivial(part)),
        [],
      )
    )
      return []
    return [
      {
        rule,
        level: 'warning',
        object: nameOf(subject, action),
        path,
        message:
          `${role} may ${action} all rows of ${name}, also those that its select permission hides; ` +
          `the number of rows that a condition affects tells what they contain`,
        advice: 'Repeat the filter of the select permission.',
      },
    ]
  })
}

const isTrivial = (part: BoolExp): boolean => part.kind === 'and' && part.of.length === 0

/**
 * Finds aggregates that show more than a select. They are about the rows of the filter and the columns that the role may
 * select, so only the limit differs: it does not apply to the rows that are aggregated. Where it is 0, only aggregates show
 * values at all; otherwise pages do, too.
 */
export function disclosingAggregates(subject: Subject): readonly Finding[] {
  const { table, role, permissions } = subject
  const { select } = permissions
  if (!select?.aggregations || select.limit === undefined) return []
  return [
    {
      rule: 'disclosing-aggregates',
      level: select.limit === 0 ? 'warning' : 'info',
      object: nameOf(subject, 'select'),
      path: '$.allow_aggregations',
      message:
        select.limit === 0
          ? `${role} may select no rows of ${tableName(table)}, but aggregates such as "max" with a condition show their values`
          : `${role} may select ${select.limit} rows of ${tableName(table)} at a time, but "jsonb_agg" returns the values of all`,
      advice: 'Remove "allow_aggregations", or the columns that the role must not see.',
    },
  ]
}
