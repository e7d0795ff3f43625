import { type CommandContext, counted } from 'rowhouse'
import type { Described } from '../review/advise/operation.js'

interface Advised {
  readonly advice: readonly Described[]
  readonly statements: number
  readonly without_statistics: readonly string[]
  readonly left_out: number
}
/** Prints indexes that may help. */
export async function advise({ flags, words: [server], ask, print }: CommandContext): Promise<number> {
  const args = JSON.stringify({ try: flags['try'] === true })
  const answer = await ask('advise_indexes', args, server === undefined ? {} : { server })
  if (flags['json'] === true) print(answer)
  else for (const line of lines(JSON.parse(answer) as Advised, server === undefined)) print(line)
  return 0
}

function lines({ advice, statements, without_statistics, left_out }: Advised, isTemporary: boolean): readonly string[] {
  const notes = [
    `${advice.length === 0 ? 'no index' : counted(advice.length, 'index', 'indexes')} for ${counted(statements, 'statement')}`,
    ...(left_out > 0 ? [`${left_out} statements or indexes were left out`] : []),
    ...(without_statistics.length > 0
      ? [`PostgreSQL does not know the size of ${without_statistics.join(', ')}: run analyze`]
      : []),
    ...(isTemporary ? ['calls and slow statements are known to a running server only: rowhouse advise URL'] : []),
  ]
  return [...advice.flatMap((each) => [...described(each, isTemporary), '']), ...notes]
}

function described(
  { sql, table, checked, reason, statements, rows, bytes, ...more }: Described,
  isTemporary: boolean,
): readonly string[] {
  const width = Math.max(...statements.map(({ name, role }) => name.length + role.length)) + 3
  const size = bytes === null ? 'unknown size' : `about ${sizeOf(bytes)}`
  const { updates, hot_updates: hot, updatable_by: roles } = more
  return [
    `${sql};`,
    ...statements.map(({ name, role, calls, before, after }) => {
      const costs = before === null || after === null ? '' : `cost ${rounded(before)} -> ${rounded(after)}`
      const called = calls === null ? '' : isTemporary ? 'calls unknown' : counted(calls, 'call')
      return `  ${`${name} (${role})`.padEnd(width)} ${[costs, called].filter(Boolean).join(', ')}`.trimEnd()
    }),
    `  ${checked === null ? (reason ?? 'not checked') : checked === 'created' ? 'checked with the index' : 'checked with hypopg'}; ` +
      `${size} for ${rows ?? 'an unknown number of'} rows`,
    ...(roles.length > 0
      ? [
          `  updates of these columns by ${roles.join(', ')} can no longer be HOT; ${hot} of ${updates} updates of ${table} were`,
        ]
      : []),
  ]
}

const rounded = (cost: number): string => cost.toFixed(cost < 10 ? 1 : 0)

const sizeOf = (bytes: number): string =>
  bytes >= 2 ** 20 ? `${(bytes / 2 ** 20).toFixed(1)} MiB` : `${Math.ceil(bytes / 1024)} KiB`
