import { type RecipientOutcome, type ServiceError, serviceError } from 'rowhouse'

/** Returns a 400. @param path of the invalid value, e.g. `$.to` */
export const invalidPayload = (message: string, path = '$'): ServiceError =>
  serviceError('invalid_payload', `Error in ${path}: ${message}`, path)
export const missingKey = (key: string, path = '$'): ServiceError =>
  invalidPayload(`the key '${key}' was not present`, path)
export const unauthorized = (): ServiceError => serviceError('unauthorized', 'Only role: admin is allowed')
export const noDefault = (): ServiceError => serviceError('default_not_found', 'No default email/sms provider set')
export const notConfigured = (provider: string): ServiceError =>
  serviceError('config_not_found', `No ${provider} config found`)
export const noTemplates = (provider: string, template: string): ServiceError =>
  serviceError('invalid_provider', `sending templates is not available for ${provider}`, '$', {
    internal: { detail: `${provider} has no templates, and no template "${template}" is stored here` },
  })
export const notFound = (id: string): ServiceError => serviceError('not-found', `message "${id}" not found`)

/** Details about a message that was not sent. */
export interface DeliveryProblem {
  readonly id: string
  readonly state: string
  readonly provider: string | null
  readonly detail: string
  /** Outcomes of the recipients, if they have their own. */
  readonly recipients?: readonly RecipientOutcome[]
}

/** Returns `{code, message}`, and for a message that was not sent also the `DeliveryProblem`. */
export function errorBody({ status, code, message, path, internal }: ServiceError): object {
  // Core errors use `internal` for details of the database.
  const more = typeof internal === 'object' && internal !== null && 'detail' in internal ? internal : {}
  if (status === 500 && code === 'unexpected' && internal === undefined) return FALLBACK
  if (BODY_CODES.has(code)) return { code: 'invalid_payload', message: `Error in ${path}: ${message}` }
  return { code: code === 'idempotency-in-progress' ? 'in_progress' : code.replaceAll('-', '_'), message, ...more }
}
/** Codes of core errors about the body of a request. */
const BODY_CODES: ReadonlySet<string> = new Set(['invalid-json', 'parse-failed', 'unexpected-payload'])
const FALLBACK = { code: 'unexpected', message: 'fallback 500 error handler' }
