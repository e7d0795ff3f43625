/** How bad a finding is. `info`: deliberate in many projects. */
export const LEVELS = ['error', 'warning', 'info'] as const
type Level = (typeof LEVELS)[number]

/** The rules, with what each one finds. Their ids are stable. */
export const RULES = {
  'unindexed-rule': 'A row filter reads a table completely, because no index serves it.',
  'always-true': 'A rule has a condition that is true for every row.',
  'never-true': 'A rule has a condition that no row can satisfy.',
  'misspelt-variable': 'A text that looks like a session variable is compared or set as it is.',
  'readable-secret': 'Anonymous callers may read a column that looks like a secret.',
  'caller-writable-rule': 'A role may write a column that decides what its own rule allows.',
  'unknown-part': 'A role inherits from a role that has no permissions.',
  'unrunnable-template': 'No role but admin may run a query template.',
  'tenant-leak': 'A relationship leads from the rows of one tenant to the rows of all.',
  'write-without-read': 'A role may write rows that it may not select.',
  'disclosing-aggregates': 'Aggregates show a role more rows than the limit of its permission.',
} as const satisfies Readonly<Record<string, string>>
type RuleId = keyof typeof RULES

/** What a rule says about an object of the metadata. */
export interface Finding {
  readonly rule: RuleId
  readonly level: Level
  /** Name of the object, e.g. `permission note.user.select`. */
  readonly object: string
  /** Path in the definition of the object. */
  readonly path: string
  readonly message: string
  /** What to do about it. */
  readonly advice: string
}

/** Sorts findings: the worst first, then by object. */
export function inOrder(findings: readonly Finding[]): readonly Finding[] {
  const place = ({ level, rule, object, path, message }: Finding): string =>
    [LEVELS.indexOf(level), object, rule, path, message].join('\0')
  return findings.toSorted((a, b) => (place(a) < place(b) ? -1 : 1))
}
