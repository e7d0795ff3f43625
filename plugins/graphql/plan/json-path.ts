import { invalid } from './input.js'

/**
 * The keys and places that a path to a part of a JSON value names: `$.a.b[0]['c d']`, with or without `$`.
 * @throws ServiceError 400 for what is no such path
 */
export function readJsonPath(text: string, path: string): readonly string[] {
  const rest = text.startsWith('$') ? text.slice(1) : text
  const steps: string[] = []
  STEP.lastIndex = 0
  while (STEP.lastIndex < rest.length) {
    const first = STEP.lastIndex === 0
    const found = STEP.exec(rest)
    const [whole = '', name, place, quoted] = found ?? []
    const bare = name !== undefined && !whole.startsWith('.')
    if (!found || (bare && !first) || (bare && text.startsWith('$')))
      throw invalid(`"${text}" is not a path into JSON`, path)
    steps.push(name ?? place ?? (quoted as string).slice(1, -1).replaceAll(/\\(.)/g, '$1'))
  }
  return steps
}
const STEP = /\.?([^.[\]'"\s]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\]/y
