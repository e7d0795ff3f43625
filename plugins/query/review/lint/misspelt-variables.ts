import { didYouMean, partsOf, type RulePart } from 'rowhouse'
import { allNames, at, type Catalog, type Operand, operandsOf } from 'rowhouse/plan'
import { elementsOf } from '../rules/constants.js'
import type { Finding } from './finding.js'
import { type Action, nameOf, type Subject } from './subject.js'

/** Finds texts that are compared or set as they are, although they look like the names of session variables. */
export function misspeltVariables(subject: Subject, catalog: Catalog): readonly Finding[] {
  return Object.entries(subject.definitions).flatMap(([action, definition]) => {
    const rules = (['filter', 'check'] as const).flatMap((key) =>
      definition[key] ? leavesOf(partsOf(definition, key, subject.table, allNames(catalog))) : [],
    )
    const compared = rules.flatMap(({ path, exp }) =>
      operandsOf(exp).map((to) => ({ path, to, verb: 'compares with' })),
    )
    const permission = subject.permissions[action as Action]
    const set = permission && 'set' in permission ? permission.set : []
    const presets = set.map(({ column, to }) => ({ path: at('$.set', column), to, verb: 'sets' }))
    return [...compared, ...presets].flatMap(({ path, to, verb }) =>
      textsOf(to).flatMap((text): readonly Finding[] => {
        const meant = variableFor(text)
        if (meant === undefined) return []
        return [
          {
            rule: 'misspelt-variable',
            level: 'warning',
            object: nameOf(subject, action as Action),
            path,
            message: `the permission ${verb} the text ${JSON.stringify(text)}, which is no session variable`,
            advice: `Write ${meant}, if the session variable is meant.`,
          },
        ]
      }),
    )
  })
}

/** Returns the parts of a rule that have no parts. */
const leavesOf = (rule: RulePart): readonly RulePart[] =>
  rule.parts ? rule.parts.rules.flatMap(leavesOf) : rule.related ? leavesOf(rule.related.rule) : [rule]

function textsOf(to: Operand): readonly string[] {
  if (to.kind !== 'const' || to.value === null) return []
  return to.type.element ? (elementsOf(to.value) ?? []) : [to.value]
}

/** Returns the session variable that a text may be meant to be: `X-Service-User-Id` for `x_servce_user_id`. */
function variableFor(text: string): string | undefined {
  const found = /^x([-_ ])([a-z]+)[-_ ]([a-z\d][-\w ]*)$/.exec(text.trim().toLowerCase())
  const [, separator, prefix = '', rest = ''] = found ?? []
  if (!PREFIXES.includes(prefix) && didYouMean(prefix, PREFIXES) === '') return undefined
  const name = `x-service-${rest.replaceAll(separator === '-' ? ' ' : /[_ ]/g, '-')}`
  return name.replaceAll(/(^|[-_])[a-z]/g, (start) => start.toUpperCase())
}
/** Permissions that come from Hasura have variables with its name. */
const PREFIXES = ['service', 'hasura']
