import { ServiceError } from 'rowhouse'

/** 400: a template cannot be parsed, or cannot be rendered with these values. */
export const badTemplate = (message: string, cause?: unknown): ServiceError =>
  new ServiceError(400, 'invalid_payload', message, '$', cause === undefined ? {} : { cause })
export const templateNotFound = (name: string): ServiceError =>
  new ServiceError(404, 'not_found', `there is no template "${name}"`)
