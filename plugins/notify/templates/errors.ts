import { ServiceError } from 'rowhouse'

/** 400: the request, a template in it, or a value for one is not as it should be. */
export const invalidPayload = (message: string, cause?: unknown): ServiceError =>
  new ServiceError(400, 'invalid_payload', message, '$', cause === undefined ? {} : { cause })
export const templateNotFound = (name: string): ServiceError =>
  new ServiceError(404, 'not_found', `there is no template "${name}"`)
