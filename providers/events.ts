import { createHash, timingSafeEqual } from 'node:crypto'
import { type DeliveryEvent, type ServiceError, serviceError } from 'rowhouse'

/** Compares secrets and signatures; takes as long for wrong ones. */
export const isSame = (one: string, other: string): boolean => timingSafeEqual(hash(one), hash(other))
const hash = (text: string) => createHash('sha256').update(text).digest()

/** @param seconds since 1970, as the provider wrote them */
export function isRecent(seconds: string | undefined, withinSeconds: number): boolean {
  const age = Date.now() / 1000 - Number(seconds === undefined || seconds === '' ? NaN : seconds)
  return Math.abs(age) <= withinSeconds
}

/** 401: the provider did not make it, or not now. */
export const notSigned = (message = 'it does not come from the provider, or is too old'): ServiceError =>
  serviceError('unauthorized', message)

/** @throws ServiceError 400 */
export function jsonOf(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch (cause) {
    throw serviceError('invalid_payload', 'the body is not JSON', '$', { cause })
  }
}

/** 400: the provider made it, and it cannot be read. */
export const notEvents = (message = 'the body is not what the provider posts about messages'): ServiceError =>
  serviceError('invalid_payload', message)

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Of an event: the id that was given along with the message, if it is one of ours. */
export const ourId = (given: string | undefined): Pick<DeliveryEvent, 'message'> =>
  given !== undefined && UUID.test(given) ? { message: given } : {}
