import { useEffect, useState } from 'preact/hooks'
import { recovered } from '../../api.js'
import { timeText } from '../../time.js'
import { Problem } from '../../ui/problem.js'
import { type Figures, readFigures } from './figures.js'

/** Figures of the calls of a template on the server that answers. */
export function Calls({ name }: { readonly name: string }) {
  const [figures, setFigures] = useState<Figures>()
  const [failure, setFailure] = useState<unknown>()
  const [version, setVersion] = useState(0)
  const isRecovered = recovered.value
  useEffect(() => {
    const reading = new AbortController()
    setFailure(undefined)
    readFigures(name, reading.signal)
      .then(setFigures)
      .catch((error: unknown) => {
        if (!reading.signal.aborted) setFailure(error)
      })
    return () => reading.abort()
  }, [name, version, isRecovered])
  if (failure !== undefined) return <Problem of={failure} />
  if (!figures) return <p class="wait">Loading …</p>
  const { count, refused, failed, meanMs, slow } = figures
  return (
    <div class="scroll body">
      <dl class="template-figures">
        <Figure title="Calls" text={whole(count)} />
        <Figure title="Mean time" text={meanMs === undefined ? '–' : time(meanMs)} />
        <Figure title="Refused" text={whole(refused)} />
        <Figure title="Failed" text={whole(failed)} />
      </dl>
      <p class="soft">
        Since this server started. Refused calls had a wrong argument or no permission; failed ones are errors of the
        server or the database.
      </p>
      <p>
        <button type="button" onClick={() => setVersion(version + 1)}>
          Refresh
        </button>
      </p>
      <h3>Slow statements</h3>
      {slow.length === 0 ? (
        <p class="soft">No statement of this template was slow.</p>
      ) : (
        <table class="template-table">
          <thead>
            <tr>
              {['Role', 'Slow runs', 'Mean', 'Longest', 'Last'].map((title) => (
                <th scope="col" key={title}>
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {slow.map(({ id, role, count: runs, mean_ms: mean, max_ms: longest, last_seen: last }) => (
              <tr key={id}>
                <th scope="row">{role}</th>
                <td>{whole(runs)}</td>
                <td>{time(mean)}</td>
                <td>{time(longest)}</td>
                <td>{timeText(last)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  )
}

const Figure = ({ title, text }: { readonly title: string; readonly text: string }) => (
  <div>
    <dt>{title}</dt>
    <dd>{text}</dd>
  </div>
)

const whole = (count: number) => count.toLocaleString('en')
const time = (ms: number) =>
  ms < 1000 ? `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`
