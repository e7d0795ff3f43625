import { useEffect, useState } from 'preact/hooks'
import { ask } from '../api.js'
import { acting } from '../session.js'
import { Code } from './code.js'
import { Plan } from './plan.js'
import { Problem } from './problem.js'

/** What the server says about a statement. */
export interface Explained {
  /** The root field of a GraphQL request. */
  readonly field?: string
  readonly sql: string
  readonly plans: readonly string[]
  readonly refused?: {
    readonly role: string
    readonly table: string
    readonly clauses: readonly { readonly path: string }[]
  }
}

/** Explains a request, whose statements also run if they are measured. */
export type Explain = (isMeasured: boolean, signal: AbortSignal) => Promise<readonly Explained[]>

/** Returns how a request to the JSON API is explained, for the caller as whom the admin acts. */
export const explainQuery =
  (request: unknown): Explain =>
  async (analyze, signal) => {
    const caller = acting.value && { role: acting.value.role, headers: acting.value.variables }
    const json = { query: request, ...caller, analyze }
    return [await ask<Explained>('/v1/query/explain', { as: null, signal, json })]
  }

/** Shows the SQL of a request and PostgreSQL's plan. */
export function Explanation({ explain, isWrite = false }: { readonly explain: Explain; readonly isWrite?: boolean }) {
  const [isMeasured, setMeasured] = useState(false)
  const [explained, setExplained] = useState<readonly Explained[]>()
  const [failure, setFailure] = useState<unknown>()
  useEffect(() => {
    const reading = new AbortController()
    setFailure(undefined)
    explain(isMeasured, reading.signal).then(setExplained, (error: unknown) => {
      if (!reading.signal.aborted) setFailure(error)
    })
    return () => reading.abort()
  }, [isMeasured])
  return (
    <>
      <p class="row">
        {acting.value && <span class="soft">As {acting.value.role}.</span>}
        <label>
          <input
            type="checkbox"
            checked={isMeasured}
            onChange={({ currentTarget }) => setMeasured(currentTarget.checked)}
          />{' '}
          Run it and measure{isWrite ? ', then roll back' : ''}
        </label>
      </p>
      {failure !== undefined && <Problem of={failure} />}
      {!explained && failure === undefined && <p class="wait">Loading …</p>}
      {failure === undefined && explained?.map((each, i) => <Statement key={i} of={each} />)}
    </>
  )
}

const Statement = ({ of: { field, sql, plans, refused } }: { readonly of: Explained }) => (
  <>
    {field !== undefined && (
      <h3>
        <code>{field}</code>
      </h3>
    )}
    {refused && (
      <p class="bad">
        The permission of {refused.role} refuses it
        {refused.clauses.length > 0 && `, by ${refused.clauses.map(({ path }) => path).join(', ')}`}.
      </p>
    )}
    <h3>Plan</h3>
    <Plan lines={plans} />
    <h3>SQL</h3>
    <Code label="SQL" text={sql} />
  </>
)
