import { addressProblem } from 'rowhouse'

/** Returns the base URL of an API without trailing slashes. @throws Error for an unusable URL */
export function baseOf(url: string): string {
  if (URL.canParse(url) && new URL(url).username + new URL(url).password !== '') {
    throw new Error('url must not contain credentials')
  }
  const problem = addressProblem(url)
  if (problem !== undefined) throw new Error(`url ${problem}`)
  return url.replace(/\/+$/, '')
}
