import tap, { type Test } from 'tap'
import type { Answered, As, TestServer } from './server.js'

/**
 * What one area of the product promises to those who use it. Each promise has an id and a sentence, and a case that proves
 * it, or the list does not compile.
 */
export interface Area {
  /** As its file in `test/promises`. */
  readonly name: string
  /** A sentence for each id. */
  readonly promises: Readonly<Record<string, string>>
  /** Where the documentation makes these promises. */
  readonly pages: Pages<string>
  /** Proves all of them. */
  prove(t: Test): Promise<void>
}

/**
 * Pages of the documentation, their headings, and in these the rows of tables (the text of the first cell) and the sentences
 * with "must", each with the id of its promise.
 */
export type Pages<Id extends string> = Readonly<
  Record<string, Readonly<Record<string, Readonly<Record<string, Id | readonly Id[]>>>>>
>

/**
 * @param start makes the server of the area, with what its cases need
 * @param cases run in the order of `promises`: later ones see what earlier ones left
 */
export function area<Id extends string, S extends TestServer>(
  name: string,
  {
    promises,
    pages = {},
    start,
    cases,
  }: {
    readonly promises: Readonly<Record<Id, string>>
    readonly pages?: Pages<Id>
    readonly start: (t: Test) => Promise<S>
    readonly cases: Readonly<Record<Id, Case<S>>>
  },
): Area {
  const prove = async (t: Test): Promise<void> => {
    const server = await start(t)
    for (const [id, sentence] of Object.entries(promises) as [Id, string][]) {
      const proof = cases[id]
      const name = `[${id}] ${sentence}`
      if (typeof proof === 'function') await t.test(name, (t) => proof(t, server))
      else for (const [i, step] of proof.entries()) await take(t, server, step, `${name} (${i + 1} of ${proof.length})`)
    }
  }
  return { name, promises, pages, prove }
}

/** What proves a promise: requests in order, or what they cannot say. */
export type Case<S extends TestServer = TestServer> = readonly Step[] | ((t: Test, server: S) => Promise<void>)

/** One request, and what has to come back. */
export interface Step {
  readonly path: string
  readonly method: string
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly as?: As
  /** Sent without the admin secret. */
  readonly bare?: boolean
  readonly expected: Expected
}

export interface Expected {
  readonly status: number
  /** As it came. */
  readonly text?: string
  /** All of the body. */
  readonly body?: unknown
  /** A part of the body, with expressions for texts. */
  readonly like?: object
  readonly headers?: Readonly<Record<string, string | RegExp | null>>
}

export const is = (body: unknown): Expected => ({ status: 200, body })
export const text = (exact: string): Expected => ({ status: 200, text: exact })
/** All of the body, with types and keys in this order, and no blanks: as PostgreSQL writes all but jsonb. */
export const exactly = (body: unknown): Expected => text(JSON.stringify(body))
export const like = (part: object): Expected => ({ status: 200, like: part })
/** An error of the data service: `path`, `error`, `code`. */
export const refused = (code: string, error: string | RegExp, path?: string, status = 400): Expected => ({
  status,
  like: { code, error, ...(path === undefined ? {} : { path }) },
})

/** `POST /v1/query`. */
export const query = (type: string, args: unknown, expected: Expected, as?: As): Step => ({
  path: '/v1/query',
  method: 'POST',
  body: JSON.stringify({ type, args }),
  expected,
  ...(as ? { as } : {}),
})

/** Takes some steps of a case that is a function. */
export async function takeAll(t: Test, server: TestServer, steps: readonly Step[]): Promise<void> {
  for (const step of steps) await take(t, server, step, `${step.method} ${step.path}`)
}

async function take(t: Test, server: TestServer, step: Step, name: string): Promise<void> {
  const { path, method, body, headers, as, bare, expected } = step
  const init: RequestInit = { method, ...(body === undefined ? {} : { body }), ...(headers ? { headers } : {}) }
  compare(t, await (bare ? server.bare(path, init) : server.fetch(path, init, as)), expected, name)
}

function compare(
  t: Test,
  answer: Answered,
  { status, text: exact, body, like: part, headers = {} }: Expected,
  name: string,
) {
  t.equal(answer.status, status, name, { answer: answer.text })
  if (exact !== undefined) t.equal(answer.text, exact, name)
  if (body !== undefined) t.strictSame(answer.body, body, name)
  if (part !== undefined) t.match(answer.body, part, name)
  for (const [header, value] of Object.entries(headers)) {
    if (value instanceof RegExp) t.match(answer.headers.get(header), value, `${name}: ${header}`)
    else t.equal(answer.headers.get(header), value, `${name}: ${header}`)
  }
}

/** Areas to prove, as a comma list; all of them by default. */
const ONLY = process.env['ROWHOUSE_TEST_AREAS']?.split(',')

/** Proves the areas of a test file, one after the other. */
export function proveAll(areas: readonly Area[]): void {
  for (const each of areas) if (ONLY?.includes(each.name) ?? true) void tap.test(each.name, (t) => each.prove(t))
}
