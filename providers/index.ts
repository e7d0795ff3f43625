/** Helpers for providers with an HTTP API, as the built-in ones use them. */
export { textAt, tryParseJson, valueAt } from './answer.js'
export {
  type Api,
  type ApiAnswer,
  type ApiOptions,
  apiUrl,
  baseOf,
  createApi,
  endpoint,
  secret,
  throwIfAborted,
  timeoutMs,
  unreadable,
} from './api.js'
export { domains, formatMailbox, formatMailboxInAscii } from './email/mailbox.js'
export { constantTimeEqual, isRecent, notEvents, notSigned, ownMessage, parseEvents } from './events.js'
