import type { EventEmitter } from 'node:events'
import { open } from 'node:fs/promises'
import type { Socket } from 'node:net'
import type { Writable } from 'node:stream'
import pg from 'pg'
import { placeIn } from '../db/sqlstates.js'
import { CopyIn } from './copy-in.js'
import { pathIn } from './invocation.js'
import { splitSql, type SqlPart } from './split-sql.js'
import { messageOf } from '../errors.js'

/** A statement, or a command of psql. */
export type Statement = Extract<SqlPart, { readonly line: number }>

export interface ScriptOptions {
  /** Folder that the path of a file starts from. Default: that of this process. */
  readonly cwd?: string
  /** Runs or skips a statement in a way of its own. @returns whether it did */
  readonly take?: (statement: Statement) => Promise<boolean> | boolean
  readonly result?: (result: pg.QueryArrayResult<(string | null)[]>) => void
  /** Where to write the data of `COPY ... TO stdout`. */
  readonly output?: Writable
  /** Called with the number of bytes read so far. */
  readonly progress?: (bytes: number) => void
}

/**
 * Runs a file of SQL statement by statement, and loads the data of `COPY ... FROM stdin`.
 * @throws Error with file, line and column
 */
export function runFile(client: pg.ClientBase, file: string, options: ScriptOptions = {}): Promise<void> {
  return runPieces(client, readBytes(pathIn(options.cwd ?? '', file), options.progress), file, options)
}

/** Runs a text in the same way. */
export function runText(client: pg.ClientBase, text: string, options: ScriptOptions = {}): Promise<void> {
  return runPieces(client, [Buffer.from(text).toString('latin1')], TEXT, options)
}

/** The place in errors of SQL without a file. */
export const TEXT = 'SQL'

async function runPieces(
  client: pg.ClientBase,
  pieces: Parameters<typeof splitSql>[0],
  file: string,
  options: ScriptOptions,
): Promise<void> {
  let copy: CopyIn | undefined
  let statement: Statement | undefined
  try {
    for await (const part of splitSql(pieces)) {
      if (part.kind === 'data') await copy?.write(Buffer.from(part.text, 'latin1'))
      else if (part.kind === 'end-of-data') await copy?.end()
      else {
        statement = part
        statement = { ...part, text: decode(part.text) }
        const isTaken = (await options.take?.(statement)) === true
        if (!isTaken && part.kind === 'command')
          throw new Error(`a command of psql, which is not SQL: ${statement.text}`)
        if (!isTaken && part.kind === 'statement') await runOne(client, statement.text, options)
        if (!isTaken && part.kind === 'copy') await (copy = new CopyIn(client, statement.text)).started
      }
      if (part.kind !== 'data' && part.kind !== 'copy') statement = undefined
    }
  } catch (error) {
    await copy?.abandon()
    throw explained(error, file, statement)
  }
}

/** Runs one statement. Rows are arrays of texts, because columns may have the same name. */
export async function runOne(
  client: pg.ClientBase,
  text: string,
  { result: show, output }: Pick<ScriptOptions, 'result' | 'output'>,
): Promise<void> {
  const { connection } = client as unknown as { readonly connection: Wire }
  let isCopied = false
  const begin = () => (isCopied = output !== undefined)
  const write = ({ chunk }: { readonly chunk: Buffer }) => {
    if (!output || output.write(chunk) || connection.stream.isPaused()) return
    connection.stream.pause()
    output.once('drain', () => connection.stream.resume())
  }
  const fail = (error: Error) => connection.stream.destroy(error)
  connection.on('copyOutResponse', begin).on('copyData', write)
  output?.on('error', fail)
  try {
    const result = await client.query({ text, rowMode: 'array', types: AS_TEXT } as pg.QueryArrayConfig)
    if (!isCopied) show?.(result)
  } finally {
    connection.off('copyOutResponse', begin).off('copyData', write)
    output?.off('error', fail)
  }
}

/** pg's connection, which its types omit. */
interface Wire extends EventEmitter {
  readonly stream: Socket
}
const AS_TEXT = { getTypeParser: () => (text: string) => text }

/**
 * Adds where a statement failed, and what else PostgreSQL says.
 * @param at place of the statement in the file; absent for an error of the file itself
 */
export function explained(error: unknown, file: string, at?: Statement): Error {
  if (!(error instanceof Error) || !at || PLACED.test(error.message))
    return new Error(`${file}: ${messageOf(error)}`, { cause: error })
  const { detail, hint, where } = error instanceof pg.DatabaseError ? error : ({} as Partial<pg.DatabaseError>)
  const said = Object.entries({ detail, hint, context: where?.split('\n', 1)[0] })
  const more = said.flatMap(([name, text]) => (text === undefined ? [] : [`\n  ${name}: ${text}`]))
  return new Error(`${file}:${placeOf(error, at)}: ${error.message}${more.join('')}`, { cause: error })
}

/** An error that says its line itself, because no statement is complete there. */
const PLACED = /^line \d+: /

function placeOf(error: Error, { text, line, column }: Statement): string {
  if (!(error instanceof pg.DatabaseError)) return `${line}:${column}`
  const row = /^COPY .*, line (\d+)/.exec(error.where ?? '')?.[1]
  if (row !== undefined) return String(line + text.split('\n').length - 1 + Number(row))
  const inside = placeIn(text, error) ?? { line: 1, column: 1 }
  return `${line + inside.line - 1}:${inside.line === 1 ? column + inside.column - 1 : inside.column}`
}

const CHUNK = 1024 * 1024

/** Reads a file as `latin1`, which keeps the bytes of data. @throws Error when it is not a text */
async function* readBytes(file: string, progress: (bytes: number) => void = () => {}): AsyncGenerator<string> {
  const handle = await open(file)
  try {
    const buffer = Buffer.alloc(CHUNK)
    for (let total = 0; ;) {
      const { bytesRead } = await handle.read(buffer, 0, CHUNK)
      if (bytesRead === 0) return
      const text = buffer.toString('latin1', 0, bytesRead)
      if (total === 0) refuseOthers(text)
      yield total === 0 && text.startsWith(BYTE_ORDER_MARK) ? text.slice(BYTE_ORDER_MARK.length) : text
      progress((total += bytesRead))
    }
  } finally {
    await handle.close()
  }
}

const BYTE_ORDER_MARK = '\xef\xbb\xbf'
const OTHERS = {
  PGDMP: 'this is an archive of pg_dump: convert it with pg_restore --no-owner --file=dump.sql',
  '\x1f\x8b': 'this is a compressed file: decompress it first',
  '\xff\xfe': 'this is UTF-16: expected UTF-8',
  '\xfe\xff': 'this is UTF-16: expected UTF-8',
}

function refuseOthers(text: string): void {
  for (const [start, message] of Object.entries(OTHERS)) if (text.startsWith(start)) throw new Error(message)
}

const UTF8 = new TextDecoder('utf-8', { fatal: true })

function decode(text: string): string {
  try {
    return UTF8.decode(Buffer.from(text, 'latin1'))
  } catch {
    throw new Error('the text is not UTF-8: write the file again, with pg_dump --encoding=UTF8')
  }
}

/** Returns whether a statement would end, or begin, a transaction. */
export const isTransactionControl = ({ kind, text }: Statement): boolean =>
  kind === 'statement' &&
  /^(begin|start\s+transaction|commit|end|abort|prepare\s+transaction|rollback(?!\s+(work\s+|transaction\s+)?to\b))\b/i.test(
    text,
  )
