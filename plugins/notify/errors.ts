import { type ServiceError, serviceError } from 'rowhouse'

/** 400: the payload is wrong. @param path of what is wrong, e.g. `$.to` */
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
export const notFound = (id: string): ServiceError => serviceError('not-found', `message not found : ${id}`)

/** What an answer says about a message that was not sent. */
export interface DeliveryProblem {
  readonly id: string
  readonly state: string
  readonly provider: string | null
  readonly detail: string
}

/** `{code, message}`, and for a message that was not sent its `id`, its `state` and the reason in `detail`. */
export function errorBody({ status, code, message, path, internal }: ServiceError): object {
  // `internal` of core errors is about the database.
  const more = typeof internal === 'object' && internal !== null && 'detail' in internal ? internal : {}
  if (status === 500 && code === 'unexpected' && internal === undefined) return FALLBACK
  if (BODY_CODES.has(code)) return { code: 'invalid_payload', message: `Error in ${path}: ${message}` }
  return { code: code.replaceAll('-', '_'), message, ...more }
}
/** Codes of core errors about the body of a request. */
const BODY_CODES: ReadonlySet<string> = new Set(['invalid-json', 'parse-failed', 'unexpected-payload'])
const FALLBACK = { code: 'unexpected', message: 'fallback 500 error handler' }
