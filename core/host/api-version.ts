import { version } from './version.js'

/** Version of the interface for plugins and providers. It promises what `core/host/README.md` says. */
const API_VERSION = '1.0'

/** Explains why the range in `api` is not met: `^1` or `^1.2`, the major version and the least minor version. */
export function apiProblem(wanted: unknown): string | undefined {
  if (wanted === undefined) return undefined
  const range = typeof wanted === 'string' ? wanted : ''
  const [, major, minor = 0] = /^\^(\d+)(?:\.(\d+))?$/.exec(range) ?? []
  if (major === undefined) return `has an "api" that is not a range such as "^${API_VERSION.split('.')[0]}"`
  const [own, least] = API_VERSION.split('.').map(Number)
  if (Number(major) === own && Number(minor) <= (least ?? 0)) return undefined
  return `needs version ${range} of the extension API; rowhouse ${version} has version ${API_VERSION}`
}
