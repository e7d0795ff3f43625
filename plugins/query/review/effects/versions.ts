import { roleName } from 'rowhouse'
import { tableName, versionOf } from 'rowhouse/plan'
import { permissionObject, versionObject } from '../objects.js'
import type { Found, View } from './effect.js'

/** Says which versions a role sees of the rows of a table that it may read before and after. */
export function versionEffects(key: string, was: View, is: View): readonly Found[] {
  const [before, after] = [was.catalog.tables.get(key), is.catalog.tables.get(key)]
  if (!before || !after || !was.names.may(before, 'select') || !is.names.may(after, 'select')) return []
  const [old, now] = [versionOf(before, was.names), versionOf(after, is.names)]
  if (old === now) return []
  const because = [versionObject(after), permissionObject(after, roleName(is.key), 'select')]
  const rows = `rows of ${tableName(after)}`
  if (old === undefined) {
    const text = `can read versions of ${rows} (${now}), and update or delete a row only if it has an expected one`
    return [{ because, effect: 'wider', text }]
  }
  if (now === undefined) {
    const text = `can no longer read versions of ${rows} (was: ${old}), nor update or delete a row only if it has an expected one`
    return [{ because, effect: 'narrower', text }]
  }
  const text = `can read other versions of ${rows}: ${now} (was: ${old}), so that ETags and expected versions from before do not match`
  return [{ because, effect: 'unknown', text }]
}
