import { useEffect, useState } from 'preact/hooks'
import { ask } from '../../api.js'
import { type JsonObject, textAt } from '../../json.js'
import { acting } from '../../session.js'
import { Code } from '../../ui/code.js'
import { Dialog } from '../../ui/dialog.js'
import { Plan } from '../../ui/plan.js'
import { Problem } from '../../ui/problem.js'

interface Explained {
  readonly sql: string
  readonly plans: readonly string[]
  readonly refused?: {
    readonly role: string
    readonly table: string
    readonly clauses: readonly { readonly path: string }[]
  }
}

/** Shows the SQL of a request and PostgreSQL's plan, for the caller as whom the admin acts. */
export function ExplainDialog({ request, close }: { readonly request: JsonObject; readonly close: () => void }) {
  const [isMeasured, setMeasured] = useState(false)
  const [explained, setExplained] = useState<Explained>()
  const [failure, setFailure] = useState<unknown>()
  useEffect(() => {
    const reading = new AbortController()
    const caller = acting.value ? { role: acting.value.role, headers: acting.value.variables } : {}
    setFailure(undefined)
    ask<Explained>('/v1/query/explain', {
      as: null,
      signal: reading.signal,
      json: { query: request, ...caller, ...(isMeasured ? { analyze: true } : {}) },
    }).then(setExplained, (error: unknown) => {
      if (!reading.signal.aborted) setFailure(error)
    })
    return () => reading.abort()
  }, [isMeasured])
  const isWrite = ['insert', 'update', 'delete'].includes(textAt(request, 'type') ?? '')
  return (
    <Dialog title="Explain" close={close}>
      <label>
        <input
          type="checkbox"
          checked={isMeasured}
          onChange={({ currentTarget }) => setMeasured(currentTarget.checked)}
        />{' '}
        Run it and measure{isWrite ? ', then roll back' : ''}
      </label>
      {failure !== undefined && <Problem of={failure} />}
      {!explained && failure === undefined && <p class="wait">Loading …</p>}
      {explained && failure === undefined && (
        <>
          {explained.refused && (
            <p class="bad">
              The permission of {explained.refused.role} refuses it
              {explained.refused.clauses.length > 0 &&
                `, by ${explained.refused.clauses.map(({ path }) => path).join(', ')}`}
              .
            </p>
          )}
          <h3>Plan</h3>
          <Plan lines={explained.plans} />
          <h3>SQL</h3>
          <Code label="SQL" text={explained.sql} />
        </>
      )}
    </Dialog>
  )
}
