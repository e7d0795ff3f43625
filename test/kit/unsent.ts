import { createUnsent } from '../../core/http/unsent.js'

/** For apps whose clients may leave unread what they like. */
export const UNSENT = createUnsent({ maxAnswerBytes: Infinity, streamMaxAgeMs: Infinity, streamMinBytesPerSecond: 0 })
