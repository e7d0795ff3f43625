import { type CommandContext, didYouMean, namedValue, type PermissionExplained, sessionVariable } from 'rowhouse'
import { tableOf } from './track.js'

const OPERATIONS = ['select', 'insert', 'update', 'delete']

/** Prints why a role may or may not read or write a row. */
export async function why({ flags, lists, words, ask, print }: CommandContext): Promise<number> {
  const [role, operation, table, ...key] = words
  if (role === undefined || operation === undefined || table === undefined || !OPERATIONS.includes(operation)) {
    throw new Error(`expected a role, one of ${OPERATIONS.join(', ')}, and a table; see rowhouse why --help`)
  }
  const user = flags['user']
  const object = flags['object']
  if (key.length === 0 && operation !== 'insert') {
    throw new Error(`${operation} needs the key of a row, such as id=7; see rowhouse why --help`)
  }
  if (object === undefined && (operation === 'insert' || operation === 'update')) {
    throw new Error(`${operation} needs --object; see rowhouse why --help`)
  }
  const args = {
    role,
    operation,
    table: tableOf(table),
    session: {
      ...(user === undefined ? {} : { 'X-Service-User-Id': user }),
      ...Object.fromEntries((lists['session'] ?? []).map((each) => sessionVariable(each))),
    },
    ...(key.length > 0 ? { key: Object.fromEntries(key.map((each) => condition(each))) } : {}),
    ...(typeof object === 'string' ? { object: objectOf(object) } : {}),
  }
  const answer = await ask('explain_permission', JSON.stringify(args))
  const explained = JSON.parse(answer) as PermissionExplained
  if (flags['json'] === true) print(answer)
  else {
    for (const line of lines(explained, { role, operation, table })) print(line)
    if (explained.reason === 'permission')
      for (const line of hints(role, await ask('export_metadata', '{}'))) print(line)
  }
  return explained.verdict === 'allowed' ? 0 : 1
}

/** Returns a hint if neither a permission nor an inheritance names the role. */
function hints(role: string, metadata: string): readonly string[] {
  const roles = new Set<string>()
  JSON.parse(metadata, (key, value: unknown) => {
    if (key === 'role' && typeof value === 'string') roles.add(value)
    return value
  })
  return roles.has(role) ? [] : [`no permission names the role "${role}"${didYouMean(role, [...roles])}`]
}

function condition(word: string): readonly [string, string | boolean] {
  const [name, value] = namedValue(word)
  return [name, value === 'true' || value === 'false' ? value === 'true' : value]
}

function objectOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Error('expected --object to be JSON')
  }
}

type Rule = NonNullable<PermissionExplained['filter']>

function lines(
  explained: PermissionExplained,
  about: { role: string; operation: string; table: string },
): readonly string[] {
  const { filter, check, columns, presets, session } = explained
  return [
    `${about.role} ${explained.verdict === 'allowed' ? 'may' : 'may not'} ${about.operation}: ${reasonOf(explained, about)}`,
    ...(filter ? ['', 'filter:', ...ruleLines(filter, '  ')] : []),
    ...(check ? ['', 'check of the written row:', ...ruleLines(check, '  ')] : []),
    ...section(
      'session',
      Object.entries(session).map(([name, value]) => `${name} = ${value ?? '(not set)'}`),
    ),
    ...(columns ? section(`columns that ${about.role} may not ${about.operation}`, columns.refused) : []),
    ...section(`columns that are null for ${about.role} in this row`, columns?.null ?? []),
    ...(presets === undefined ? [] : section('set by the server', [JSON.stringify(presets)])),
  ]
}

function reasonOf({ reason, error }: PermissionExplained, { table }: { table: string }): string {
  switch (reason) {
    case undefined:
      return 'the permission allows it'
    case 'row':
      return `${table} has no such row`
    case 'filter':
      return 'the filter of the permission does not accept the row'
    case 'check':
      return 'the check of the permission does not accept the written row'
    case 'permission':
    case 'request':
      return error?.error.trimEnd() ?? ''
  }
}

const section = (title: string, all: readonly string[]): readonly string[] =>
  all.length > 0 ? ['', `${title}:`, ...all.map((line) => `  ${line}`)] : []

const MARKS = new Map<boolean | null, string>([
  [true, 'true '],
  [false, 'false'],
  [null, 'null '],
])

/** A line for each part of a rule, the parts below it indented. */
function ruleLines({ result, all, any, not, values, rows, more, clause }: Rule, indent: string): readonly string[] {
  const line = (text: string) => `${indent}${MARKS.get(result)}  ${text}`
  const below = `${indent}  `
  const parts = all ?? any
  if (parts) {
    const title = parts.length === 0 ? (all ? 'every row' : 'no row') : all ? 'all of' : 'any of'
    return [line(title), ...parts.flatMap((part) => ruleLines(part, below))]
  }
  if (not) return [line('not'), ...ruleLines(not, below)]
  const [name, value] = Object.entries(clause)[0] ?? ['', undefined]
  if (rows) {
    const some = rows.length === 0 ? 'there is none' : more ? `the first ${rows.length} are` : `${rows.length} found`
    return [
      line(`some row of ${name}: ${some}`),
      ...rows.flatMap(({ key, rule }) => [`${below}${JSON.stringify(key)}`, ...ruleLines(rule, `${below}  `)]),
    ]
  }
  const found = Object.entries(values ?? {}).map(([column, own]) => `${column} is ${JSON.stringify(own)}`)
  return [line(`${name}: ${JSON.stringify(value)}${found.length > 0 ? `   (${found.join(', ')})` : ''}`)]
}
