import { isDeepStrictEqual } from 'node:util'
import type pg from 'pg'
import type { Size } from './data.js'
import { type LoadScenario, requestCount, valueOf } from './scenarios/scenario.js'

/** A system's answer to the n-th request, as JSON text. */
export type Answer = (n: number) => Promise<string>

/**
 * Compares decoded answers with those of the reference query: nothing is timed that answers something else.
 * @throws Error that names the system and the request
 */
export async function check(
  scenario: LoadScenario,
  size: Size,
  client: pg.Client,
  systems: Readonly<Record<string, Answer>>,
): Promise<void> {
  const count = requestCount(size)
  for (const n of [0, 1, count >> 1, count - 1]) {
    const expected = await single(client, scenario.reference(n, size))
    for (const [system, answer] of Object.entries(systems)) {
      const text = await answer(n)
      if (isDeepStrictEqual(JSON.parse(text), expected)) continue
      throw new Error(
        `scenario ${scenario.id}: ${system} answers request ${n} with ${text.slice(0, 200)}, ` +
          `not with ${JSON.stringify(expected).slice(0, 200)}`,
      )
    }
  }
}

/** The answer of the SQL that pgbench is given. */
export function answerOf(client: pg.Client, sql: string, scenario: LoadScenario, size: Size): Answer {
  return async (n) => {
    const values = scenario.parameters(size).map((parameter) => valueOf(parameter, n))
    const { rows } = await client.query<[string]>({ text: sql, values, rowMode: 'array' })
    return rows[0]?.[0] ?? ''
  }
}

async function single(client: pg.Client, sql: string): Promise<unknown> {
  const { rows } = await client.query<[unknown]>({ text: sql, rowMode: 'array' })
  return rows[0]?.[0]
}
