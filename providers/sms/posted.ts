import { createHash, timingSafeEqual } from 'node:crypto'
import { ServiceError } from 'rowhouse'

/** Whether two texts are the same; how long it takes does not tell how much of them is. */
export function isSame(one: string, other: string): boolean {
  return timingSafeEqual(hash(one), hash(other))
}
const hash = (text: string) => createHash('sha256').update(text).digest()

/** 401: the provider did not make what was posted. */
export const unauthorized = (message: string) => new ServiceError(401, 'unauthorized', message)
/** 400: the provider made it, and it cannot be read. */
export const invalidPayload = (message: string) => new ServiceError(400, 'invalid_payload', message)
