import { type CommandContext, counted } from 'rowhouse'

/** Tracks an existing database, or shows what could be tracked. */
export async function track({ flags, lists, words, ask, print }: CommandContext): Promise<number> {
  const schemas = lists['schema'] ?? []
  const kinds = [flags['all'] === true, schemas.length > 0, words.length > 0].filter(Boolean)
  if (kinds.length > 1) throw new Error('expected one of --all, --schema and names of tables')
  const isDry = flags['dry-run'] === true || kinds.length === 0
  const args = {
    ...(schemas.length > 0 ? { schemas } : {}),
    ...(words.length > 0 ? { tables: words.map(tableOf) } : {}),
    dry_run: isDry,
  }
  const answer = await ask('track_all', JSON.stringify(args))
  if (flags['json'] === true) print(answer)
  else for (const line of summary(JSON.parse(answer) as Report, kinds.length === 0)) print(line)
  return 0
}

/** `other.article` is the table `article` of the schema `other`. */
export function tableOf(word: string): Name {
  const dot = word.indexOf('.')
  return dot < 0 ? word : { schema: word.slice(0, dot), name: word.slice(dot + 1) }
}

type Name = string | { readonly schema: string; readonly name: string }
interface Report {
  readonly dry_run: boolean
  readonly tables: readonly Name[]
  readonly relationships: readonly {
    readonly table: Name
    readonly name: string
    readonly type: 'object' | 'array'
    readonly to: Name
  }[]
  readonly functions: readonly Name[]
  readonly left_out: readonly { readonly name: string; readonly reason: string }[]
  readonly not_in_graphql: readonly string[]
  readonly remove: readonly { readonly name: string; readonly reason: string }[]
}

/** @param isQuestion whether the command was called without arguments */
function summary(report: Report, isQuestion: boolean): readonly string[] {
  const { dry_run: isDry, tables, relationships, functions } = report
  const done = [count(tables, 'table'), count(relationships, 'relationship'), count(functions, 'function')].join(', ')
  const isNothing = tables.length + relationships.length + functions.length === 0
  const to = ({ type, to: other }: Report['relationships'][number]) =>
    type === 'array' ? `many ${nameOf(other)}` : nameOf(other)
  const why = ({ name, reason }: { readonly name: string; readonly reason: string }) => `${name}: ${reason}`
  return [
    isNothing ? 'nothing new to track' : `${isDry ? 'would track' : 'tracked'} ${done}`,
    ...section('tables', tables.map(nameOf)),
    ...section(
      'relationships',
      relationships.map((each) => `${nameOf(each.table)}.${each.name} -> ${to(each)}`),
    ),
    ...section('functions', functions.map(nameOf)),
    ...section('left out', report.left_out.map(why)),
    ...section('not in GraphQL until they get other names (set_table_customization)', report.not_in_graphql),
    ...section('tracked, but gone or broken (drop_inconsistent_metadata removes them)', report.remove.map(why)),
    ...(isQuestion && !isNothing ? ['', 'To track them: rowhouse track --all'] : []),
  ]
}

const MAX_LINES = 50

function section(title: string, lines: readonly string[]): readonly string[] {
  if (lines.length === 0) return []
  const more = lines.length - MAX_LINES
  return [
    `\n${title}:`,
    ...lines.slice(0, MAX_LINES).map((line) => `  ${line}`),
    ...(more > 0 ? [`  and ${more} more (--json shows all)`] : []),
  ]
}

const count = ({ length }: readonly unknown[], what: string): string => counted(length, what)
const nameOf = (name: Name): string => (typeof name === 'string' ? name : `${name.schema}.${name.name}`)
