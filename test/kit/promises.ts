import type { Test } from 'tap'
import type { Answered, As, TestServer } from './server.js'

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
/** What proves a promise: its steps in order. */
export type Case = readonly Step[]

export interface Expected {
  readonly status: number
  /** As it came. */
  readonly text?: string
  /** All of the body. */
  readonly body?: unknown
  /** A part of the body, with expressions for texts. */
  readonly like?: object
  readonly headers?: Readonly<Record<string, string>>
}

export const is = (body: unknown): Expected => ({ status: 200, body })
export const text = (exact: string): Expected => ({ status: 200, text: exact })
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

/** Runs the cases in the order of their ids: later ones see what earlier ones left. */
export async function prove<Id extends string>(
  t: Test,
  server: TestServer,
  promises: Readonly<Record<Id, string>>,
  cases: Readonly<Record<Id, Case>>,
): Promise<void> {
  for (const [id, sentence] of Object.entries(promises) as [Id, string][]) {
    for (const [i, step] of cases[id].entries()) {
      const { path, method, body, headers, as, bare, expected } = step
      const init: RequestInit = { method, ...(body === undefined ? {} : { body }), ...(headers ? { headers } : {}) }
      const answer = await (bare ? server.bare(path, init) : server.fetch(path, init, as))
      compare(t, answer, expected, `[${id}] ${sentence} (${i + 1} of ${cases[id].length})`)
    }
  }
}

function compare(
  t: Test,
  answer: Answered,
  { status, text: exact, body, like: part, headers = {} }: Expected,
  name: string,
) {
  t.equal(answer.status, status, name, { answer: answer.text })
  if (exact !== undefined) t.equal(answer.text, exact, name)
  if (body !== undefined) t.same(answer.body, body, name)
  if (part !== undefined) t.match(answer.body, part, name)
  for (const [header, value] of Object.entries(headers)) t.equal(answer.headers.get(header), value, name)
}
