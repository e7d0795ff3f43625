import { constants } from 'node:fs'
import { access, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Ajv } from 'ajv'
import type { Comparison } from './compare.js'
import type { Window } from './load/load.js'
import type { Ratio } from './ratios.js'
import { RESULT_SCHEMA } from './result-schema.js'
import type { Section } from './section.js'
import type { Verdict } from './targets.js'

/** All that came of one run, and what the figures depend on. */
export interface Result {
  readonly format: 2
  /** ISO 8601. */
  readonly date: string
  readonly build: Commit
  readonly machine: Machine
  readonly versions: Readonly<Record<string, string>>
  /** Of PostgreSQL. */
  readonly settings: Readonly<Record<string, string>>
  readonly options: {
    readonly size: string
    readonly rounds: number
    readonly window: Window
    readonly full: boolean
    readonly peers: readonly string[]
    /** Scenarios by their ids. */
    readonly scenarios: readonly string[]
  }
  readonly tool: string
  readonly sections: readonly SectionResult[]
  /** Scenarios that were left out of this run, and what runs them. */
  readonly notRun: readonly { readonly id: string; readonly name: string; readonly reason: string }[]
  /** Of two builds. */
  readonly comparison?: Comparison
}

export interface SectionResult extends Section {
  readonly ratios: readonly Ratio[]
  readonly verdicts: readonly Verdict[]
}

/** A state of the source tree. */
export interface Commit {
  /** Short; `unknown` outside of a repository. */
  readonly sha: string
  /** Files were changed since. */
  readonly changed: boolean
}

export interface Machine {
  readonly cpus: number
  readonly model: string
  readonly memoryMiB: number
  /** Operating system and its version. */
  readonly system: string
  /** Processes that ran or waited, on average of the last minute, five, and fifteen. */
  readonly loadBefore: readonly number[]
  readonly loadAfter: readonly number[]
  /** Share of the processors that others used just before the run, from 0 to 1. */
  readonly useBefore?: number
}

/** Results that are kept, in the source tree. */
export const RESULTS = fileURLToPath(new URL('../../bench/results/', import.meta.url))

const valid = new Ajv({ strict: true, allowUnionTypes: true, allErrors: true }).compile(RESULT_SCHEMA)

/** @throws Error that says where it is not a result */
export function checkResult(value: unknown): Result {
  if (valid(value)) return value as unknown as Result
  const wrongs = (valid.errors ?? []).map(({ instancePath, message }) => `${instancePath || '/'} ${message}`)
  throw new Error(`this is no result of the bench: ${wrongs.slice(0, 5).join('; ')}`)
}

/** @throws Error when it is not of the schema, which would be a fault of the bench */
export async function writeResult(result: Result, file: string): Promise<void> {
  const text = `${JSON.stringify(result, undefined, 2)}\n`
  checkResult(JSON.parse(text))
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, text)
}

/**
 * Whether a file can be written there, before anything is measured.
 * @throws Error that says what is wrong
 */
export async function checkWritable(file: string): Promise<void> {
  const found = await stat(file).catch(() => undefined)
  if (found?.isDirectory()) throw new Error(`${file} is a folder`)
  const folder = dirname(file)
  const around = await stat(folder).catch(() => undefined)
  if (around?.isDirectory() !== true) throw new Error(`there is no folder ${folder}`)
  await access(found === undefined ? folder : file, constants.W_OK).catch(() => {
    throw new Error(`${file} cannot be written`)
  })
}

/** @throws Error in a sentence, where the file is missing, is no JSON, or no result */
export async function readResult(file: string): Promise<Result> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new Error(error.code === 'ENOENT' ? `there is no file ${file}` : `${file} cannot be read: ${error.code}`)
  })
  try {
    return checkResult(JSON.parse(text))
  } catch (error) {
    const reason = error instanceof SyntaxError ? 'this is no JSON' : (error as Error).message
    throw new Error(`${file}: ${reason}`, { cause: error })
  }
}

/** Those in a folder, the oldest first; none where there is no folder. */
export async function readResults(folder: string): Promise<readonly Result[]> {
  const names = await readdir(folder).catch(() => [])
  const results = await Promise.all(
    names.filter((name) => name.endsWith('.json')).map((name) => readResult(join(folder, name))),
  )
  return results.toSorted((a, b) => a.date.localeCompare(b.date))
}

/** @returns e.g. `2026-11-20T10-30-05-1a2b3c4.json`: no run has the name of another */
export const resultName = ({ date, build }: Result): string =>
  `${date.slice(0, 19).replaceAll(':', '-')}-${build.sha}.json`
