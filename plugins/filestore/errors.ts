import { ServiceError } from 'rowhouse'

/** 400: the request is not as it should be. */
export const badRequest = (message: string): ServiceError => new ServiceError(400, 'bad_request', message)
export const missingHeader = (name: string): ServiceError => badRequest(`missing header: ${name}`)
export const accessDenied = (message: string): ServiceError => new ServiceError(403, 'access_denied', message)
export const notFound = (id: string): ServiceError => new ServiceError(404, 'not_found', `file not found : ${id}`)
export const alreadyExists = (id: string): ServiceError => badRequest(`file already exists : ${id}`)
/** 500, and in the log what happened. */
export const broken = (cause: unknown): ServiceError =>
  new ServiceError(500, 'fatal_internal_error', 'internal server error', '$', { cause })

/** `{code, message}`; what nobody foresaw is `fatal_internal_error`. */
export const errorBody = ({ status, code, message }: ServiceError): object =>
  status === 500
    ? { code: 'fatal_internal_error', message: 'internal server error' }
    : { code: code.replaceAll('-', '_'), message }
