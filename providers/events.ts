import { createHash, timingSafeEqual } from 'node:crypto'
import { type DeliveryEvent, type ServiceError, serviceError } from 'rowhouse'

/** Compares secrets and signatures in constant time. */
export const constantTimeEqual = (a: string, b: string): boolean => timingSafeEqual(hash(a), hash(b))
const hash = (text: string) => createHash('sha256').update(text).digest()

/** @param seconds Unix time as the provider sent it */
export function isRecent(seconds: string | undefined, withinSeconds: number): boolean {
  const age = Date.now() / 1000 - Number(seconds === undefined || seconds === '' ? NaN : seconds)
  return Math.abs(age) <= withinSeconds
}

/** Returns a 401. */
export const notSigned = (message = 'the signature is wrong, or the event is too old'): ServiceError =>
  serviceError('unauthorized', message)

/** @throws ServiceError 400 */
export function parseEvents(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch (cause) {
    throw serviceError('invalid_payload', 'the body is not JSON', '$', { cause })
  }
}

/** Returns a 400. */
export const notEvents = (message = 'the body is not an event of the provider'): ServiceError =>
  serviceError('invalid_payload', message)

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Returns Rowhouse's id of the message, if the event has one. */
export const ownMessage = (id: string | undefined): Pick<DeliveryEvent, 'message'> =>
  id !== undefined && UUID.test(id) ? { message: id } : {}
