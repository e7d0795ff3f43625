import { useEffect, useState } from 'preact/hooks'
import { labelOf, type Table } from '../../catalog.js'
import { Problem } from '../../ui/problem.js'
import { type Explained, Why } from '../../ui/why.js'
import { permissionAt, type Place, type Rules } from './rules.js'
import { type Asked, explain, type Variables } from './trial.js'

/** Asks the server why, and shows the answer. It asks again when the permission changes. */
export function WhyAnswer({
  place,
  table,
  rules,
  asked,
  variables,
}: {
  readonly place: Place
  readonly table: Table
  readonly rules: Rules
  readonly asked: Asked
  readonly variables: Variables
}) {
  const [found, setFound] = useState<{ readonly answer?: Explained; readonly failure?: unknown }>({})
  const key = JSON.stringify([place, asked, variables, permissionAt(place)])
  useEffect(() => {
    const asking = new AbortController()
    explain(place, variables, asked, asking.signal).then(
      (answer) => setFound({ answer }),
      (failure: unknown) => asking.signal.aborted || setFound({ failure }),
    )
    return () => asking.abort()
  }, [key])
  if (found.failure !== undefined) return <Problem of={found.failure} />
  if (!found.answer) return <p class="soft">Asking …</p>
  return (
    <Why answer={found.answer} about={{ role: place.role, operation: place.action, table, tables: rules.tables }} />
  )
}

/** Returns the address of an answer, for links. */
export const whyAddress = ({ table, role, action }: Place, { key, object }: Asked, variables: Variables): string =>
  `/console/permissions/why?${new URLSearchParams({
    table: labelOf(table),
    role,
    operation: action,
    ...(key !== undefined && { key: JSON.stringify(key) }),
    ...(object !== undefined && { object: JSON.stringify(object) }),
    ...(Object.keys(variables).length > 0 && { session: JSON.stringify(variables) }),
  })}`
