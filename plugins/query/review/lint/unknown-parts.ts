import { type Data, didYouMean } from 'rowhouse'
import { at } from 'rowhouse/plan'
import type { Finding } from './finding.js'

/** Finds roles that others inherit from, and that have no permission on any table or function. */
export function unknownParts({ roles, tables, functions }: Awaited<ReturnType<Data['metadata']>>): readonly Finding[] {
  const known = new Set([
    ...roles.keys(),
    ...[...tables.values()].flatMap(({ permissions }) => [...permissions.values()].map(({ role }) => role)),
    ...[...functions.values()].flatMap((each) => [...each.roles]),
  ])
  return [...roles].flatMap(([role, parts]) =>
    parts.flatMap((part, i): readonly Finding[] => {
      if (known.has(part)) return []
      const others = [...known].filter((each) => each !== role && !parts.includes(each))
      return [
        {
          rule: 'unknown-part',
          level: 'warning',
          object: `inherited-role ${role}`,
          path: at('$.roles', i),
          message: `the role inherits from "${part}", which has no permissions${didYouMean(part, others)}`,
          advice: `Correct the name, or add permissions for "${part}". inherited_permissions lists what "${role}" inherits.`,
        },
      ]
    }),
  )
}
