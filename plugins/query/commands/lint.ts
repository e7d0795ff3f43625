import { type CommandContext, counted, version } from 'rowhouse'
import { type Finding, LEVELS } from '../review/lint/finding.js'

interface Linted {
  readonly findings: readonly Finding[]
  readonly rules: Readonly<Record<string, string>>
}

/** Prints likely mistakes in permissions and templates. @returns the exit code: 1 if there are any */
export async function lint({ flags, ask, print }: CommandContext): Promise<number> {
  const { level = 'warning', file = 'metadata.json' } = flags
  const least = LEVELS.findIndex((each) => each === level)
  if (least < 0) throw new Error(`expected --level to be one of ${LEVELS.join(', ')}`)
  if (flags['json'] === true && flags['sarif'] === true) throw new Error('expected one of --json and --sarif')
  const { findings: all, rules } = JSON.parse(await ask('lint_metadata', '{}')) as Linted
  const findings = all.filter((each) => LEVELS.indexOf(each.level) <= least)
  if (flags['sarif'] === true) print(indented(sarif({ findings, rules }, String(file))))
  else if (flags['json'] === true) print(indented({ findings, rules }))
  else for (const line of lines(findings, all.length - findings.length)) print(line)
  return findings.length > 0 ? 1 : 0
}

const indented = (value: object): string => JSON.stringify(value, undefined, 2)

function lines(findings: readonly Finding[], hidden: number): readonly string[] {
  return [
    ...findings.flatMap(({ rule, level, object, path, message, advice }) => [
      `${level}  ${object} (${path})  [${rule}]`,
      `  ${message}`,
      `  ${advice}`,
      '',
    ]),
    [
      findings.length === 0 ? 'no findings' : LEVELS.flatMap((level) => ofLevel(findings, level)).join(', '),
      ...(hidden > 0 ? [`${hidden} more of a lower level (--level info shows all)`] : []),
    ].join('; '),
  ]
}

function ofLevel(findings: readonly Finding[], level: Finding['level']): readonly string[] {
  const count = findings.filter((each) => each.level === level).length
  if (count === 0) return []
  return [level === 'info' ? `${count} info` : counted(count, level)]
}

/**
 * Returns the findings in the format SARIF 2.1.0, for code scanning. Metadata has no lines, so the objects are named, and the
 * line is the first.
 * @param file that has the metadata, because code scanning refuses findings without a file
 */
function sarif({ findings, rules }: Linted, file: string): object {
  return {
    $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
    version: '2.1.0',
    runs: [
      {
        tool: {
          driver: {
            name: 'rowhouse lint',
            version,
            rules: Object.entries(rules).map(([id, text]) => ({ id, shortDescription: { text } })),
          },
        },
        results: findings.map(({ rule, level, object, path, message, advice }) => ({
          ruleId: rule,
          level: level === 'info' ? 'note' : level,
          message: { text: `${object}: ${message}. ${advice}` },
          locations: [
            {
              physicalLocation: { artifactLocation: { uri: file }, region: { startLine: 1 } },
              logicalLocations: [{ fullyQualifiedName: object, kind: 'object' }],
            },
          ],
          partialFingerprints: { 'rowhouse/v1': [rule, object, path, message].join(' ') },
          properties: { path },
        })),
      },
    ],
  }
}
