import type { Data, Operation, Operations } from 'rowhouse'
import { args } from '../../metadata/operation.js'
import { shareEffort } from '../rules/compare.js'
import { constantRules } from './constant-rules.js'
import { type Finding, inOrder, LEVELS, RULES } from './finding.js'
import { misspeltVariables } from './misspelt-variables.js'
import { disclosingAggregates, hiddenWrites, tenantLeaks } from './row-rules.js'
import { readableSecrets } from './secrets.js'
import { subjectsOf } from './subject.js'
import { readTemplateUsage, type TemplateUsage } from './template-usage.js'
import { unindexedRules } from './unindexed-rules.js'
import { unknownParts } from './unknown-parts.js'
import { writableRules } from './writable-rules.js'

/** The operation that finds likely mistakes in the permissions and templates. */
export function lintOperation(data: Data, operations: Operations): Operation {
  return {
    admin: true,
    args: args({}),
    async run(_args, call) {
      const catalog = data.catalogFor(call)
      const metadata = await data.metadata(call)
      const subjects = subjectsOf(catalog, metadata)
      const share = shareEffort()
      const findings = [
        ...subjects.flatMap((subject) => [
          ...constantRules(subject, catalog, share),
          ...misspeltVariables(subject, catalog),
          ...readableSecrets(subject),
          ...writableRules(subject, subjects, catalog),
          ...tenantLeaks(subject, subjects, catalog),
          ...hiddenWrites(subject),
          ...disclosingAggregates(subject),
        ]),
        ...unknownParts(metadata),
        ...(await unindexedRules(subjects, data, call)),
        ...(await readTemplateUsage(operations, call)).flatMap(unrunnable),
      ]
      return { kind: 'text', text: JSON.stringify({ findings: inOrder(distinct(findings)), rules: RULES }) }
    },
  }
}

const unrunnable = ({ name, roles }: TemplateUsage): readonly Finding[] =>
  roles.length > 0
    ? []
    : [
        {
          rule: 'unrunnable-template',
          level: 'info',
          object: `query-template ${name}`,
          path: '$',
          message: 'no role but admin may run the template',
          advice: 'Add the permissions that it needs, or drop it if no admin uses it.',
        },
      ]

/** Keeps one of the findings that ask for the same change, the worst. */
function distinct(findings: readonly Finding[]): readonly Finding[] {
  const kept = new Map<string, Finding>()
  for (const finding of findings.toSorted((a, b) => LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level))) {
    const key = [finding.rule, finding.object, finding.path, finding.advice].join('\0')
    if (!kept.has(key)) kept.set(key, finding)
  }
  return [...kept.values()]
}
