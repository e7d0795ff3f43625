import { parseFailed } from '../errors.js'
import type { Json } from '../json/parse.js'
import { isObject } from '../plan/encode.js'
import type { Call } from './operations.js'

/** Returns the context of a request with the `dry_run` of its body. @throws ServiceError 400 parse-failed */
export function withDryRun(body: Json, call: Call): Call {
  const dryRun = isObject(body) ? body['dry_run'] : undefined
  if (dryRun === undefined || dryRun === false) return call
  if (dryRun !== true) throw parseFailed('expecting a boolean', '$.dry_run')
  call.headers?.set('Preference-Applied', 'tx=rollback')
  return { ...call, dryRun }
}
