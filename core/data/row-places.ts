import { at, isUnder, ServiceError } from '../errors.js'
import { isObject, type Json, NO_LIMITS, parseJson, Rows } from '../json/parse.js'

/**
 * Returns an error of a plan with the place of the row that it is about: `$.args.objects[0].lines.data[2].nope`. A plan knows the keys
 * of rows only, not which rows have them: `$.args.objects.lines.nope`. It is the first
 * row, or all of them for a key that a relationship gives them.
 */
export function inRows(error: unknown, values: readonly Json[]): unknown {
  const [base] = (error instanceof ServiceError && /^.*?\.args\.objects(?=\.|\[')/.exec(error.path)) || []
  const rows = values.find((value) => value instanceof Rows)
  if (base === undefined || rows === undefined) return error
  const { path } = error as ServiceError
  const isInRows = [...rows.columns].some(([key]) => isUnder(path, at(base, key)))
  const given = isInRows ? (parseJson(rows.source, NO_LIMITS) as Json[]) : []
  return (error as ServiceError).moved(placeIn(given, path, base, (i) => at(base, i)) ?? base)
}

/**
 * @param planned the path of the rows in the plan
 * @param place returns that of a row in the request
 */
function placeIn(
  rows: readonly Json[],
  path: string,
  planned: string,
  place: (row: number) => string,
): string | undefined {
  for (const [i, row] of rows.entries()) {
    if (!isObject(row)) continue
    for (const key of Object.keys(row)) {
      const [here, real] = [at(planned, key), at(place(i), key)]
      if (path === here) return real
      const value = isUnder(path, here) ? row[key] : undefined
      const data = isObject(value) ? value['data'] : undefined
      const isList = Array.isArray(data)
      const found =
        data !== undefined &&
        placeIn(isList ? data : [data], path, here, (n) => (isList ? at(`${real}.data`, n) : `${real}.data`))
      if (found) return found
      const conflict = at(here, 'on_conflict')
      if (isObject(value) && value['on_conflict'] !== undefined && isUnder(path, conflict)) {
        return `${real}${path.slice(here.length)}`
      }
    }
  }
  return undefined
}
