import { useEffect } from 'preact/hooks'
import { labelOf, type Table } from '../../catalog.js'
import { type JsonObject, textOf } from '../../json.js'
import { parsed } from './draft.js'
import type { Place } from './rules.js'
import { tried } from './session-fields.js'
import type { Asked, Variables } from './trial.js'

/** The parameters of an address. */
export type Given = Readonly<Record<string, string | undefined>>

/** Returns the address of a permission's page, or of the page that says why. It has the question, so that links keep it. */
export const addressOf = (
  { table, role, action }: Place,
  { key, object }: Asked = {},
  variables: Variables = {},
  page: 'rule' | 'why' = 'rule',
): string =>
  `/console/permissions/${page}?${new URLSearchParams({
    table: labelOf(table),
    role,
    operation: action,
    ...(key !== undefined && { key: JSON.stringify(key) }),
    ...(object !== undefined && { object: JSON.stringify(object) }),
    ...(Object.keys(variables).length > 0 && { session: JSON.stringify(variables) }),
  })}`

/** Returns the address of an answer. */
export const whyAddress = (place: Place, asked: Asked, variables: Variables): string =>
  addressOf(place, asked, variables, 'why')

/** Returns the question of an address. A key that is no JSON object is the value of the primary key. */
export function askedIn({ key, object }: Given, table: Table): Asked {
  const found = key === undefined ? undefined : (parsed(key) ?? key)
  const [name] = table.primary_key
  const isCondition = typeof found === 'object' && found !== null
  const row = found === undefined || isCondition ? found : name === undefined ? undefined : { [name]: found }
  const written = object === undefined ? undefined : parsed(object)
  return { ...(row !== undefined && { key: row }), ...(written !== undefined && { object: written }) }
}

/** Takes the session variables of an address over into the fields. */
export function useGivenSession({ user, session }: Given): void {
  useEffect(() => {
    const named = parsed(session ?? '')
    if (user !== undefined) tried.value = { ...tried.value, 'x-service-user-id': user }
    if (typeof named === 'object' && named !== null) {
      const values = Object.entries(named as JsonObject).map(([name, value]) => [name.toLowerCase(), textOf(value)])
      tried.value = { ...tried.value, ...Object.fromEntries(values) }
    }
  }, [user, session])
}
