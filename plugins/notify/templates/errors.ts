import { type ServiceError, serviceError } from 'rowhouse'

/** 400: a template cannot be parsed, or cannot be rendered with these values. */
export const badTemplate = (message: string, cause?: unknown): ServiceError =>
  serviceError('invalid_payload', message, '$', cause === undefined ? {} : { cause })
export const templateNotFound = (name: string): ServiceError =>
  serviceError('not-found', `there is no template "${name}"`)
