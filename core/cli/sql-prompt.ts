import { createInterface } from 'node:readline'
import type pg from 'pg'
import { compareTables } from '../catalog/catalog.js'
import { counted } from '../wording.js'
import { requestCancel } from '../db/pooler.js'
import type { Invocation } from './invocation.js'
import { explained, runOne, type ScriptOptions, TEXT } from './run-script.js'
import { SqlSplitter, type SqlPart } from './split-sql.js'

const HELP = `End a statement with a semicolon.
  \\d         list the tables
  \\d TABLE   list the columns of a table
  \\?         show this help
  \\q         quit`

/** Returns options that print results and copied data. */
export const showIn = ({ print, terminal }: Invocation): ScriptOptions => ({
  result: (found) => print(table(found)),
  output: terminal.stdout,
})

/** Exit code of psql for an error in a script. */
const FAILED = 3

/**
 * Reads statements from standard input and prints their results, until its end or `\q`. Stops at the first error unless
 * somebody types.
 * @returns the exit code
 */
export async function openPrompt(client: pg.Client, invocation: Invocation): Promise<number> {
  const { print, terminal } = invocation
  const { stdin: input, stdout: output } = terminal
  const isTerminal = input.isTTY
  const reader = createInterface({ input, output, terminal: isTerminal })
  let splitter = new SqlSplitter()
  let isRunning = false
  const show = () => {
    if (!isTerminal) return
    reader.setPrompt(`${client.database ?? ''}${splitter.isOpen ? '-' : '='}> `)
    reader.prompt()
  }
  reader.on('SIGINT', () => {
    if (isRunning) return void requestCancel(client)
    splitter = new SqlSplitter()
    print('')
    show()
  })
  if (isTerminal) print('psql is not installed; this prompt runs SQL. \\? shows help, \\q quits.')
  show()
  for await (const line of reader) {
    isRunning = true
    for (const part of splitter.push(`${line}\n`)) {
      if (part.kind === 'command' && part.text === '\\q') {
        reader.close()
        return 0
      }
      // Data of COPY would be typed lines.
      if (part.kind === 'copy') splitter = new SqlSplitter()
      if (!(await run(client, part, invocation)) && !isTerminal) {
        reader.close()
        return FAILED
      }
    }
    isRunning = false
    show()
  }
  // Like psql, runs a last statement without a semicolon unless somebody typed it.
  return isTerminal || (await runLast(client, splitter, invocation)) ? 0 : FAILED
}

async function runLast(client: pg.Client, splitter: SqlSplitter, invocation: Invocation): Promise<boolean> {
  try {
    for (const part of splitter.end()) if (!(await run(client, part, invocation))) return false
    return true
  } catch (error) {
    invocation.tell((error as Error).message)
    return false
  }
}

/** @returns whether it succeeded; otherwise the error is printed */
async function run(client: pg.Client, part: SqlPart, invocation: Invocation): Promise<boolean> {
  try {
    if (part.kind === 'command') await runCommand(client, part.text, invocation)
    else if (part.kind === 'copy') throw new Error('COPY from stdin works in files only: rowhouse sql FILE')
    else if (part.kind === 'statement') await runOne(client, part.text, showIn(invocation))
    return true
  } catch (error) {
    const { message } =
      part.kind === 'statement' ? explained(error, TEXT, { ...part, line: 1, column: 1 }) : (error as Error)
    invocation.tell(message)
    return false
  }
}

async function runCommand(client: pg.Client, text: string, { print }: Invocation): Promise<void> {
  const [command, name] = text.split(/\s+/)
  if (command === '\\d') {
    const result: pg.QueryArrayResult<string[]> = await client.query({
      text: name ? COLUMNS : TABLES,
      values: name ? [name] : [],
      rowMode: 'array',
    })
    const refOf = ([schema = '', table = '']: readonly string[]) => ({ schema, name: table })
    if (!name) result.rows.sort((a, b) => compareTables(refOf(a), refOf(b)))
    print(table(result))
  } else if (command === '\\?') print(HELP)
  else throw new Error(`there is no command ${command ?? ''}; \\? shows help`)
}

const TABLES = `
  select n.nspname as schema, c.relname as name,
    case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'f' then 'foreign table' else 'table' end as kind
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'p', 'v', 'm', 'f') and n.nspname not in ('pg_catalog', 'information_schema', 'svc_catalog')
    and n.nspname not like 'pg\\_toast%'`

const COLUMNS = `
  select a.attname as column, pg_catalog.format_type(a.atttypid, a.atttypmod) as type,
    case when a.attnotnull then 'not null' end as "null", pg_catalog.pg_get_expr(d.adbin, d.adrelid) as default
  from pg_catalog.pg_attribute a
  left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  where a.attrelid = $1::text::pg_catalog.regclass and a.attnum > 0 and not a.attisdropped
  order by a.attnum`

/** Formats a result as psql does: aligned columns and the number of rows, or the command and its count. */
export function table({ fields, rows, command, rowCount }: pg.QueryArrayResult<(string | null)[]>): string {
  if (fields.length === 0) return [command, rowCount].filter((part) => part !== null).join(' ')
  const cells = rows.map((row) => row.map((cell) => printable(cell ?? '')))
  const names = fields.map(({ name }) => printable(name))
  const widths = names.map((name, i) => cells.reduce((width, row) => Math.max(width, lengthOf(row[i])), lengthOf(name)))
  const line = (row: readonly string[]) =>
    row
      .map((cell, i) => ` ${cell}${' '.repeat((widths[i] ?? 0) - lengthOf(cell))} `)
      .join('|')
      .trimEnd()
  const rule = widths.map((width) => '-'.repeat(width + 2)).join('+')
  return [line(names), rule, ...cells.map(line), `(${counted(rows.length, 'row')})`].join('\n')
}

/** Writes control characters as escapes, because a terminal would obey them. */
export const printable = (text: string): string =>
  text.replaceAll(/\p{Cc}/gu, (character) =>
    character === '\n' ? '\\n' : `\\x${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
  )

const lengthOf = (text = ''): number => Array.from(text).length
