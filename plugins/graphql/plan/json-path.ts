import { invalid } from './input.js'

/**
 * Returns the keys and indices of a JSON path such as `$.a.b[0]['c d']`, with or without `$`, or a dot before a bracket.
 * @throws ServiceError 400 for a malformed path
 */
export function readJsonPath(text: string, path: string): readonly string[] {
  const rest = text.startsWith('$') ? text.slice(1) : text
  const steps: string[] = []
  STEP.lastIndex = 0
  while (STEP.lastIndex < rest.length) {
    const first = STEP.lastIndex === 0
    const found = STEP.exec(rest)
    const [whole = '', name, index, quoted] = found ?? []
    const bare = name !== undefined && !whole.startsWith('.')
    if (!found || (bare && !first) || (bare && text.startsWith('$')))
      throw invalid(`"${text}" is not a path into JSON`, path)
    steps.push(name ?? index ?? (quoted as string).slice(1, -1).replaceAll(/\\(.)/g, '$1'))
  }
  return steps
}
const STEP = /\.?([^.[\]'"\s]+)|\.?\[(\d+)\]|\.?\[("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\]/y
