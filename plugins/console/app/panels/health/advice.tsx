import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import { query } from '../../api.js'
import { Code } from '../../ui/code.js'
import { Problem } from '../../ui/problem.js'
import { Waiting } from '../../ui/waiting.js'
import { bytes, count, number } from './format.js'

/** A proposed index, as `advise_indexes` describes it. */
interface Index {
  readonly sql: string
  readonly table: string
  readonly columns: readonly string[]
  /** How it was checked; null if it was not. */
  readonly checked: 'created' | 'hypopg' | null
  readonly reason?: string
  readonly statements: readonly Statement[]
  readonly rows: number | null
  readonly bytes: number | null
  readonly updates: number
  readonly hot_updates: number
  readonly updatable_by: readonly string[]
}
interface Statement {
  readonly name: string
  readonly role: string
  readonly calls: number | null
  readonly before: number | null
  readonly after: number | null
}
interface Advice {
  readonly advice: readonly Index[]
  readonly statements: number
  readonly without_statistics: readonly string[]
  readonly left_out: number
}

/** The last answer. It stays while the console is open. */
const found = signal<Advice | undefined>(undefined)

/** Proposes indexes for templates, row filters and slow statements. */
export function IndexAdvice() {
  const [tries, setTries] = useState(false)
  const [failure, setFailure] = useState<unknown>()
  const [running, setRunning] = useState<{ readonly abort: AbortController; readonly since: number }>()
  useEffect(() => () => running?.abort.abort(), [running])
  const run = async () => {
    const abort = new AbortController()
    setRunning({ abort, since: performance.now() })
    setFailure(undefined)
    try {
      found.value = await query<Advice>('advise_indexes', { try: tries }, { as: null, signal: abort.signal })
    } catch (error) {
      if (!abort.signal.aborted) setFailure(error)
    }
    setRunning(undefined)
  }
  return (
    <div class="body advice">
      <p>
        Proposes indexes for the statements of query templates, for the row filters of roles, and for slow queries. It
        changes nothing.
      </p>
      <p class="row">
        <button type="button" class="primary" disabled={running !== undefined} onClick={() => void run()}>
          {running ? 'Looking …' : 'Look for indexes'}
        </button>
        <label>
          <input type="checkbox" checked={tries} onChange={({ currentTarget }) => setTries(currentTarget.checked)} />{' '}
          Try each index and roll it back. Until then, nobody can write to its table.
        </label>
      </p>
      {running && <Waiting since={running.since} stop={() => running.abort.abort()} />}
      {failure !== undefined && <Problem of={failure} />}
      {found.value && <Answer of={found.value} />}
    </div>
  )
}

function Answer({ of }: { readonly of: Advice }) {
  const { advice, statements, without_statistics: unknown, left_out: leftOut } = of
  return (
    <>
      <p role="status">
        {advice.length === 0
          ? 'No index would help enough'
          : advice.length === 1
            ? '1 index would help'
            : `${advice.length} indexes would help`}
        . {count(statements, 'statement')} {statements === 1 ? 'was' : 'were'} planned.
      </p>
      {unknown.length > 0 && (
        <p class="odd">
          PostgreSQL has no statistics of {unknown.join(', ')}. Run <code>analyze</code> first.
        </p>
      )}
      {leftOut > 0 && <p class="soft">{number(leftOut)} more statements and indexes were left out.</p>}
      <ul class="indexes" aria-label="Proposed indexes">
        {advice.map((index) => (
          <Proposal key={index.sql} index={index} />
        ))}
      </ul>
    </>
  )
}

function Proposal({ index }: { readonly index: Index }) {
  const { sql, table, columns, checked, reason, statements, rows, updates, hot_updates: hot } = index
  return (
    <li class="fact">
      <h2>
        {table} ({columns.join(', ')})
      </h2>
      <Code label={`Statement for ${table}`} text={sql} copy="Copy SQL" />
      {checked === null && <p class="odd">{sentence(reason ?? 'not checked')}</p>}
      <div class="table" tabIndex={0} role="region" aria-label={`Statements that the index on ${table} serves`}>
        <table class="costs">
          <thead>
            <tr>
              <th scope="col">Statement</th>
              <th scope="col">Role</th>
              <th scope="col">Calls</th>
              <th scope="col">Cost</th>
              <th scope="col">Gain</th>
            </tr>
          </thead>
          <tbody>
            {statements.map(({ name, role, calls, before, after }) => (
              <tr key={`${role} ${name}`}>
                <td>{name}</td>
                <td>{role}</td>
                <td>{calls === null ? '' : number(calls)}</td>
                <td>{before === null || after === null ? 'not known' : `${number(before)} → ${number(after)}`}</td>
                <td class="good">{before === null || after === null ? '' : gain(before, after)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="soft">
        Its price: {index.bytes === null ? 'a size that is not known' : `about ${bytes(index.bytes)}`}
        {rows !== null && ` for ${count(rows, 'row')}`}, and slower writes.{' '}
        {updates > 0 && `${count(updates, 'update')} so far, ${number(hot)} of them HOT. `}
        {index.updatable_by.length > 0 &&
          `Updates of ${columns.join(', ')} are then no longer HOT; ${index.updatable_by.join(', ')} may make them.`}
      </p>
    </li>
  )
}

const sentence = (text: string) => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`
const gain = (before: number, after: number): string => `${number(before / Math.max(after, 1))} times cheaper`
