import { createHeld } from '../../core/http/traffic.js'

/** For apps whose clients may leave unread what they like. */
export const HELD = createHeld({
  maxAnswerBytes: Infinity,
  maxAnonymousAnswerBytes: Infinity,
  streamMaxAgeMs: Infinity,
  streamMinBytesPerSecond: 0,
})
