import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { Failure } from '../../../api.js'
import { acting } from '../../../session.js'
import { Editor } from '../../../ui/editor.js'
import { Grid, type GridColumn, type GridRow } from '../../../ui/grid.js'
import { Problem } from '../../../ui/problem.js'
import { dependentsIn, Names } from '../confirm.js'
import { asAdmin, useStructure } from '../structure.js'
import { completeSql } from './complete.js'
import { readHistory, remember } from './history.js'
import { SqlProblem } from './sql-problem.js'

interface Answer {
  readonly result_type: 'TuplesOk' | 'CommandOk'
  readonly result?: readonly (readonly string[])[]
}
type State =
  | { readonly kind: 'idle' }
  | { readonly kind: 'running'; readonly since: number }
  | { readonly kind: 'stopped' }
  | { readonly kind: 'done'; readonly answer: Answer; readonly ms: number }
  | { readonly kind: 'failed'; readonly failure: unknown; readonly sql: string }

const LIMITS: readonly (readonly [seconds: number, title: string])[] = [
  [0, 'the server’s time limit'],
  [60, 'at most a minute'],
  [600, 'at most 10 minutes'],
  [3600, 'at most an hour'],
]
const DRAFT = 'rowhouse-sql'

/** Runs SQL as the login of the server. */
export function Sql() {
  const { catalog, reload } = useStructure()
  const [sql, setSql] = useState(() => sessionStorage.getItem(DRAFT) ?? '')
  const [isReadOnly, setReadOnly] = useState(false)
  const [seconds, setSeconds] = useState(0)
  const [history, setHistory] = useState(readHistory)
  const [state, setState] = useState<State>({ kind: 'idle' })
  const running = useRef<AbortController>(undefined)
  useEffect(() => () => running.current?.abort(), [])
  useEffect(() => sessionStorage.setItem(DRAFT, sql.slice(0, 100_000)), [sql])

  const run = async (cascade = false, text = sql) => {
    if (running.current || text.trim() === '') return
    const abort = (running.current = new AbortController())
    const since = performance.now()
    setState({ kind: 'running', since })
    setHistory(remember(text))
    const args = {
      sql: text,
      ...(cascade ? { cascade } : {}),
      ...(isReadOnly ? { read_only: true } : {}),
      ...(seconds > 0 ? { timeout_ms: seconds * 1000 } : {}),
    }
    try {
      const answer = await asAdmin<Answer>('run_sql', args, { signal: abort.signal })
      setState({ kind: 'done', answer, ms: performance.now() - since })
      if (!isReadOnly) await reload()
    } catch (failure) {
      setState(abort.signal.aborted ? { kind: 'stopped' } : { kind: 'failed', failure, sql: text })
    } finally {
      running.current = undefined
    }
  }
  return (
    <div class="page sql">
      <Editor
        label="SQL"
        language="sql"
        value={sql}
        onChange={setSql}
        onRun={() => void run()}
        complete={({ text, position }) => completeSql(text, position, catalog)}
        placeholder="select * from …"
      />
      <div class="bar">
        <button
          type="button"
          class="primary"
          disabled={state.kind === 'running' || sql.trim() === ''}
          title="Ctrl-Enter"
          onClick={() => void run()}
        >
          Run
        </button>
        {state.kind === 'running' && (
          <button type="button" class="danger" onClick={() => running.current?.abort()}>
            Stop
          </button>
        )}
        <label>
          <input
            type="checkbox"
            checked={isReadOnly}
            onChange={({ currentTarget }) => setReadOnly(currentTarget.checked)}
          />{' '}
          Read only
        </label>
        <select
          aria-label="Time limit"
          value={seconds}
          onChange={({ currentTarget }) => setSeconds(Number(currentTarget.value))}
        >
          {LIMITS.map(([value, title]) => (
            <option key={value} value={value}>
              {title}
            </option>
          ))}
        </select>
        <select
          aria-label="History"
          class="history"
          value=""
          disabled={history.length === 0}
          onChange={({ currentTarget }) => {
            const chosen = history[Number(currentTarget.value)]
            if (currentTarget.value !== '' && chosen !== undefined) setSql(chosen)
            currentTarget.value = ''
          }}
        >
          <option value="">History</option>
          {history.map((each, i) => (
            <option key={each} value={i}>
              {each.replaceAll(/\s+/g, ' ').slice(0, 80)}
            </option>
          ))}
        </select>
        {acting.value && <span class="soft">Runs as admin, not as {acting.value.role}.</span>}
      </div>
      <Outcome state={state} cascade={(text) => void run(true, text)} />
    </div>
  )
}

function Outcome({ state, cascade }: { readonly state: State; readonly cascade: (sql: string) => void }) {
  switch (state.kind) {
    case 'idle':
      return <p class="empty">All statements of a run share one transaction. Ctrl-Enter runs them.</p>
    case 'running':
      return <Running since={state.since} />
    case 'stopped':
      return <p class="body">Stopped. What the run had changed was rolled back.</p>
    case 'done':
      return <Result answer={state.answer} ms={state.ms} />
    case 'failed':
      return (
        <div class="body">
          <Failed failure={state.failure} sql={state.sql} cascade={cascade} />
        </div>
      )
  }
}

function Failed({
  failure,
  sql,
  cascade,
}: {
  readonly failure: unknown
  readonly sql: string
  readonly cascade: (sql: string) => void
}) {
  const dependents = dependentsIn(failure)
  if (dependents)
    return (
      <div class="problem" role="alert">
        <p>This also drops what depends on it, so nothing has run:</p>
        <Names names={dependents} />
        <button type="button" class="danger" onClick={() => cascade(sql)}>
          Run, and drop these too
        </button>
      </div>
    )
  return failure instanceof Failure && failure.internal !== undefined ? (
    <SqlProblem failure={failure} sql={sql} />
  ) : (
    <Problem of={failure} />
  )
}

function Running({ since }: { readonly since: number }) {
  const [now, setNow] = useState(since)
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), 500)
    return () => clearInterval(timer)
  }, [])
  return (
    <p class="wait" role="status">
      Running … {Math.floor((now - since) / 1000)} s
    </p>
  )
}

function Result({ answer, ms }: { readonly answer: Answer; readonly ms: number }) {
  const took = ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`
  const { columns, rows } = useMemo(() => gridOf(answer), [answer])
  if (answer.result_type === 'CommandOk')
    return (
      <p class="body good" role="status">
        Done in {took}.
      </p>
    )
  return (
    <>
      <p class="body" role="status">
        {rows.length} {rows.length === 1 ? 'row' : 'rows'} in {took}
      </p>
      <Grid label="Result" columns={columns} rows={rows} />
    </>
  )
}

/** Columns may share a name, so the rows have their positions as keys. */
function gridOf({ result = [] }: Answer): {
  readonly columns: readonly GridColumn[]
  readonly rows: readonly GridRow[]
} {
  const [head = [], ...cells] = result
  return {
    columns: head.map((title, i) => ({ key: String(i), title, sortable: false })),
    rows: cells.map((row): GridRow => Object.fromEntries(row.map((cell, i) => [String(i), cell]))),
  }
}
