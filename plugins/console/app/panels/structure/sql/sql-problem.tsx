import type { Failure } from '../../../api.js'
import { type JsonObject, textAt } from '../../../json.js'

/** What PostgreSQL says about a failed statement, with the line in which it failed. */
export function SqlProblem({ failure, sql }: { readonly failure: Failure; readonly sql: string }) {
  const details = ((failure.internal as JsonObject | undefined)?.['error'] ?? {}) as JsonObject
  const [line, column] = ['line', 'column'].map((key) => Number(textAt(details, key) ?? Number.NaN)) as [number, number]
  const code = textAt(details, 'status_code')
  return (
    <div class="problem" role="alert">
      <p>{failure.message}</p>
      {!Number.isNaN(line) && (
        <pre class="place">
          {`${line} │ ${sql.split('\n')[line - 1]?.slice(0, MOST) ?? ''}`}
          {column <= MOST && `\n${' '.repeat(`${line} │ `.length + column - 1)}▲`}
        </pre>
      )}
      {['description', 'hint'].map((key) => {
        const text = textAt(details, key)
        return text === undefined ? null : <p key={key}>{text}</p>
      })}
      <p class="soft">Nothing has changed. {code !== undefined && <>PostgreSQL’s code is {code}.</>}</p>
    </div>
  )
}

/** Characters of a line that are shown. */
const MOST = 300
