import { readFile } from 'node:fs/promises'
import pg, { type ClientBase } from 'pg'
import { pathIn } from 'rowhouse'

/** The first line of a file that runs without a transaction. */
const NO_TRANSACTION = /^--\s*rowhouse:\s*no transaction\s*$/

/**
 * Runs a file of SQL, and `finish` in the same transaction, unless the file begins with a line against that.
 * @param cwd folder that the path of the file starts from
 * @throws Error with file, line and column
 */
export async function runFile(
  client: ClientBase,
  file: string,
  cwd: string,
  finish: () => Promise<unknown>,
): Promise<void> {
  const script = await readScript(file, cwd)
  const { isAlone } = script
  for (const { at, node } of script.statements) {
    const problem = problemOf(node, isAlone)
    if (problem !== undefined) throw new Error(`${file}:${placeAfter(script.before(at))}: ${problem}`)
  }
  await client.query('set statement_timeout = 0')
  if (!isAlone) {
    return inTransaction(client, async () => {
      const before = await transactionId(client)
      await run(client, script)
      if ((await transactionId(client)) !== before) throw new Error(`${file}: it ended its transaction. ${STAYS}`)
      await finish()
    })
  }
  await run(client, script).catch((cause: Error) => {
    // One that the parser cannot read is sent whole, and PostgreSQL undoes it.
    throw script.isSplit ? new Error(`${cause.message}\n  ${STAYS}`, { cause }) : cause
  })
  await inTransaction(client, finish)
}

const STAYS = 'The statements before it have run, and the file is not recorded.'

interface Script {
  readonly file: string
  readonly text: string
  /** Whether it runs without a transaction. */
  readonly isAlone: boolean
  readonly isSplit: boolean
  readonly statements: readonly Statement[]
  /** Returns the text before a place. */
  before(at: number): string
}
interface Statement {
  readonly sql: string
  /** Where it begins, in bytes. */
  readonly at: number
  readonly node: Node
}
/** A statement by its kind, such as `CopyStmt`. */
type Node = Readonly<
  Record<string, { kind?: string; target?: string; is_from?: boolean; filename?: string; is_program?: boolean }>
>

/**
 * Longer files are not split unless they run without a transaction, because parsing them takes seconds and much memory.
 * In characters.
 */
const MAX_SPLIT = 1024 * 1024

/** Reads a file and splits it into statements. If that is impossible, the whole file is one. */
async function readScript(file: string, cwd: string): Promise<Script> {
  const text = decode(await readFile(pathIn(cwd, file)), file)
  const bytes = Buffer.from(text)
  const isAlone = NO_TRANSACTION.test(text.split('\n', 1)[0]!)
  const isWhole = text.length > MAX_SPLIT && !isAlone
  const parsed = isWhole ? undefined : await (await import('libpg-query')).parse(text).catch(() => {})
  const statements = parsed?.stmts?.map(({ stmt, stmt_location: at = 0, stmt_len: length }) => {
    const sql = bytes.subarray(at, length ? at + length : undefined).toString()
    return { sql, at, node: stmt as Node }
  })
  const whole = { sql: text, at: 0, node: {} }
  const before = (at: number) => bytes.subarray(0, at).toString()
  const isSplit = parsed !== undefined
  return { file, text, isAlone, isSplit, statements: isSplit ? (statements ?? []) : [whole], before }
}

function decode(bytes: Buffer, file: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new Error(`${file}: the text is not UTF-8`)
  }
}

/** Returns why a statement may not be in a file. */
function problemOf({ TransactionStmt, DiscardStmt, CopyStmt }: Node, isAlone: boolean): string | undefined {
  if (TransactionStmt && !isAlone && !SAVEPOINT.test(TransactionStmt.kind ?? '')) return TRANSACTION
  if (DiscardStmt?.target === 'DISCARD_ALL') return DISCARD
  return CopyStmt?.is_from && !CopyStmt.filename && !CopyStmt.is_program ? COPY : undefined
}
const SAVEPOINT = /_(SAVEPOINT|RELEASE|ROLLBACK_TO)$/
const TRANSACTION = 'the file is a transaction; to run it without, begin it with a line "-- rowhouse: no transaction"'
const DISCARD = 'discard all would let another migration begin; use reset all, discard temp and the like'
const COPY = 'a migration cannot contain the data of COPY: use insert, or load them with rowhouse sql -f FILE'
const COPY_FROM_STDIN = /^copy\s[^;]*\sfrom\s+stdin\b/im

/** Runs the statements one after the other. */
async function run(client: ClientBase, { file, text, statements, before }: Script): Promise<void> {
  for (const { sql, at } of statements) {
    await client.query(sql).catch((cause: unknown) => {
      if (!(cause instanceof pg.DatabaseError)) throw cause
      const { position = 1, message, code, detail, hint, where } = cause
      const place = placeAfter(
        before(at) +
          Array.from(sql)
            .slice(0, Number(position) - 1)
            .join(''),
      )
      const copies = code === SYNTAX_ERROR && COPY_FROM_STDIN.test(text) ? COPY : undefined
      const said = Object.entries({ detail, hint: hint ?? copies, context: where?.split('\n', 1)[0] })
      const more = said.flatMap(([name, each]) => (each === undefined ? [] : [`\n  ${name}: ${each}`]))
      throw new Error(`${file}:${place}: ${message}${more.join('')}`, { cause })
    })
  }
}
const SYNTAX_ERROR = '42601'

/** Returns the line and column of what follows a text. */
function placeAfter(text: string): string {
  const lines = text.split('\n')
  return `${lines.length}:${Array.from(lines.at(-1)!).length + 1}`
}

async function inTransaction(client: ClientBase, fn: () => Promise<unknown>): Promise<void> {
  await client.query('begin')
  try {
    await fn()
    await client.query('commit')
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}

async function transactionId(client: ClientBase): Promise<string | undefined> {
  const { rows } = await client.query<{ id: string }>('select pg_catalog.pg_current_xact_id()::text as id')
  return rows[0]?.id
}
