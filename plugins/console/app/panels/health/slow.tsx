import { useEffect, useState } from 'preact/hooks'
import { timeText } from '../../time.js'
import { Code } from '../../ui/code.js'
import { Grid, type GridColumn } from '../../ui/grid.js'
import { Plan } from '../../ui/plan.js'
import { Problem } from '../../ui/problem.js'
import { duration } from './format.js'
import { readPlan, readSlowQueries, slowQueries, type SlowQuery, useWatched } from './watch.js'

const EVERY_MS = 10_000

const time = { numeric: true, render: (value: unknown) => duration(Number(value) / 1000) }
const COLUMNS: readonly GridColumn[] = [
  { key: 'statement', title: 'Statement' },
  { key: 'role', title: 'Role' },
  { key: 'count', title: 'Slow runs', numeric: true },
  { key: 'total_ms', title: 'Total time', ...time },
  { key: 'mean_ms', title: 'Mean', ...time },
  { key: 'max_ms', title: 'Longest', ...time },
  { key: 'last_seen', title: 'Last', render: (value) => timeText(value) },
  { key: 'sql', title: 'SQL' },
]

/** The statements that were slow since the server started, and the plan of one of them. */
export function Slow() {
  useWatched(slowQueries, readSlowQueries, EVERY_MS)
  const [chosenId, choose] = useState<string>()
  const { value, failure } = slowQueries.value
  if (!value) return failure === undefined ? <p class="wait">Loading …</p> : <Problem of={failure} />
  const { threshold_ms: threshold, queries } = value
  if (threshold === null)
    return (
      <p class="empty">
        This server does not list slow statements. Set <code>database.slowQueryMs</code> to the duration, in
        milliseconds, from which a statement is slow.
      </p>
    )
  if (queries.length === 0)
    return (
      <p class="empty">
        No statement took longer than {duration(threshold / 1000)} since the server started.{' '}
        <code>database.slowQueryMs</code> changes this limit.
      </p>
    )
  const chosen = queries.findIndex(({ id }) => id === chosenId)
  return (
    <div class="slow">
      <p class="soft note">
        Statements that took longer than {duration(threshold / 1000)}, those with the most total time first. Choose one
        for its plan.
      </p>
      <Grid
        label="Slow queries"
        columns={COLUMNS}
        rows={queries.map((each) => ({ ...each, statement: titleOf(each), sql: each.sql.replaceAll(/\s+/g, ' ') }))}
        chosen={chosen === -1 ? undefined : chosen}
        onChoose={(row) => choose(queries[row]?.id)}
      />
      {chosen !== -1 && <Statement key={chosenId} query={queries[chosen]!} close={() => choose(undefined)} />}
    </div>
  )
}

/** Returns the name of the query template or GraphQL operation, or else the first table. */
const titleOf = ({ name, sql }: SlowQuery): string => {
  if (name !== undefined) return name
  const [, verb, schema, table] = FIRST_TABLE.exec(sql) ?? []
  if (table === undefined) return 'statement'
  return `${verb === 'from' ? 'select from' : verb} ${schema === 'public' ? '' : `${schema}.`}${table}`
}
const FIRST_TABLE = /\b(insert into|update|delete from|from) (?:only )?"((?:[^"]|"")+)"\."((?:[^"]|"")+)"/

function Statement({ query, close }: { readonly query: SlowQuery; readonly close: () => void }) {
  const { id, role, kind, planner, sql } = query
  const [plan, setPlan] = useState<readonly string[]>()
  const [failure, setFailure] = useState<unknown>()
  useEffect(() => {
    const reading = new AbortController()
    readPlan(id, reading.signal).then(
      (found) => setPlan(found.plan),
      (error: unknown) => {
        if (!reading.signal.aborted) setFailure(error)
      },
    )
    return () => reading.abort()
  }, [id])
  return (
    <section class="statement" aria-label="The chosen statement">
      <header class="row">
        <h2>
          <bdi>{titleOf(query)}</bdi>
        </h2>
        <span class="soft">
          {kind} of the role <bdi>{role}</bdi>, from {planner}
        </span>
        <button type="button" class="quiet push" onClick={close}>
          Close
        </button>
      </header>
      <h3>SQL</h3>
      <Code label="SQL of the statement" text={sql} copy="Copy SQL" />
      <h3>Plan, for any values</h3>
      {failure !== undefined && <Problem of={failure} />}
      {failure === undefined && !plan && <p class="soft">Loading …</p>}
      {plan && (
        <div role="group" aria-label="Plan of the statement">
          <Plan lines={plan} />
        </div>
      )}
    </section>
  )
}
