import type { IncomingMessage } from 'node:http'

/**
 * The first value of a header, from the lines as they came: Node's own map is made of all of them when it is first asked
 * for, which not every request needs.
 * @param name in lower case
 */
export function headerOf({ rawHeaders }: IncomingMessage, name: string): string | undefined {
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const line = rawHeaders[i]!
    if (line.length === name.length && line.toLowerCase() === name) return rawHeaders[i + 1]
  }
  return undefined
}
