import { useEffect, useState } from 'preact/hooks'
import type { Table } from '../../catalog.js'
import type { JsonObject } from '../../json.js'
import { Problem } from '../../ui/problem.js'
import { type Explained, Why } from '../../ui/why.js'
import { permissionAt, type Place, type Rules } from './rules.js'
import { type Asked, explain, type Variables } from './trial.js'
import { PAUSE_MS } from './use-trial.js'

/** Asks the server why, and shows the answer. It asks again when the permission changes. */
export function WhyAnswer({
  place,
  table,
  rules,
  asked,
  variables,
  permission,
}: {
  readonly place: Place
  readonly table: Table
  readonly rules: Rules
  readonly asked: Asked
  readonly variables: Variables
  /** A permission that is not saved yet, to ask about it instead of the saved one. */
  readonly permission?: JsonObject | undefined
}) {
  const [found, setFound] = useState<{ readonly answer?: Explained; readonly failure?: unknown }>({})
  const key = JSON.stringify([place, asked, variables, permission ?? permissionAt(place)])
  useEffect(() => {
    const asking = new AbortController()
    const ask = () =>
      explain(place, variables, asked, permission, asking.signal).then(
        (answer) => setFound({ answer }),
        (failure: unknown) => asking.signal.aborted || setFound({ failure }),
      )
    const timer = setTimeout(() => void ask(), permission ? PAUSE_MS : 0)
    return () => {
      clearTimeout(timer)
      asking.abort()
    }
  }, [key])
  const { answer, failure } = found
  const about = { role: place.role, operation: place.action, table, tables: rules.tables }
  return (
    <>
      {permission && <p class="odd">With your changes, which are not saved yet:</p>}
      {failure !== undefined ? (
        <Problem of={failure} />
      ) : answer ? (
        <Why answer={answer} about={about} />
      ) : (
        <p class="soft">Asking …</p>
      )}
    </>
  )
}
