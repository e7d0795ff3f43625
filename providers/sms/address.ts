import { addressProblem } from 'rowhouse'

/**
 * The base of an API without the slashes at its end.
 * @throws Error when nothing can be asked there
 */
export function baseOf(url: string): string {
  if (URL.canParse(url) && new URL(url).username + new URL(url).password !== '') {
    throw new Error('url must not hold credentials')
  }
  const problem = addressProblem(url)
  if (problem !== undefined) throw new Error(`url ${problem}`)
  return url.replace(/\/+$/, '')
}
